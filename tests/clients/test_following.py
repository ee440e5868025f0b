"""This server as a replica of redis-server, and of another of its own: what it takes over, and when.

What is asserted here is what redis-server 7.0.15 does as a replica, but for where FOLLOWER_IS_OURS is asked. It runs alone, too, and then against Redis:

    PYTHONPATH=bench REPLICATION_REPLICA=redis python3 tests/clients/test_following.py
"""

import contextlib
import random
import tempfile
import time
import unittest

from replicas import (
    DATABASES, FOLLOWER_IS_OURS, LANES_COUNT, Client, Follower, Refused, WithFollower, check_same, contents, fill_with_every_shape, loaded,
    wait_until)
from servers import Server, expresslane_command
from test_replication import Transfers
from writers import Writer, Writes

LIBRARY = "#!lua name=lib\nredis.register_function{function_name='twice', callback=function(keys) return redis.call('get', keys[1]) * 2 end, flags={'no-writes'}}"


class RedisWrites(Writes):
    def words(self, template):
        # Redis does not tell replicas of a BITFIELD of which each write fails, though it may have made the string longer.
        return super().words("INCR k" if template.startswith("BITFIELD k OVERFLOW FAIL") else template)


class RedisWriter(Writer):
    """A writer whose server is Redis."""

    def __init__(self, port, seed):
        super().__init__(port, seed)
        self.draw = RedisWrites(random.Random(seed))


class Snapshots(WithFollower):
    def test_one_has_every_shape(self):
        fill_with_every_shape(self.client, random.Random(3))
        # With a mark for its end, and with its length first; compressed, and as it is.
        for diskless, compression in (("yes", "yes"), ("no", "yes"), ("yes", "no")):
            self.client("CONFIG", "SET", "repl-diskless-sync", diskless)
            self.client("CONFIG", "SET", "rdbcompression", compression)
            with self.follower() as follower:
                check_same(self.primary, follower)
                # One may take the primary's place.
                with Client(follower.port) as client:
                    client("REPLICAOF", "NO", "ONE")
                    client("SELECT", DATABASES - 1)
                    self.assertEqual(client("INCR", "counter"), 2)

    def test_nothing_is_followed_too(self):
        follower = self.follower()
        check_same(self.primary, follower)
        self.client("SELECT", 7)
        self.client("SET", "first", "in database 7")
        check_same(self.primary, follower)

    def test_what_a_replica_held_is_gone(self):
        self.client("SET", "k", "primary's")
        follower = self.alone()
        client = self.connect(follower)
        client("MSET", "k", "own", "other", "own")
        client("SELECT", 3)
        client("SET", "in database 3", "own")
        client("FUNCTION", "LOAD", LIBRARY.replace("lib", "own").replace("twice", "thrice"))
        self.assertEqual(client("REPLICAOF", "127.0.0.1", self.primary.port), "OK")
        check_same(self.primary, follower)
        self.assertEqual(client("FUNCTION", "LIST"), [])

    def test_functions_come_along(self):
        self.client("SET", "k", 21)
        self.client("FUNCTION", "LOAD", LIBRARY)
        client = self.connect(self.follower())
        self.assertEqual(client("FCALL_RO", "twice", 1, "k"), 42)
        self.client("FUNCTION", "LOAD", "REPLACE", LIBRARY.replace("* 2", "* 3"))
        self.client("FUNCTION", "LOAD", LIBRARY.replace("lib", "other").replace("twice", "again"))
        self.check_wait(1)
        self.assertEqual([client("FCALL_RO", name, 1, "k") for name in ("twice", "again")], [63, 42])
        dump = self.client("FUNCTION", "DUMP")
        self.client("FUNCTION", "DELETE", "lib")
        self.check_wait(1)
        self.assertEqual(str(client.reply("FCALL_RO", "twice", 1, "k")), "ERR Function not found")
        self.client("FUNCTION", "FLUSH")
        self.check_wait(1)
        self.assertEqual(client("FUNCTION", "LIST"), [])
        self.client("FUNCTION", "RESTORE", dump)
        self.check_wait(1)
        self.assertEqual([client("FCALL_RO", name, 1, "k") for name in ("twice", "again")], [63, 42])

    @unittest.skipUnless(FOLLOWER_IS_OURS, "Redis has all types")
    def test_what_is_no_string_is_not_held(self):
        """Nobody follows by half: until the primary has none of that any more, the link is down, and the log says why."""
        self.client.replies([("SET", "k", 1), ("RPUSH", "l", "a", "b")])
        follower = self.follower(is_up=False)
        client = self.connect(follower)
        wait_until(lambda: "list" in follower.tail(10**5).lower(), lambda: f"the log says which type; it said:\n{follower.tail()}")
        self.assertEqual([client("PING"), client.info()["master_link_status"]], ["PONG", "down"])
        self.client("DEL", "l")
        check_same(self.primary, follower)
        self.client.replies([("SADD", "s", "a"), ("SET", "k", 2)])
        wait_until(lambda: "sadd" in follower.tail(10**5).lower(), lambda: f"the log says which command; it said:\n{follower.tail()}")
        self.assertEqual(client("PING"), "PONG")
        self.client("DEL", "s")
        # It would come again by itself, later.
        client("REPLICAOF", "NO", "ONE")
        client("REPLICAOF", "127.0.0.1", self.primary.port)
        check_same(self.primary, follower)

    def test_writes_go_on_during_the_sync_and_after_it(self):
        for seed, diskless in ((0, "yes"), (10, "no")):
            self.client("CONFIG", "SET", "repl-diskless-sync", diskless)
            self.ballast()
            with contextlib.ExitStack() as stack:
                writers = [stack.enter_context(RedisWriter(self.primary.port, seed + number)) for number in range(3)]
                wait_until(lambda: all(writer.done_count > 50 for writer in writers), "writers write")
                follower = self.follower()
                counts = [writer.done_count for writer in writers]
                wait_until(lambda: all(writer.done_count > count + 3000 or writer.problem for writer, count in zip(writers, counts)), "writers write")
            for writer in writers:
                self.assertLess(writer.refused_count, writer.done_count / 3)
            self.check_wait(1)
            check_same(self.primary, follower)
            # Ours begins anew where it can't carry out what it is sent, and so would be the same all the same.
            self.assertNotIn("was refused", follower.tail(10**5))
            follower.end()


