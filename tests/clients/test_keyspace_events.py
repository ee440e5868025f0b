"""Keyspace events beside Debian's redis-server 7.0: random commands, and what somebody who listens to all of it hears of each key."""

import contextlib
import random
import time
import unittest

import redis

from servers import Server, expresslane_command, redis_command

SEEDS = range(6)
STEPS = 400
SECONDS_MAX = 10
KEYS = ["a", "b", "c", "{t}d", "{t}e", "long key"]
SCRIPT = "redis.call('set', KEYS[1], ARGV[1]); redis.call('expire', KEYS[1], 50); return redis.call('get', KEYS[1])"


def command(chance, value):
    """One that fails or not, the same way on both sides. `value` is what DUMP says of one."""
    key, other = chance.choice(KEYS), chance.choice(KEYS)
    number = str(chance.randrange(-3, 40))
    few = sorted({key, other})
    pairs = [word for name in few for word in (name, number)]
    return chance.choice([
        ["SET", key, number], ["SET", key, number, "EX", "100"], ["SET", key, number, "KEEPTTL"], ["SET", key, number, "NX"],
        ["SET", key, number, "XX", "GET"], ["SETNX", key, number], ["SETEX", key, "100", number], ["PSETEX", key, "100000", number],
        ["GETSET", key, number], ["GETDEL", key], ["GETEX", key, "EX", "100"], ["GETEX", key, "PERSIST"], ["GETEX", key], ["GETEX", key, "PXAT", "1"],
        ["APPEND", key, number], ["SETRANGE", key, "3", "xy"], ["SETRANGE", key, "3", ""], ["SETBIT", key, "9", "1"], ["SETBIT", key, "3", "0"],
        ["BITFIELD", key, "SET", "u8", "0", "50", "INCRBY", "u8", "8", "1"], ["BITFIELD", key, "GET", "u8", "0"], ["BITOP", "OR", key, other],
        ["INCR", key], ["DECR", key], ["INCRBY", key, number], ["DECRBY", key, number], ["INCRBYFLOAT", key, "1.5"],
        ["MSET", *pairs], ["MSETNX", *pairs], ["DEL", *few], ["UNLINK", key, "nothing"], ["RENAME", key, other], ["RENAMENX", key, other],
        ["COPY", key, other], ["COPY", key, other, "REPLACE"], ["COPY", key, other, "DB", "1", "REPLACE"], ["MOVE", key, "1"],
        ["EXPIRE", key, "100"], ["EXPIRE", key, "-1"], ["PEXPIRE", key, "90000", "NX"], ["EXPIREAT", key, "1"], ["PERSIST", key],
        ["RESTORE", key, "0", value], ["RESTORE", key, "90000", value, "REPLACE"], ["RESTORE", key, "1", value, "REPLACE", "ABSTTL"],
        ["GET", key], ["MGET", *few], ["EXISTS", *few], ["TOUCH", key], ["TTL", key], ["TYPE", key], ["OBJECT", "FREQ", key], ["STRLEN", key],
        ["GETRANGE", key, "0", "1"], ["GETBIT", key, "1"], ["BITCOUNT", key], ["DUMP", key], ["LCS", *few] if len(few) == 2 else ["GET", key],
        ["EVAL", SCRIPT, "1", key, number], ["SELECT", "1"], ["SELECT", "0"], ["SWAPDB", "0", "1"], ["FLUSHDB"],
    ])


def stream(seed, value):
    """Commands, some of them in a MULTI; the last ones leave keys that end."""
    chance = random.Random(seed)
    steps, is_queueing = [], False
    for _ in range(STEPS):
        if chance.random() < (0.3 if is_queueing else 0.05):
            steps.append(["EXEC" if is_queueing else "MULTI"])
            is_queueing = not is_queueing
        steps.append(command(chance, value))
    if is_queueing:
        steps.append(["EXEC"])
    return [*steps, ["SELECT", "0"], *(["SET", key, "1", "PX", "20"] for key in KEYS)]


class Listener:
    """Everything that is said of keys, from now on."""

    def __init__(self, port):
        self.client = redis.Redis(port=port)
        self.pubsub = self.client.pubsub(ignore_subscribe_messages=True)
        self.pubsub.psubscribe("__key*")
        self.pubsub.parse_response()
        self.heard = []

    def hear(self, count):
        """Until so much has come, and a little longer."""
        until = time.monotonic() + SECONDS_MAX
        while time.monotonic() < until:
            message = self.pubsub.get_message(timeout=0.2)
            if message:
                self.heard.append((message["channel"], message["data"]))
            elif len(self.heard) >= count:
                break
        return self.heard


