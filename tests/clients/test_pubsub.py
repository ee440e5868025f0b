"""Pub/sub: by redis-py and its cluster client as their users call them, and beside Debian's redis-server 7.0, byte for byte."""

import concurrent.futures
import contextlib
import socket
import time
import unittest

import redis

from restartable import Restartable
from run import server
from servers import Server, expresslane_command, redis_command

SECONDS_MAX = 10
# Who says what, in this order; what each has heard is compared after each step. Numbers of clients and the like are not in it.
TALKS = [
    [("a", "SUBSCRIBE one two one"), ("b", "PUBLISH one hello"), ("b", "PUBLISH three nobody"), ("a", "PUBLISH one x"), ("a", "PING"), ("a", "PING x"),
     ("a", "GET k"), ("a", "UNSUBSCRIBE two"), ("a", "UNSUBSCRIBE"), ("a", "UNSUBSCRIBE"), ("a", "PING"), ("a", "UNSUBSCRIBE x y")],
    # Redis tells names in the order of a table that is hashed anew each time, so there is one in each answer.
    [("a", "PSUBSCRIBE n*s [k]y x?"), ("b", "PUBLISH news today"), ("b", "PUBLISH ky end"), ("b", "PUBLISH xx two"), ("b", "PUBLISH xyz three"),
     ("a", "SUBSCRIBE news"), ("b", "PUBLISH news again"), ("b", "PUBSUB NUMPAT"), ("b", "PUBSUB NUMSUB news odds"), ("b", "PUBSUB CHANNELS n*"),
     ("b", "PUBSUB CHANNELS x*"), ("a", "PUNSUBSCRIBE n*s x?"), ("b", "PUBLISH news third"), ("a", "PUNSUBSCRIBE"), ("a", "RESET"),
     ("b", "PUBLISH news none"), ("a", "PING")],
    [("a", "SSUBSCRIBE s1 s2"), ("b", "SPUBLISH s1 x"), ("b", "PUBLISH s1 y"), ("b", "PUBSUB SHARDCHANNELS *1"), ("b", "PUBSUB SHARDNUMSUB s1 s3"),
     ("a", "SUNSUBSCRIBE s1"), ("a", "SUNSUBSCRIBE"), ("a", "SUNSUBSCRIBE")],
    [("a", "HELLO 3"), ("a", "SUBSCRIBE c"), ("a", "PUBLISH c own"), ("a", "SET k v"), ("a", "GET k"), ("b", "PUBLISH c from-b"), ("a", "PING"),
     ("a", "UNSUBSCRIBE"), ("a", "UNSUBSCRIBE")],
    [("a", "SUBSCRIBE m"), ("b", "MULTI"), ("b", "PUBLISH m 1"), ("b", "INCR n"), ("b", "PUBLISH m 2"), ("b", "EXEC"),
     ("b", "EVAL return(redis.call('publish',KEYS[1],'lua')) 1 m"), ("b", "EVAL_RO return(redis.pcall('publish','m','x').err) 0")],
    [("a", "MULTI"), ("a", "SUBSCRIBE m"), ("a", "PING"), ("a", "EXEC"), ("b", "PUBLISH m x"), ("a", "GET k"), ("a", "MULTI"), ("a", "QUIT")],
    # Transactions of who listens: with RESP3 all of one, with RESP2 no more once it listens.
    [("a", "HELLO 3"), ("a", "SUBSCRIBE c"), ("a", "WATCH k"), ("a", "MULTI"), ("b", "PUBLISH c between"), ("a", "SET k v"), ("a", "GET k"),
     ("a", "UNSUBSCRIBE c"), ("a", "PUBLISH c unheard"), ("a", "SUBSCRIBE d"), ("a", "EXEC"), ("b", "PUBLISH d x"), ("a", "MULTI"), ("a", "SUBSCRIBE"),
     ("a", "EXEC"), ("a", "MULTI"), ("a", "GET k"), ("a", "DISCARD"), ("a", "EXEC")],
    [("a", "MULTI"), ("a", "SET k v"), ("a", "SUBSCRIBE m"), ("a", "GET k"), ("a", "EXEC"), ("a", "EXEC"), ("a", "DISCARD"), ("a", "WATCH k"),
     ("a", "UNSUBSCRIBE"), ("a", "EXEC"), ("a", "GET k")],
    [("a", "SUBSCRIBE"), ("a", "PUBLISH c"), ("a", "PUBSUB"), ("a", "PUBSUB NOSUCH"), ("a", "PUBSUB NUMPAT x"), ("a", "PUBSUB CHANNELS a b"),
     ("a", "PUBSUB NUMSUB"), ("a", "SPUBLISH c"), ("a", "CLIENT REPLY OFF"), ("a", "SUBSCRIBE quiet"), ("b", "PUBLISH quiet x")],
]


def hear(connection, size):
    """What has come, once that is so many bytes, and a little later nothing more."""
    heard = b""
    with contextlib.suppress(TimeoutError):
        while True:
            connection.settimeout(SECONDS_MAX if len(heard) < size else 0.1)
            piece = connection.recv(1 << 16)
            if not piece:
                break
            heard += piece
    return heard