class Stream(WithFollower):
    def test_each_command_does_what_it_did(self):
        follower = self.follower()
        names = [f"k:{number}" for number in range(30)]
        self.client("MSET", *(word for name in names for word in (name, name)))
        far = int(time.time()) + 1000
        commands = [
            ("SET", "k:0", "v", "EX", 1000), ("SET", "k:0", "w", "KEEPTTL"), ("SET", "k:1", "v", "PXAT", far * 1000, "GET"), ("SETEX", "k:2", 1000, "v"),
            ("SET", "absent", "v", "XX"), ("SETNX", "k:3", "v"), ("GETSET", "k:4", "v"), ("GETDEL", "k:5"), ("GETEX", "k:0", "PERSIST"),
            ("GETEX", "k:6", "EX", 1000), ("GETEX", "k:7", "EXAT", 1), ("GETEX", "k:8"), ("MSETNX", "a", 1, "b", 2), ("APPEND", "k:9", "end"),
            ("SETRANGE", "k:10", 2, "middle"), ("SETRANGE", "hole", 1000, "x"), ("INCR", "n"), ("DECRBY", "n", 10), ("INCRBYFLOAT", "n", "0.25"),
            ("INCRBYFLOAT", "k:1f", "3.0e3"), ("SETBIT", "bits", 100, 1), ("BITOP", "XOR", "k:11", "k:12", "k:13"), ("BITOP", "AND", "k:14", "absent"),
            ("BITFIELD", "bits", "SET", "u8", 3, 200, "INCRBY", "i5", "#2", 30, "OVERFLOW", "FAIL", "INCRBY", "u2", 0, 3),
            ("RENAME", "k:6", "k:15"), ("RENAMENX", "k:16", "renamed"), ("COPY", "k:15", "k:17", "REPLACE"), ("COPY", "k:15", "copy", "DB", 3),
            ("MOVE", "k:15", 2), ("EXPIRE", "k:18", 1000), ("PEXPIREAT", "k:19", far * 1000), ("EXPIRE", "k:20", -1), ("EXPIREAT", "k:21", 1),
            ("EXPIRE", "k:19", 10, "GT"), ("PERSIST", "k:19"), ("DEL", "k:22", "absent"), ("UNLINK", "k:23"), ("TOUCH", "k:24"), ("PSETEX", "short", 1, "v"),
            ("EVAL", "for i = 1, 3 do redis.call('incr', KEYS[1]) redis.call('append', KEYS[2], i) end", 2, "n2", "k:25"),
            ("EVAL", "redis.call('select', 5) redis.call('set', KEYS[1], 'x', 'px', 100000) redis.pcall('incr', KEYS[1])", 1, "by a script"),
            ("EVAL", "redis.call('set', KEYS[1], 'x') return redis.call('nosuch')", 1, "before an error"),
        ]
        payload = self.client("DUMP", "k:26")
        commands += [("RESTORE", "restored", 100_000, payload), ("RESTORE", "k:27", far * 1000, payload, "REPLACE", "ABSTTL")]
        for command in commands:
            self.client.reply(*command)
        self.client.replies([("MULTI",), ("INCR", "n3"), ("SELECT", 4), ("INCR", "n3"), ("SET", "k", "v"), ("INCR", "k"), ("SELECT", 0), ("GET", "k:0"), ("EXEC",)])
        check_same(self.primary, follower)
        for database, commands in ((9, (("SET", "k", 9), ("SWAPDB", 9, 10))), (10, (("SET", "k", 10), ("SWAPDB", 0, 10), ("SWAPDB", 3, 3), ("INCR", "k"))),
                                   (0, (("SET", "k", "v"), ("FLUSHDB",))), (4, (("FLUSHDB", "ASYNC"), ("SET", "after", 1)))):
            self.client("SELECT", database)
            for command in commands:
                self.client(*command)
            check_same(self.primary, follower)
        self.client("FLUSHALL")
        check_same(self.primary, follower)
        self.client("SET", "after", "FLUSHALL")
        check_same(self.primary, follower)

    def test_values_of_many_megabytes(self):
        follower = self.follower()
        chance = random.Random(5)
        self.client("SET", "20 MB", chance.randbytes(20 << 20))
        self.client.replies([("MULTI",), ("APPEND", "20 MB", b"end"), ("SET", "10 MB", b"x" * (10 << 20), "EX", 1000), ("COPY", "10 MB", "copy"), ("EXEC",)])
        self.client("SETRANGE", "20 MB", 5_000_000, chance.randbytes(3 << 20))
        self.client("MSET", *(word for number in range(5000) for word in (f"k:{number}", chance.randbytes(300))))
        self.client("DEL", *(f"k:{number}" for number in range(0, 5000, 2)))
        check_same(self.primary, follower)

    def test_who_watches_a_key_of_a_replica(self):
        self.client.replies([("SET", "k", 1), ("SET", "other", 1)])
        follower = self.follower()
        watching, tracking, told = self.connect(follower), self.connect(follower), self.connect(follower)
        number = told("CLIENT", "ID")
        told("SUBSCRIBE", "__redis__:invalidate")
        tracking("CLIENT", "TRACKING", "on", "REDIRECT", number)
        for change, is_seen in ((("SET", "other", 2), False), (("INCR", "k"), True), (("FLUSHALL",), True)):
            watching("WATCH", "k")
            self.assertEqual(tracking("GET", "k"), watching("GET", "k"))
            self.client(*change)
            self.check_wait(1)
            want = None if is_seen else [b"v"]
            self.assertEqual(watching.replies([("MULTI",), ("ECHO", "v"), ("EXEC",)])[-1], want, change)
            if is_seen:
                self.assertEqual(told.read()[:2], [b"message", b"__redis__:invalidate"])

    def test_messages_reach_who_listens_to_a_replica(self):
        follower = self.follower()
        listener = self.connect(follower)
        listener("SUBSCRIBE", "c")
        listener("PSUBSCRIBE", "d*")
        self.assertEqual(self.client("PUBLISH", "c", "1"), 0)
        self.client.replies([("MULTI",), ("PUBLISH", "c", "2"), ("SET", "k", "v"), ("PUBLISH", "c", "3"), ("EXEC",)])
        self.client("EVAL", "redis.call('publish', 'c', '4') redis.call('set', KEYS[1], 'w')", 1, "k")
        self.client("PUBLISH", "other", "unheard")
        self.client("PUBLISH", "d1", b"\0\r\n" * 30_000)
        self.assertEqual([listener.read() for _ in range(4)], [[b"message", b"c", b"%d" % number] for number in (1, 2, 3, 4)])
        self.assertEqual(listener.read(), [b"pmessage", b"d*", b"d1", b"\0\r\n" * 30_000])
        check_same(self.primary, follower)
        # What is said to a replica is heard there.
        self.assertEqual(self.connect(follower)("PUBLISH", "c", "5"), 1)
        self.assertEqual(listener.read(), [b"message", b"c", b"5"])

    def test_transactions_are_whole(self):
        """Whenever a replica is asked, no money is under way."""
        accounts = [f"account:{number}" for number in range(40)]
        self.client("MSET", *(word for account in accounts for word in (account, 1000)))
        follower = self.follower()
        reader = self.connect(follower)
        with Transfers(self.primary.port, accounts) as transfers:
            while transfers.done_count < 2000 and not transfers.problems:
                self.assertEqual(sum(map(int, reader("MGET", *accounts))), 1000 * len(accounts))
        self.check_wait(1)
        check_same(self.primary, follower)

    def test_a_replica_between_two_others(self):
        self.ballast()
        follower = self.follower()
        with RedisWriter(self.primary.port, 50) as writer:
            last = self.replica(of=follower)
            for client in (self.client, self.connect(follower)):
                count = writer.done_count
                wait_until(lambda: writer.done_count > count + 500 or writer.problem, "a writer writes")
                # Whoever comes behind the one that is cut off hears of it, too, be it that it begins anew.
                wait_until(lambda: client("CLIENT", "KILL", "TYPE", "replica") == 1, "a replica is cut off")
            count = writer.done_count
            wait_until(lambda: writer.done_count > count + 500 or writer.problem, "a writer writes")
        check_same(self.primary, follower, last)
        listener = self.connect(last)
        listener("SUBSCRIBE", "c")
        self.client("PUBLISH", "c", "over two")
        self.assertEqual(listener.read(), [b"message", b"c", b"over two"])
        if not FOLLOWER_IS_OURS:
            self.assertEqual(self.connect(last).info()["master_replid"], self.client.info()["master_replid"])
        # Without its primary the one in the middle goes on with its own replica.
        with self.connect(follower) as middle:
            middle("REPLICAOF", "NO", "ONE")
            middle("SET", "own", "v")
        check_same(follower, last)

    @unittest.skipUnless(FOLLOWER_IS_OURS, "it is about two of ours")
    def test_ours_follows_ours(self):
        primary = self.stack.enter_context(Server("primary", expresslane_command(lanes=LANES_COUNT + 1)))
        self.client = self.connect(primary)
        self.ballast()
        self.client("FUNCTION", "LOAD", LIBRARY)
        with contextlib.ExitStack() as stack:
            writers = [stack.enter_context(Writer(primary.port, 60 + number)) for number in range(2)]
            follower = self.follower(of=primary)
            second = self.follower(of=follower)
            counts = [writer.done_count for writer in writers]
            wait_until(lambda: all(writer.done_count > count + 3000 or writer.problem for writer, count in zip(writers, counts)), "writers write")
        self.check_wait(1)
        check_same(primary, follower, second)
        self.client("SET", "k", 21)
        self.check_wait(1)
        self.assertEqual(self.connect(follower)("FCALL_RO", "twice", 1, "k"), 42)


