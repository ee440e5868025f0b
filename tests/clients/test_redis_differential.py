"""This server and Debian's redis-server 7.0 side by side: the same commands, drawn from seeds, and the same replies.

An episode is one seed: a connection, RESP2 or RESP3, pipelines of random length, cut at random bytes, a tenth of their commands inline;
at the end keys, values and ends of all databases are compared. This server runs with one lane and with four. What differs and is wanted
is in docs/compatibility.md and is not drawn; anything else is a failure, shown with the fewest commands that lead to it.
"""

import itertools
import random
import socket
import time
import unittest

import shrink
from redis_commands import Draw, rule_of
from servers import Server, expresslane_command, redis_command

EPISODES = 150
BATCHES = 12
BATCH_COMMANDS_MAX = 40
COMMANDS_MIN = 30_000
REPLY_SECONDS_MAX = 20
DATABASES = 16
# Ends may be so far apart: the servers are asked one after the other.
ENDS_MS_MAX = 5000


class Difference(Exception):
    """Two servers have answered differently; the text shows how."""


def bulks(args):
    return b"*%d\r\n" % len(args) + b"".join(b"$%d\r\n%s\r\n" % (len(arg), arg) for arg in args)


def inline(args):
    return b" ".join(b'"' + b"".join(b"\\x%02x" % byte for byte in arg) + b'"' for arg in args) + b"\r\n"


def parse(data, at):
    """The reply at `at` as its marker and its bytes or parts, None for RESP2's null, and where it ends. No reply where it is cut off."""
    end = data.find(b"\r\n", at)
    if end < 0:
        return None, at
    marker, line, at = bytes(data[at:at + 1]), bytes(data[at + 1:end]), end + 2
    if marker in b"$*" and line == b"-1":
        return (marker, None), at
    if marker in b"$=":
        end = at + int(line)
        return ((marker, bytes(data[at:end])), end + 2) if len(data) >= end + 2 else (None, at)
    if marker not in b"*%~":
        return (marker, line), at
    parts = []
    for _ in range(int(line) * (2 if marker == b"%" else 1)):
        part, at = parse(data, at)
        if part is None:
            return None, at
        parts.append(part)
    return (marker, parts), at


def is_same(left, right, rule):
    """Whether one server may say the one and the other the other."""
    if left == right:
        return True
    if left[0] != right[0] or left[0] == b"-":
        return False
    if rule == "kind":
        return (left[1] is None) == (right[1] is None)
    if rule == "unordered":
        return isinstance(left[1], list) and isinstance(right[1], list) and sorted(left[1]) == sorted(right[1])
    return isinstance(rule, int) and left[0] == b":" and abs(int(left[1]) - int(right[1])) <= rule and int(left[1]) > 0 < int(right[1])


class Side:
    """One server under comparison, with a connection."""

    def __init__(self, name, port):
        self.name = name
        self.port = port
        self.client = None

    def connect(self):
        self.close()
        self.client = socket.create_connection(("127.0.0.1", self.port), REPLY_SECONDS_MAX)
        self.client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def close(self):
        if self.client is not None:
            self.client.close()

    def ask(self, pieces, count):
        """So many replies to what is sent in these pieces."""
        for piece in pieces:
            self.client.sendall(piece)
        received, replies, at = bytearray(), [], 0
        while len(replies) < count:
            reply, end = parse(received, at)
            if reply is not None:
                replies.append(reply)
                at = end
                continue
            try:
                piece = self.client.recv(1 << 20)
            except TimeoutError:
                piece = b""
            if not piece:
                raise Difference(f"{self.name} answers {len(replies)} of {count} commands; then comes {bytes(received[at:at + 200])!r}")
            received += piece
        return replies

    def call(self, *commands):
        return self.ask([b"".join(bulks(args) for args in commands)], len(commands))

    def state(self):
        """Value and end of each key in each database."""
        self.call([b"RESET"])
        state = {}
        for db in range(DATABASES):
            keys = sorted(key for _, key in self.call([b"SELECT", b"%d" % db], [b"KEYS", b"*"])[1][1])
            for key in keys:
                value, end = self.call([b"GET", key], [b"PEXPIRETIME", key])
                state[db, key] = (value, int(end[1]))
        return state