def run(port, classes, steps, count):
    """The replies and what was heard."""
    with contextlib.closing(redis.Redis(port=port, protocol=2)) as admin, contextlib.closing(redis.Redis(port=port, single_connection_client=True)) as client:
        admin.flushall()
        admin.config_set("notify-keyspace-events", classes)
        listener = Listener(port)
        replies = []
        for step in steps:
            client.connection.send_command(*step)
            try:
                # Errors inside of an EXEC are equal to none.
                replies.append(repr(client.connection.read_response()))
            except redis.ResponseError as error:
                replies.append(f"error {error}")
        return replies, listener.hear(count)


def by_key(heard):
    """For each key of each database its events, as the channels of keys and as those of events have them."""
    keyspace, keyevent = {}, {}
    for channel, data in heard:
        place, name = channel.split(b":", 1)
        kind, db = place.strip(b"_").split(b"@")
        if kind == b"keyspace":
            keyspace.setdefault((db, name), []).append(data)
        else:
            keyevent.setdefault((db, data), []).append(name)
    return keyspace, keyevent


def dumped(port):
    """What DUMP says of a value."""
    with contextlib.closing(redis.Redis(port=port)) as client:
        client.set("a", "value")
        return client.dump("a")


class BesideRedis(unittest.TestCase):
    maxDiff = None

    def test_the_same_is_heard_of_each_key(self):
        with contextlib.ExitStack() as stack:
            theirs = stack.enter_context(Server("redis", redis_command))
            ours = {lanes: stack.enter_context(Server("expresslane", expresslane_command(lanes=lanes))) for lanes in (1, 3)}
            value = dumped(theirs.port)
            for seed in SEEDS:
                steps = stream(seed, value)
                classes = ["AKE", "AKEm", "AKEn", "Kg$", "Ex", "KEAmn"][seed % 6]
                want_replies, want = run(theirs.port, classes, steps, 0)
                self.assertGreater(len(want), 5, "Redis says something")
                for lanes, side in ours.items():
                    with self.subTest(seed=seed, lanes=lanes, classes=classes):
                        replies, heard = run(side.port, classes, steps, len(want))
                        differing = [(step, one, other) for step, one, other in zip(steps, want_replies, replies) if one != other]
                        self.assertEqual(differing, [])
                        for got, wanted in zip(by_key(heard), by_key(want)):
                            self.assertEqual(got, wanted)

    def test_one_lane_says_it_in_the_same_order(self):
        """But for keys whose time has come: Redis finds those by chance."""
        with Server("redis", redis_command) as theirs, Server("expresslane", expresslane_command(lanes=1)) as ours:
            value = dumped(theirs.port)
            for seed in SEEDS:
                steps = stream(100 + seed, value)[: -len(KEYS)]
                want_replies, want = run(theirs.port, "AKEmn", steps, 0)
                replies, heard = run(ours.port, "AKEmn", steps, len(want))
                self.assertEqual(heard, want, f"seed {seed}")
                self.assertEqual(replies, want_replies)

    def test_what_is_loaded_is_not_said(self):
        """From another server, or anew by DEBUG RELOAD. What the other server does then is."""
        with contextlib.ExitStack() as stack:
            primary = stack.enter_context(Server("redis", redis_command))
            for lanes in (1, 3):
                side = stack.enter_context(Server("expresslane", expresslane_command(lanes=lanes, extra=("--enable-debug-command", "yes"))))
                with self.subTest(lanes=lanes), contextlib.closing(redis.Redis(port=primary.port)) as leader, contextlib.closing(redis.Redis(port=side.port)) as follower:
                    leader.flushall()
                    leader.mset({key: "1" for key in KEYS})
                    follower.config_set("notify-keyspace-events", "AKEn")
                    listener = Listener(side.port)
                    follower.replicaof("127.0.0.1", primary.port)
                    until = time.monotonic() + SECONDS_MAX
                    while follower.dbsize() < len(KEYS) or follower.info("replication")["master_link_status"] != "up":
                        self.assertLess(time.monotonic(), until, "it has followed")
                        time.sleep(0.05)
                    leader.set("x", "1")
                    self.assertEqual([data for channel, data in listener.hear(3) if channel == b"__keyspace@0__:x"], [b"new", b"set"])
                    self.assertEqual(len(listener.heard), 4)
                    follower.replicaof("NO", "ONE")
                    follower.execute_command("DEBUG", "RELOAD")
                    follower.delete("x")
                    self.assertEqual(listener.hear(6)[4:], [(b"__keyspace@0__:x", b"del"), (b"__keyevent@0__:del", b"x")])


if __name__ == "__main__":
    unittest.main()