class Files(WithFollower):
    """What a replica keeps is its primary's, and nothing of what it held before."""

    def setUp(self):
        super().setUp()
        self.directory = self.stack.enter_context(tempfile.TemporaryDirectory(prefix="following-"))
        self.client("FUNCTION", "LOAD", LIBRARY)
        self.client("MSET", "k", 21, "n", 1)

    def test_a_snapshot(self):
        follower = self.follower("--dir", self.directory)
        client = self.connect(follower)
        self.client("INCR", "n")
        self.check_wait(1)
        self.assertEqual(client("SAVE"), "OK")
        with open(f"{self.directory}/dump.rdb", "rb") as file, loaded(file.read()) as copy:
            self.assertEqual([copy("MGET", "k", "n"), copy("FCALL_RO", "twice", 1, "k")], [[b"21", b"2"], 42])
        follower.end()
        self.client("INCR", "n")
        # It begins with its file, and goes on with what its primary says.
        check_same(self.primary, self.follower("--dir", self.directory))

    def test_the_log(self):
        settings = ("--dir", self.directory, "--appendonly", "yes")
        with Follower(None, *settings) as old, Client(old.port) as client:
            client.replies([("SET", "own", 1), ("SET", "k", "own")])
        follower = self.follower(*settings)
        check_same(self.primary, follower)
        client = self.connect(follower)
        with RedisWriter(self.primary.port, 70) as writer:
            wait_until(lambda: writer.done_count > 500 or writer.problem, "a writer writes")
        self.client.replies([("MULTI",), ("SET", "k", 22), ("INCR", "n"), ("EXEC",)])
        check_same(self.primary, follower)
        wait_until(lambda: client.info("persistence")["aof_rewrite_in_progress"] == client.info("persistence")["aof_rewrite_scheduled"] == "0", "its log has a base")
        self.assertEqual(follower.end(), 0)
        with Follower(None, *settings) as again, Client(again.port) as client:
            wait_until(lambda: not isinstance(client.reply("DBSIZE"), Refused), lambda: f"it has loaded; it said:\n{again.tail()}")
            # What had ended over there, and was not deleted yet, is deleted here.
            wait_until(lambda: contents(again.port) == contents(self.primary.port), "it holds what its primary holds")
            self.assertEqual([client("FCALL_RO", "twice", 1, "k"), client("EXISTS", "own")], [44, 0])


