"""DUMP and RESTORE beside Debian's redis-server 7.0: each restores what the other has dumped, and up to 16 KiB the bytes are the same."""

import contextlib
import random
import unittest

import redis

from servers import Server, expresslane_command, redis_command

# Up to here this server compresses, and with the same result.
COMPRESSED_SIZE_MAX = 16 * 1024


def values(chance):
    """Values of all forms that Redis writes, from empty to 3 MB."""
    yield from (b"", b"x", b"0", b"-0", b"007", b" 1", b"+1", b"a" * 20, b"a" * 21, b"ab" * 40, bytes(range(256)))
    for bits in (7, 8, 15, 16, 31, 32, 63, 64):
        yield from (b"%d" % (sign * 2**bits + more) for sign in (-1, 1) for more in (-1, 0, 1))
    for size in (22, 63, 64, 255, 4096, 16_383, COMPRESSED_SIZE_MAX, COMPRESSED_SIZE_MAX + 1, 32_769, 100_000, 3_000_000):
        alphabet = chance.randbytes(chance.choice((1, 3, 40)))
        yield bytes(chance.choices(alphabet, k=size)) if size < 200_000 else alphabet * (size // len(alphabet))
        yield chance.randbytes(size)
    for _ in range(200):
        words = [chance.randbytes(chance.randrange(1, 30)) for _ in range(chance.randrange(1, 6))]
        yield b"".join(chance.choices(words, k=chance.randrange(1, 200)))


class BesideRedis(unittest.TestCase):
    def test_each_restores_what_the_other_has_dumped(self):
        with contextlib.ExitStack() as stack:
            theirs, *ours = (stack.enter_context(redis.Redis(port=stack.enter_context(server).port)) for server in (
                Server("redis", redis_command), *(Server("expresslane", expresslane_command(lanes=lanes)) for lanes in (1, 3))))
            for number, value in enumerate(values(random.Random(7))):
                key = f"k:{number}"
                for side in (theirs, *ours):
                    side.set(key, value)
                want = theirs.dump(key)
                for side in ours:
                    payload = side.dump(key)
                    if len(value) <= COMPRESSED_SIZE_MAX:
                        self.assertEqual(payload, want, value[:100])
                    for reader, bytes_ in ((theirs, payload), (side, want), (side, payload)):
                        self.assertTrue(reader.restore("restored", 0, bytes_, replace=True))
                        self.assertEqual(reader.get("restored"), value, value[:100])

    def test_what_is_wrong_is_refused_alike(self):
        chance = random.Random(11)
        with contextlib.ExitStack() as stack:
            sides = [stack.enter_context(redis.Redis(port=stack.enter_context(server).port)) for server in (
                Server("redis", redis_command), Server("expresslane", expresslane_command(lanes=2)))]
            for side in sides:
                side.set("k", b"abcabcabc" * 30)
            payload = sides[0].dump("k")
            calls = [("RESTORE", "x", 0, payload[:size]) for size in range(len(payload))]
            for _ in range(100):
                wrong = bytearray(payload)
                wrong[chance.randrange(len(wrong))] ^= 1 << chance.randrange(8)
                calls.append(("RESTORE", "x", 0, bytes(wrong)))
            calls += [
                ("RESTORE", "k", 0, payload), ("RESTORE", "x", -1, payload), ("RESTORE", "x", "y", payload), ("RESTORE", "x", 0, payload, "NOSUCH"),
                ("RESTORE", "x", 0, payload, "IDLETIME", -1), ("RESTORE", "x", 0, payload, "FREQ", 256), ("RESTORE", "x", 0, payload, "FREQ", 1, "IDLETIME", 1),
                ("RESTORE", "x", 1, payload, "ABSTTL"), ("EXISTS", "x"), ("RESTORE", "x", 0, payload, "IDLETIME", 1000), ("OBJECT", "IDLETIME", "x"),
                ("RESTORE", "x", 5000, payload, "REPLACE"), ("GET", "x"), ("PERSIST", "x"), ("DUMP", "nosuch"), ("DUMP",), ("RESTORE", "x", 0),
                ("RESTORE-ASKING", "y", 0, payload), ("GET", "y"),
            ]
            for call in calls:
                replies = []
                for side in sides:
                    try:
                        replies.append(side.execute_command(*call))
                    except redis.ResponseError as error:
                        replies.append(str(error))
                self.assertEqual(*replies, call)


if __name__ == "__main__":
    unittest.main()