def talk(port, steps, want=None):
    """What each client has heard after each step: as much as is wanted, or a reply and what comes with it, and no more."""
    sizes = [(1, 0)] * (1 + len(steps)) if want is None else [(len(one), len(other)) for _, one, other in want]
    with contextlib.ExitStack() as stack:
        clients = {name: stack.enter_context(socket.create_connection(("127.0.0.1", port))) for name in "ab"}
        heard = []
        for (name, command), (own, others) in zip([("b", "FLUSHALL"), *steps], sizes):
            words = command.split(" ")
            clients[name].sendall(b"".join([b"*%d\r\n" % len(words), *(b"$%d\r\n%s\r\n" % (len(word), word.encode()) for word in words)]))
            # What HELLO says names the server, and has another length; and one has no reply.
            own = 1 if command.startswith("HELLO") else 0 if command == "CLIENT REPLY OFF" else own
            heard.append((command, hear(clients[name], own), hear(clients["b" if name == "a" else "a"], others)))
        return heard


class BesideRedis(unittest.TestCase):
    def test_the_same_is_heard(self):
        with contextlib.ExitStack() as stack:
            theirs = stack.enter_context(Server("redis", redis_command))
            ours = [stack.enter_context(Server("expresslane", expresslane_command(lanes=lanes))) for lanes in (1, 3)]
            pool = stack.enter_context(concurrent.futures.ThreadPoolExecutor())
            for steps in TALKS:
                want = talk(theirs.port, steps)
                hello = [index for index, (command, *_) in enumerate(want) if command.startswith("HELLO")]
                for heard in pool.map(lambda side: talk(side.port, steps, want), ours):
                    for index, (one, other) in enumerate(zip(want, heard)):
                        if index not in hello:
                            self.assertEqual(one, other, steps)

    def test_a_message_to_oneself_is_never_inside_of_a_reply(self):
        """Redis 7.0 puts it there."""
        message, subscribe = b">3\r\n$7\r\nmessage\r\n$1\r\n%s\r\n$1\r\nx\r\n", b">3\r\n$9\r\nsubscribe\r\n$1\r\nd\r\n:2\r\n"
        begun = [("a", "HELLO 3"), ("a", "SUBSCRIBE c"), ("a", "MULTI"), ("a", "PUBLISH c x")]
        for more, want in [
            ([], message % b"c" + b"*1\r\n:1\r\n"),
            ([("a", "SUBSCRIBE d"), ("a", "PUBLISH d x")], message % b"c" + b"*3\r\n:1\r\n" + subscribe + b":1\r\n" + message % b"d"),
        ]:
            for lanes in (1, 3):
                with Server("expresslane", expresslane_command(lanes=lanes)) as side:
                    self.assertEqual(talk(side.port, [*begun, *more, ("a", "EXEC")])[-1], ("EXEC", want, b""))


def messages(pubsub, count):
    """The next so many messages, without confirmations."""
    got, until = [], time.monotonic() + SECONDS_MAX
    while len(got) < count and time.monotonic() < until:
        message = pubsub.get_message(ignore_subscribe_messages=True, timeout=1)
        if message:
            got.append((message["type"], message["pattern"], message["channel"], message["data"]))
    return got


class RedisPy(unittest.TestCase):
    def test_channels_and_patterns(self):
        for protocol in (2, 3):
            with redis.Redis(port=server().port, protocol=protocol, decode_responses=True) as client, client.pubsub() as pubsub:
                names = [f"c:{number}" for number in range(200)]
                pubsub.subscribe(*names)
                pubsub.psubscribe("d:*")
                while client.pubsub_numpat() == 0 or len(client.pubsub_channels("c:*")) < len(names):
                    pubsub.get_message(timeout=0.01)
                self.assertEqual([client.publish(name, name) for name in [*names, "d:1", "e"]], [1] * 201 + [0])
                want = [("message", None, name, name) for name in names] + [("pmessage", "d:*", "d:1", "d:1")]
                self.assertEqual(messages(pubsub, 201), want)
                long = "0123456789" * 500_000
                client.publish("d:long", long)
                self.assertEqual(messages(pubsub, 1), [("pmessage", "d:*", "d:long", long)])

    def test_who_goes_is_counted_no_more(self):
        with redis.Redis(port=server().port, decode_responses=True) as client:
            pubsub = client.pubsub()
            pubsub.subscribe("gone")
            pubsub.get_message(timeout=SECONDS_MAX)
            self.assertEqual(client.pubsub_numsub("gone"), [("gone", 1)])
            self.assertEqual([entry["sub"] for entry in client.client_list("pubsub")], ["1"])
            pubsub.close()
            until = time.monotonic() + SECONDS_MAX
            while client.pubsub_numsub("gone") != [("gone", 0)]:
                self.assertLess(time.monotonic(), until)
            self.assertEqual(client.publish("gone", "x"), 0)

    def test_lanes_are_one_cluster(self):
        with Restartable() as own:
            cluster = redis.RedisCluster(host="127.0.0.1", port=own.lane_ports()[0], decode_responses=True)
            with contextlib.closing(cluster), cluster.pubsub() as pubsub, redis.Redis(port=own.port) as shared:
                pubsub.subscribe("news")
                pubsub.get_message(timeout=SECONDS_MAX)
                self.assertEqual(shared.publish("news", "by the shared port"), 1)
                for port in own.lane_ports():
                    with redis.Redis(port=port) as lane:
                        lane.publish("news", str(port))
                want = ["by the shared port", *map(str, own.lane_ports())]
                self.assertEqual([data for *_, data in messages(pubsub, len(want))], want)
                for number in range(50):
                    with cluster.pubsub() as sharded:
                        sharded.ssubscribe(f"s:{number}")
                        sharded.get_sharded_message(timeout=SECONDS_MAX)
                        self.assertEqual(cluster.spublish(f"s:{number}", "x"), 1)


if __name__ == "__main__":
    unittest.main()
