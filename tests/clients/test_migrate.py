"""MIGRATE beside Debian's redis-server 7.0: each moves keys to the other, and what goes wrong is answered in the same words."""

import contextlib
import random
import socket
import threading
import time
import unittest

import redis

from servers import Server, expresslane_command, free_port, redis_command

BUSY = "Target instance replied with error: BUSYKEY Target key name already exists."
# Of a target that has gone: it is noticed by whoever writes or reads next.
GONE = ("IOERR error or timeout reading to target instance", "IOERR error or timeout writing to target instance")


def connect(server):
    return redis.Redis(port=server.port, socket_timeout=30)


class Fake:
    """A server that takes one connection after the other, reads requests, and answers the first `len(replies)` of them."""

    def __init__(self, *replies, reads=True):
        self.replies, self.reads = replies, reads
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.connection_count = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                self.connection_count += 1
                threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _talk(self, connection):
        with contextlib.suppress(OSError), connection:
            for reply in self.replies:
                # What arrives is part of a request at least: keys are not sent before SELECT is answered.
                if not connection.recv(65536):
                    return
                connection.sendall(reply)
            if self.reads:
                connection.recv(65536)
                return
            threading.Event().wait(20)

    def end(self):
        self.listener.close()


class BesideRedis(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stack = contextlib.ExitStack()
        start = lambda *arguments: connect(cls.stack.enter_context(Server(*arguments)))  # noqa: E731
        cls.theirs, cls.target = start("redis", redis_command), start("redis", redis_command)
        cls.ours = [start("expresslane", expresslane_command(lanes=lanes)) for lanes in (1, 3)]
        for client in (cls.theirs, cls.target, *cls.ours):
            cls.stack.callback(client.close)

    @classmethod
    def tearDownClass(cls):
        cls.stack.close()

    def setUp(self):
        for client in (self.theirs, self.target, *self.ours):
            client.flushall()
        self.target.config_set("requirepass", "")

    def migrate(self, source, target, *keys, db=0, timeout=5000, more=()):
        """What MIGRATE answers, or its error; `target` is a client, a fake or a port."""
        port = getattr(target, "port", target)
        if isinstance(target, redis.Redis):
            port = target.connection_pool.connection_kwargs["port"]
        place = keys if len(keys) == 1 else ("",)
        behind = () if len(keys) == 1 else ("KEYS", *keys)
        try:
            return source.execute_command("MIGRATE", "127.0.0.1", port, *place, db, timeout, *more, *behind)
        except redis.RedisError as error:
            return str(error)

    def everywhere(self):
        """A source and a target of each kind."""
        for source in (self.theirs, *self.ours):
            yield source, self.target
        for target in self.ours:
            yield self.theirs, target
        yield tuple(self.ours)

    def test_keys_arrive_with_their_values_and_ends(self):
        chance = random.Random(5)
        values = {f"k:{number}": chance.randbytes(chance.choice((0, 3, 500, 20_000, 70_000))) for number in range(100)}
        values["number"] = b"12345"
        for source, target in self.everywhere():
            source.flushall()
            target.flushall()
            source.mset(values)
            source.pexpire("k:7", 100_000)
            self.assertEqual(self.migrate(source, target, *values, "nosuch", timeout=20_000), b"OK")
            self.assertEqual((source.dbsize(), target.dbsize()), (0, 101))
            self.assertEqual(target.mget(values), list(values.values()))
            self.assertTrue(90_000 < target.pttl("k:7") <= 100_000)
            self.assertEqual(target.ttl("k:8"), -1)
            self.assertEqual(self.migrate(source, target, "nosuch"), b"NOKEY")

    def test_a_value_of_some_megabytes_arrives(self):
        value = random.Random(9).randbytes(30_000_000)
        for source, target in self.everywhere():
            source.set("long", value)
            self.assertEqual(self.migrate(source, target, "long"), b"OK")
            self.assertEqual(source.exists("long"), 0)
            self.assertTrue(target.get("long") == value)
            target.delete("long")

    def test_copy_replace_and_databases(self):
        for source, target in self.everywhere():
            other = redis.Redis(port=target.connection_pool.connection_kwargs["port"], db=9)
            with other:
                other.flushdb()
                source.mset({"k": "here", "l": "here"})
                self.assertEqual(self.migrate(source, target, "k", db=9, more=("COPY",)), b"OK")
                self.assertEqual((source.get("k"), other.get("k")), (b"here", b"here"))
                other.set("k", "there")
                self.assertEqual(self.migrate(source, target, "k", "l", db=9), BUSY)
                self.assertEqual((source.exists("k", "l"), other.get("k"), other.get("l")), (1, b"there", b"here"))
                self.assertEqual(self.migrate(source, target, "k", db=9, more=("REPLACE",)), b"OK")
                self.assertEqual((source.exists("k"), other.get("k")), (0, b"here"))
                source.set("k", "again")
                wrong = "Target instance replied with error: ERR DB index is out of range"
                self.assertEqual(self.migrate(source, target, "k", db=99), wrong)
                self.assertEqual(source.get("k"), b"again")

    def test_passwords(self):
        for source in (self.theirs, *self.ours):
            source.set("k", "v")
            unknown = self.migrate(source, self.target, "k", more=("AUTH", "any"))
            self.assertTrue(unknown.startswith("Target instance replied with error: ERR AUTH <password> called"), unknown)
            self.target.delete("k")
            self.target.config_set("requirepass", "secret")
            # Connections that came before are known to redis-server already.
            self.target.client_kill_filter(skipme=True)
            refused = "Target instance replied with error: NOAUTH Authentication required."
            self.assertEqual(self.migrate(source, self.target, "k"), refused)
            wrong = self.migrate(source, self.target, "k", more=("AUTH2", "default", "wrong"))
            self.assertTrue(wrong.startswith("Target instance replied with error: WRONGPASS"), wrong)
            self.assertEqual(source.exists("k"), 1)
            self.assertEqual(self.migrate(source, self.target, "k", more=("AUTH", "secret")), b"OK")
            self.assertEqual((source.exists("k"), self.target.get("k")), (0, b"v"))
            self.target.delete("k")
            self.target.config_set("requirepass", "")

    def test_what_goes_wrong_is_said_in_the_same_words(self):
        for source in (self.theirs, *self.ours):
            source.set("k", "v")
            self.assertEqual(self.migrate(source, free_port(), "k"), "IOERR error or timeout writing to target instance")
            with self.assertRaises(redis.ResponseError) as caught:
                source.execute_command("MIGRATE", "no.such.host.invalid", 6379, "k", 0, 1000)
            self.assertEqual(str(caught.exception), "IOERR error or timeout connecting to the client")
            silent = Fake(reads=False)
            self.addCleanup(silent.end)
            began = time.monotonic()
            self.assertEqual(self.migrate(source, silent, "k", timeout=100), "IOERR error or timeout reading to target instance")
            self.assertLess(time.monotonic() - began, 5)
            gone = Fake()
            self.addCleanup(gone.end)
            self.assertIn(self.migrate(source, gone, "k"), GONE)
            self.assertEqual(gone.connection_count, 2)
            self.assertEqual(source.get("k"), b"v")
            for words in (("h", 1, "k", 0), ("h", 1, "k", 0, 9, "AUTH"), ("h", 1, "k", "x", 9), ("h", 1, "k", 0, 9, "KEYS", "a")):
                replies = []
                for side in (self.theirs, source):
                    with self.assertRaises(redis.ResponseError) as caught:
                        side.execute_command("MIGRATE", *words)
                    replies.append(str(caught.exception))
                self.assertEqual(*replies)

    def test_a_target_that_dies_half_way_has_what_it_has_answered(self):
        for source in self.ours:
            source.mset({f"k:{number}": "v" for number in range(10)})
            # SELECT, then three of the keys.
            half = Fake(b"+OK\r\n", b"+OK\r\n+OK\r\n+OK\r\n")
            self.addCleanup(half.end)
            told = self.migrate(source, half, *(f"k:{number}" for number in range(10)))
            self.assertIn(told, GONE)
            self.assertEqual(source.dbsize(), 7)
            self.assertEqual(half.connection_count, 1)

    def test_nobody_waits_for_a_target_that_hangs(self):
        for source in self.ours:
            source.set("k", "old")
            silent = Fake(b"+OK\r\n", reads=False)
            self.addCleanup(silent.end)
            told = []
            thread = threading.Thread(target=lambda: told.append(self.migrate(source, silent, "k", timeout=700)))
            thread.start()
            other = redis.Redis(port=source.connection_pool.connection_kwargs["port"], socket_timeout=0.5)
            with other:
                for number in range(20):
                    self.assertTrue(other.set("k", number))
                    self.assertEqual(other.get("k"), b"%d" % number)
                    self.assertEqual(other.info("replication")["role"], "master")
            thread.join()
            self.assertEqual(told, ["IOERR error or timeout reading to target instance"])
            self.assertEqual(source.get("k"), b"19")

    def test_keys_that_change_meanwhile_arrive_as_they_are_in_the_end(self):
        for source in self.ours:
            names = [f"k:{number}" for number in range(200)]
            source.mset(dict.fromkeys(names, "0"))
            port = source.connection_pool.connection_kwargs["port"]
            with redis.Redis(port=port) as writer:
                def write(writer=writer):
                    for round_ in range(1, 6):
                        for name in names:
                            writer.execute_command("SET", name, round_, "XX")

                thread = threading.Thread(target=write)
                thread.start()
                for name in names:
                    self.migrate(source, self.target, name)
                thread.join()
            # Wherever a key is, it has its last value: SET … XX has not written what was gone.
            self.assertEqual(source.dbsize() + self.target.dbsize(), len(names))
            left = [name for name in names if source.exists(name)]
            self.assertEqual([source.get(name) for name in left], [b"5"] * len(left))
            self.target.flushall()
            source.flushall()

    def test_monitor_and_slowlog_show_no_password(self):
        for source in self.ours:
            source.config_set("slowlog-log-slower-than", 0)
            source.slowlog_reset()
            self.migrate(source, self.target, "k", more=("AUTH2", "me", "secret"))
            [entry] = [entry for entry in source.slowlog_get() if entry["command"].startswith(b"MIGRATE")]
            self.assertTrue(entry["command"].endswith(b"AUTH2 (redacted) (redacted)"), entry)
            source.config_set("slowlog-log-slower-than", 10_000)

    def test_replicas_are_told_what_has_gone(self):
        source = self.ours[1]
        with Server("redis", redis_command) as server, connect(server) as replica:
            replica.replicaof("127.0.0.1", source.connection_pool.connection_kwargs["port"])
            names = [f"k:{number}" for number in range(20)]
            source.mset(dict.fromkeys(names, "v"))
            self.until(lambda: replica.dbsize() == 20)
            self.assertEqual(self.migrate(source, self.target, *names[:-1]), b"OK")
            self.until(lambda: replica.keys() == [b"k:19"])
            replica.replicaof("NO", "ONE")

    def until(self, holds):
        end = time.monotonic() + 20
        while not holds():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)

    def test_a_server_that_ends_does_not_wait(self):
        silent = Fake(reads=False)
        self.addCleanup(silent.end)
        server = Server("expresslane", expresslane_command(lanes=2))
        with connect(server) as client:
            client.set("k", "v")
            thread = threading.Thread(target=lambda: self.migrate(client, silent, "k", timeout=20_000))
            thread.start()
            while silent.connection_count == 0:
                time.sleep(0.01)
            began = time.monotonic()
            self.assertEqual(server.end(), 0)
            self.assertLess(time.monotonic() - began, 2)
            thread.join()


if __name__ == "__main__":
    unittest.main()