class Episode:
    """The commands of one seed. Whatever becomes of them, the same are drawn again."""

    def __init__(self, seed, now_s):
        self.dice = random.Random(seed)
        self.proto = b"%d" % self.dice.choice([2, 3])
        draw = Draw(self.dice, now_s)
        self.batches = [[draw.command() for _ in range(self.dice.randint(1, BATCH_COMMANDS_MAX))] for _ in range(BATCHES)]
        self.cuts_seed = self.dice.random()

    def run(self, redis, ours, batches=None):
        """Raises Difference where this server answers otherwise than redis-server."""
        dice = random.Random(self.cuts_seed)
        for side in (redis, ours):
            side.connect()
            side.call([b"FLUSHALL"], [b"CONFIG", b"SET", b"hz", b"10"], [b"HELLO", self.proto])
        queued = []
        for batch in self.batches if batches is None else batches:
            data = b"".join((inline if dice.random() < 0.1 else bulks)(args) for args in batch)
            cuts = [0, *sorted(dice.randrange(len(data)) for _ in range(dice.choice([0, 0, 1, 2, 5]))), len(data)]
            pieces = [data[start:end] for start, end in itertools.pairwise(cuts)]
            for args, *replies in zip(batch, *(side.ask(pieces, len(batch)) for side in (redis, ours)), strict=True):
                queued = self.compare(args, *replies, queued)
        left, right = redis.state(), ours.state()
        for place in sorted(left.keys() | right.keys()):
            one, other = (state.get(place, (b"(no such key)", 0)) for state in (left, right))
            if one[0] != other[0] or abs(one[1] - other[1]) > ENDS_MS_MAX:
                raise Difference(f"database and key {place} are {one} and not {other} at the end")

    def compare(self, args, left, right, queued):
        """Compares the replies to a command; gives the commands that are queued behind it."""
        rules = [rule_of(args)]
        pairs = [(left, right)]
        is_ran = args[0].upper() == b"EXEC" and left[0] == right[0] == b"*" and left[1] and right[1]
        if is_ran and len(left[1]) == len(right[1]) == len(queued):
            rules, pairs = [rule_of(args) for args in queued], zip(left[1], right[1], strict=True)
        for rule, (one, other) in zip(rules, pairs, strict=True):
            if not is_same(one, other, rule):
                raise Difference(f"{args} is answered with {str(one)[:300]} and not {str(other)[:300]}")
        if left == (b"+", b"QUEUED"):
            return [*queued, args]
        # Inside MULTI all else is refused, but for what begins or ends it.
        return queued if left[0] == b"-" else []


def fewest(episode, redis, ours):
    """The commands that are left when all are taken away without which the servers differ as well; and how they differ."""

    def difference(commands):
        try:
            episode.run(redis, ours, [[args] for args in commands])
        except Difference as difference:
            return difference
        return None

    commands, said = shrink.fewest([args for batch in episode.batches for args in batch], difference)
    return commands, said or "nothing, one by one"


class Differential(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.servers = [Server("redis", redis_command)]
        cls.servers += [Server("expresslane", expresslane_command(lanes=lanes)) for lanes in (1, 4)]
        names = ("redis-server", "this server with 1 lane", "this server with 4 lanes")
        cls.sides = [Side(name, server.port) for name, server in zip(names, cls.servers, strict=True)]

    @classmethod
    def tearDownClass(cls):
        for side in cls.sides:
            side.close()
        codes = [server.end() for server in cls.servers]
        assert codes[1:] == [0, 0], f"the servers ended with {codes[1:]}"

    def setUp(self):
        redis = self.sides[0]
        redis.connect()
        version = redis.call([b"INFO", b"server"])[0][1].split(b"redis_version:")[1].split(b"\r\n")[0].decode()
        if not version.startswith("7.0."):
            self.skipTest(f"redis-server is {version} here, and 7.0 is what this server follows")

    def test_the_same_commands_have_the_same_replies(self):
        now_s = int(time.time())
        count = 0
        redis = self.sides[0]
        for seed in range(EPISODES):
            episode = Episode(seed, now_s)
            count += sum(len(batch) for batch in episode.batches)
            for ours in self.sides[1:]:
                try:
                    episode.run(redis, ours)
                except Difference as difference:
                    commands, said = fewest(episode, redis, ours)
                    lines = "\n".join(f"  {[arg[:60] for arg in args]}" for args in commands)
                    self.fail(f"seed {seed}, {ours.name}: {difference}\nredis-server and this server after these commands: {said}\n{lines}")
        self.assertGreaterEqual(count, COMMANDS_MIN)