class Ends(WithFollower):
    """Keys whose time comes, and those for which there is no room: a replica waits to be told."""

    def test_what_has_ended_is_counted_until_the_primary_says_so(self):
        self.client("DEBUG", "SET-ACTIVE-EXPIRE", 0)
        self.client("SET", "from the snapshot", "v", "PX", 600)
        follower = self.follower()
        self.client("SET", "k", "v", "PX", 500)
        self.client("SET", "stays", "v")
        self.check_wait(1)
        client = self.connect(follower)
        self.assertEqual(client("DBSIZE"), 4)
        wait_until(lambda: client("MGET", "k", "from the snapshot") == [None, None], "both have ended")
        self.assertEqual([client(name, "k") for name in ("GET", "EXISTS", "TTL", "PTTL", "STRLEN", "TYPE")], [None, 0, -2, -2, 0, "none"])
        self.assertEqual(sorted(client("KEYS", "*")), [b"stays", b"waited-for"])
        self.assertEqual(sorted(client("SCAN", 0, "COUNT", 1000)[1]), [b"stays", b"waited-for"])
        # Its own housekeeping would have come around meanwhile.
        time.sleep(0.5)
        self.assertEqual((client("DBSIZE"), client.info("stats")["expired_keys"]), (4, "0"))
        self.assertIsNone(self.client("GET", "k"))
        wait_until(lambda: client("DBSIZE") == 3, "it is deleted where the primary has looked at it")
        self.client("DEBUG", "SET-ACTIVE-EXPIRE", 1)
        wait_until(lambda: client("DBSIZE") == 2, "the other, too")
        check_same(self.primary, follower)

    def test_who_is_made_a_primary_deletes_by_itself(self):
        self.client("DEBUG", "SET-ACTIVE-EXPIRE", 0)
        follower = self.follower()
        self.client.replies([("SET", f"k:{number}", "x", "PX", 100) for number in range(200)])
        self.check_wait(1)
        client = self.connect(follower)
        wait_until(lambda: client("EXISTS", *(f"k:{number}" for number in range(200))) == 0, "all have ended")
        self.assertEqual(client("DBSIZE"), 201)
        client("REPLICAOF", "NO", "ONE")
        wait_until(lambda: client("DBSIZE") == 1, "they are deleted")

    def test_what_expires_goes(self):
        follower = self.follower()
        self.client.replies([("SET", f"k:{number}", "x", "PX", 1 + number % 500) for number in range(2000)])
        self.client.replies([("SET", f"kept:{number}", "x", "PX", 500_000) for number in range(100)])
        with Client(follower.port) as client:
            wait_until(lambda: client("DBSIZE") == 100, "what has expired is deleted on the replica")
        check_same(self.primary, follower)

    def test_a_replica_evicts_nothing_and_refuses_its_primary_nothing(self):
        for policy in ("allkeys-lru", "noeviction"):
            follower = self.follower("--maxmemory", "4mb", "--maxmemory-policy", policy)
            value = random.Random(4).randbytes(10_000)
            self.client.replies([("SET", f"{policy}:{number}", value) for number in range(1000)])
            self.client("APPEND", f"{policy}:0", value)
            check_same(self.primary, follower)
            with Client(follower.port) as client:
                self.assertEqual(client.info("stats")["evicted_keys"], "0")
            follower.end()

if __name__ == "__main__":
    unittest.main()
