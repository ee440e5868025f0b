"""Unmodified redis-servers that follow this one, backups by redis-cli, and how replicas are answered, byte for byte.

What is asserted here is what redis-server 7.0.15 does as a primary, but for where OURS is asked. It runs alone, too, and then against Redis:

    PYTHONPATH=bench REPLICATION_PRIMARY=redis python3 tests/clients/test_replication.py
"""

import contextlib
import pathlib
import random
import re
import subprocess
import tempfile
import threading
import time
import unittest

from replicas import (
    DATABASES, OURS, SECONDS_MAX, Client, Refused, Replica, Stream, check_same, is_like, loaded, primary, replicas_online, wait_until)
from servers import request, tool
from writers import Writer

# What no socket takes while nobody reads: two of its buffers, and more.
BALLAST_VALUES, BALLAST_BYTES = 24, 1 << 20
NOT_ENOUGH = "NOREPLICAS Not enough good replicas to write."
NOT_AN_INTEGER = "ERR value is not an integer or out of range"


class WithPrimary(unittest.TestCase):
    """Each test has a primary of its own, and a client of it."""

    def setUp(self):
        self.stack = self.enterContext(contextlib.ExitStack())
        self.primary = self.stack.enter_context(primary())
        self.client = self.connect()

    def connect(self, server=None):
        return self.stack.enter_context(Client((server or self.primary).port))

    def replica(self, *settings, of=None, is_up=True):
        replica = self.stack.enter_context(Replica((of or self.primary).port, *settings))
        if is_up:
            replica.wait_until_up()
        return replica

    def wait_for_online(self, count):
        wait_until(lambda: replicas_online(self.client) == count, lambda: f"{count} replicas online; {self.client.info()}")

    def wait_for_another(self, number):
        """The replica with this client number has gone, and one is there again."""
        wait_until(lambda: f"id={number} " not in self.client("CLIENT", "LIST", "TYPE", "replica").decode(), "a replica that was killed is gone")
        self.wait_for_online(1)

    def check_wait(self, count):
        """A write of this client, and so all before it, has reached so many replicas."""
        self.client("SET", "waited-for", time.monotonic_ns())
        self.assertGreaterEqual(self.client("WAIT", count, SECONDS_MAX * 1000), count)

    def ballast(self):
        """Values that keep a snapshot busy, and that do not become smaller."""
        chance = random.Random(1)
        for number in range(BALLAST_VALUES):
            self.client("SET", f"ballast:{number}", chance.randbytes(BALLAST_BYTES))

    def write_until(self, condition, what):
        """Writes values until that is so. They are so many at most that a limit of a few MB is reached."""
        value, number = random.Random(2).randbytes(1 << 16), 0
        while not condition():
            self.assertLess(number, 2000, what)
            for _ in range(16):
                self.client("SET", f"flood:{number % 20}", value)
                number += 1


class Following(WithPrimary):
    def test_a_snapshot_has_every_shape(self):
        chance = random.Random(3)
        values = [b"", b"0", b"-1", b"127", b"128", b"-129", b"32768", b"2147483648", b"-9223372036854775808", b"9223372036854775807", b"007", b"x",
                  b"a" * 20, b"a" * 21, b"ab" * 40, chance.randbytes(100), b"y" * 100, chance.randbytes(16_384), b"z" * 16_385, chance.randbytes(100_000),
                  b"abcd" * 25_000, bytes(range(256))]
        for database in range(DATABASES):
            self.client("SELECT", database)
            names = [b"k:%d" % number for number in range(len(values))]
            names[:7] = [b"", b"12345", b"-1", b"\0\r\n\xff", chance.randbytes(70), b"k" * 20_000, b"{tag}1"]
            for name, value in zip(names, values):
                self.client("SET", name, value)
                if chance.random() < 0.3:
                    self.client("PEXPIRE", name, chance.randrange(100_000, 10**12))
                self.client("SET", b"int:" + name[:50], chance.randrange(-2**40, 2**40), "EX", chance.randrange(100, 10**6))
            self.client("SET", "soon", "gone", "PX", chance.randrange(1, 3000))
        self.client("SET", "20 MB", chance.randbytes(1 << 20) * 20)
        self.client("SET", "20 MB of one byte", b"x" * (20 << 20), "EX", 1000)
        # Changed in place, so that Redis and others keep them in another form.
        self.client("APPEND", "20 MB", "end")
        self.client("APPEND", "12345", "678")
        self.client("SETRANGE", "hole", 70_000, "end")
        self.client("INCR", "counter")
        # A file first, or from the socket into memory.
        replicas = [self.replica(*settings, is_up=False) for settings in ((), ("--repl-diskless-load", "swapdb"), ("--repl-diskless-load", "on-empty-db"))]
        check_same(self.primary, *replicas)
        # One may take the primary's place.
        with Client(replicas[0].port) as client:
            client("REPLICAOF", "NO", "ONE")
            client("SELECT", DATABASES - 1)
            self.assertEqual(client("INCR", "counter"), 2)

    def test_nothing_is_followed_too(self):
        replica = self.replica()
        check_same(self.primary, replica)
        self.client("SELECT", 7)
        self.client("SET", "first", "in database 7")
        check_same(self.primary, replica)

    def test_what_a_replica_held_is_gone(self):
        self.client("SET", "k", "primary's")
        replica = self.replica(is_up=False)
        with Client(replica.port) as client:
            client("REPLICAOF", "NO", "ONE")
            client("MSET", "k", "own", "other", "own")
            client("REPLICAOF", "127.0.0.1", self.primary.port)
        check_same(self.primary, replica)

    def test_writes_go_on_during_the_sync_and_after_it(self):
        for seed in (0, 10, 20):
            self.ballast()
            with contextlib.ExitStack() as stack:
                writers = [stack.enter_context(Writer(self.primary.port, seed + number)) for number in range(3)]
                wait_until(lambda: all(writer.done_count > 50 for writer in writers), "writers write")
                replica = self.replica()
                counts = [writer.done_count for writer in writers]
                wait_until(lambda: all(writer.done_count > count + 4000 or writer.problem for writer, count in zip(writers, counts)), "writers write")
            for writer in writers:
                self.assertLess(writer.refused_count, writer.done_count / 3)
            self.check_wait(1)
            check_same(self.primary, replica)
            replica.end()

    def test_what_expires_goes(self):
        """Of all kinds of ends, also those that nobody looks at."""
        replica = self.replica()
        self.client.replies([("SET", f"k:{number}", "x", "PX", 1 + number % 500) for number in range(2000)])
        self.client.replies([("SET", f"kept:{number}", "x", "PX", 500_000) for number in range(100)])
        with Client(replica.port) as client:
            wait_until(lambda: client("DBSIZE") == 100, "what has expired is deleted on the replica")
        check_same(self.primary, replica)

    def test_what_is_evicted_goes(self):
        replica = self.replica()
        self.client("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        self.client("CONFIG", "SET", "maxmemory", int(self.client.info("memory")["used_memory"]) + (8 << 20))
        value = random.Random(4).randbytes(10_000)
        for number in range(3000):
            self.client.reply("SET", f"k:{number}", value)
        self.assertGreater(int(self.client.info("stats")["evicted_keys"]), 100)
        # So that nothing more is evicted while it is compared.
        self.client("CONFIG", "SET", "maxmemory-policy", "noeviction")
        check_same(self.primary, replica)

    @unittest.skipUnless(OURS, "Redis does not tell replicas of it")
    def test_a_string_that_grows_though_each_write_fails(self):
        replica = self.replica()
        self.client("SET", "k", "v", "EX", 1000)
        self.assertEqual(self.client("BITFIELD", "k", "OVERFLOW", "FAIL", "SET", "u2", 100, 9), [None])
        self.assertEqual(self.client("BITFIELD", "absent", "OVERFLOW", "FAIL", "SET", "u2", 100, 9), [None])
        self.check_wait(1)
        check_same(self.primary, replica)

    def test_messages_reach_who_listens_to_a_replica(self):
        replica = self.replica()
        listener = self.connect(replica)
        listener("SUBSCRIBE", "c")
        listener("PSUBSCRIBE", "d*")
        self.assertEqual(self.client("PUBLISH", "c", "1"), 0)
        self.client.replies([("MULTI",), ("PUBLISH", "c", "2"), ("SET", "k", "v"), ("PUBLISH", "c", "3"), ("EXEC",)])
        self.client("EVAL", "redis.call('publish', 'c', '4') redis.call('set', KEYS[1], 'w')", 1, "k")
        self.client("PUBLISH", "other", "unheard")
        self.client("PUBLISH", "d1", b"\0\r\n" * 30_000)
        want = [[b"message", b"c", b"%d" % number] for number in (1, 2, 3, 4)]
        self.assertEqual([listener.read() for _ in want], want)
        self.assertEqual(listener.read(), [b"pmessage", b"d*", b"d1", b"\0\r\n" * 30_000])
        check_same(self.primary, replica)

    def test_transactions_are_whole_on_a_replica(self):
        """Whenever a replica is asked, no money is under way."""
        accounts = [f"account:{number}" for number in range(40)]
        self.client("MSET", *(word for account in accounts for word in (account, 1000)))
        replica = self.replica()
        reader = self.connect(replica)
        with Transfers(self.primary.port, accounts):
            for _ in range(300):
                self.assertEqual(sum(map(int, reader("MGET", *accounts))), 1000 * len(accounts))
        self.check_wait(1)
        check_same(self.primary, replica)

    def test_with_a_password(self):
        self.client("SET", "k", "v")
        self.client("CONFIG", "SET", "requirepass", "pw")
        wrong = self.replica("--masterauth", "wrong", is_up=False)
        none = self.replica(is_up=False)
        replica = self.replica("--masterauth", "pw")
        wait_until(lambda: "Unable to AUTH to MASTER" in wrong.tail(10**6), "a wrong password is refused")
        wait_until(lambda: "NOAUTH" in none.tail(10**6), "no password is refused")
        self.assertEqual((wrong.is_up(), none.is_up()), (False, False))
        self.assertEqual(int(self.client.info()["connected_slaves"]), 1)
        self.check_wait(1)
        with Client(replica.port) as client:
            self.assertEqual(client("GET", "k"), b"v")


class SeveralReplicas(WithPrimary):
    def test_one_joins_while_another_is_in_the_middle(self):
        self.ballast()
        self.client("SET", "before", "1")
        slow = self.stack.enter_context(Client(self.primary.port, receive_bytes=1 << 16))
        slow.send(b"PSYNC ? -1\r\n")
        self.assertRegex(slow.line(), rb"^\+FULLRESYNC [0-9a-f]{40} \d+$")
        size = int(slow.line()[1:])
        begin = slow.bytes(1000)
        self.client("SET", "after", "2")
        self.assertRegex(self.client.info()["slave0"], "state=(send_bulk|wait_bgsave)")
        with Writer(self.primary.port, 20):
            others = [self.replica(is_up=False) for _ in range(2)]
            for other in others:
                other.wait_until_up()
        self.check_wait(2)
        check_same(self.primary, *others)
        with loaded(begin + slow.bytes(size - 1000)) as client:
            self.assertEqual(client("MGET", "before", "after"), [b"1", None])
            self.assertEqual(len(client("KEYS", "ballast:*")), BALLAST_VALUES)
        self.assertEqual([slow.heard(), slow.heard()], [[b"SELECT", b"0"], [b"SET", b"after", b"2"]])
        check_same(self.primary, *others)

    def test_one_that_crashes_comes_back(self):
        self.client("SET", "k", "v")
        replica, other = self.replica(), self.replica()
        with Writer(self.primary.port, 30) as writer:
            replica.kill()
            self.wait_for_online(1)
            count = writer.done_count
            wait_until(lambda: writer.done_count > count + 300, "a writer writes")
            again = self.stack.enter_context(Replica(self.primary.port, port=replica.port))
            again.wait_until_up()
        self.wait_for_online(2)
        self.check_wait(2)
        check_same(self.primary, again, other)

    def test_one_that_is_cut_off_comes_back(self):
        replica = self.replica()
        with Writer(self.primary.port, 40) as writer:
            for _ in range(3):
                number = re.search(r"id=(\d+)", self.client("CLIENT", "LIST", "TYPE", "replica").decode())[1]
                self.assertEqual(self.client("CLIENT", "KILL", "TYPE", "replica"), 1)
                count = writer.done_count
                wait_until(lambda: writer.done_count > count + 100, "a writer writes")
                self.wait_for_another(number)
        self.check_wait(1)
        check_same(self.primary, replica)

    def test_one_that_does_not_read_is_cut_off(self):
        replica, other = self.replica(), self.replica()
        self.wait_for_online(2)
        self.client("CONFIG", "SET", "client-output-buffer-limit", "replica 1000000 0 0")
        replica.pause()
        self.write_until(lambda: int(self.client.info()["connected_slaves"]) == 1, "the one that is paused is cut off")
        self.check_wait(1)
        # Back to the usual, for another snapshot is to come.
        self.client("CONFIG", "SET", "client-output-buffer-limit", "replica 268435456 67108864 60")
        replica.resume()
        self.wait_for_online(2)
        self.check_wait(2)
        check_same(self.primary, replica, other)

    def test_a_replica_has_a_replica(self):
        self.ballast()
        replica = self.replica()
        with Writer(self.primary.port, 50) as writer:
            second = self.replica(of=replica)
            count = writer.done_count
            wait_until(lambda: writer.done_count > count + 1000 or writer.problem, "a writer writes")
            # Its own replica hears of the snapshot, be it that it must take one as well.
            self.client("CLIENT", "KILL", "TYPE", "replica")
            count = writer.done_count
            wait_until(lambda: writer.done_count > count + 300 or writer.problem, "a writer writes")
        check_same(self.primary, replica, second)
        wait_until(lambda: self.connect(second).info()["master_replid"] == self.client.info()["master_replid"], "a history has one name")


class Ending(WithPrimary):
    def test_a_primary_that_ends_has_sent_what_it_acknowledged(self):
        replica = self.replica()
        self.wait_for_online(1)
        count = 50_000
        self.client.send(b"".join(request("SET", f"key:{number}", "v" * 50) for number in range(count)))
        for _ in range(count):
            self.assertEqual(self.client.read(), "OK")
        self.assertEqual(self.primary.end(), 0)
        with Client(replica.port) as client:
            wait_until(lambda: client("DBSIZE") == count, lambda: f"all keys; there are {client('DBSIZE')}")


class Asking(WithPrimary):
    def setUp(self):
        super().setUp()
        self.one = self.replica()
        self.wait_for_online(1)

    def test_wait(self):
        self.client("SET", "k", "v")
        self.assertEqual(self.client("WAIT", 1, SECONDS_MAX * 1000), 1)
        with Client(self.one.port) as client:
            self.assertEqual(client("GET", "k"), b"v")
        begin = time.monotonic()
        self.client("SET", "k", "w")
        self.assertEqual(self.client("WAIT", 2, 100), 1)
        self.assertGreaterEqual(time.monotonic() - begin, 0.099)
        # Of what others have written it does not speak; ours waits for that, too.
        self.one.pause()
        self.client("SET", "k", "x")
        if not OURS:
            self.assertEqual(self.connect()("WAIT", 1, 0), 1)
        self.assertEqual(self.client("WAIT", 1, 200), 0)
        self.assertEqual(self.client("WAIT", 0, 0), 0)
        self.assertEqual(self.client("WAIT", -1, 0), 0)
        # For ever, until it goes on; another client is served meanwhile.
        self.client.send(request("WAIT", 1, 0))
        other = self.connect()
        self.assertEqual(other("GET", "k"), b"x")
        self.assertTrue(self.client.is_silent())
        self.one.resume()
        self.assertEqual(self.client.read(), 1)

    def test_wait_in_a_transaction_does_not_wait(self):
        self.one.pause()
        replies = self.client.replies([("MULTI",), ("SET", "k", "v"), ("WAIT", 5, 0), ("GET", "k"), ("EXEC",)])
        self.assertEqual(replies[1:4], ["QUEUED"] * 3)
        # The client's last write is before the transaction: it has none, and so the replica has all of it.
        self.assertIn(replies[-1], [["OK", count, b"v"] for count in ((0, 1) if OURS else (1,))])

    def test_who_waits_for_a_replica_that_dies(self):
        self.one.pause()
        self.client("SET", "k", "v")
        self.client.send(request("WAIT", 1, 1000))
        self.one.kill()
        self.assertEqual(self.client.read(), 0)

    def test_who_waits_may_go(self):
        self.one.pause()
        goes = self.connect()
        goes("SET", "k", "v")
        goes.send(request("WAIT", 1, 0))
        goes.close()
        killed = self.connect()
        number = killed("CLIENT", "ID")
        killed("SET", "k", "v")
        killed.send(request("WAIT", 1, 0))
        self.assertEqual(self.client("CLIENT", "KILL", "ID", number), 1)
        killed.to_the_end()
        self.one.resume()
        self.check_wait(1)

    def test_errors_of_wait(self):
        for words, want in [
            ("", "ERR wrong number of arguments for 'wait' command"), ("1", "ERR wrong number of arguments for 'wait' command"),
            ("1 2 3", "ERR wrong number of arguments for 'wait' command"), ("x 1", NOT_AN_INTEGER), ("99999999999999999999 1", NOT_AN_INTEGER),
            ("1 x", "ERR timeout is not an integer or out of range"), ("1 1.5", "ERR timeout is not an integer or out of range"),
            ("1 99999999999999999999", "ERR timeout is not an integer or out of range"), ("1 -1", "ERR timeout is negative"),
            # The first wrong one is named.
            ("x y", NOT_AN_INTEGER),
        ]:
            self.assertEqual(str(self.client.reply("WAIT", *words.split())), want, words)
        digest = r"[0-9a-f]{40}"
        for name in ("wait", "role", "sync", "psync", "replconf"):
            words = ["'1'"] * {"wait": 2, "psync": 2}.get(name, 0)
            reply = self.client.reply("EVAL", f"return redis.call({','.join([repr(name), *words])})", 0)
            self.assertRegex(str(reply), rf"^ERR This Redis command is not allowed from script script: {digest}, on @user_script:1\.$", name)

    def test_role_and_info(self):
        other = self.replica("--replica-announce-ip", "10.1.2.3", "--replica-announce-port", "4567")
        self.wait_for_online(2)
        self.check_wait(2)

        both = []

        def is_settled():
            """Whether nothing is on its way; what is sent to see that the other side lives counts, too."""
            both[:] = self.client.info(), self.client("ROLE")
            offset = both[0]["master_repl_offset"]
            return all(f"offset={offset}," in both[0][name] for name in ("slave0", "slave1")) and str(both[1][1]) == offset

        wait_until(is_settled, lambda: f"both have all; {both}")
        info, role = both
        self.assertEqual((info["role"], info["connected_slaves"]), ("master", "2"))
        offset = int(info["master_repl_offset"])
        self.assertGreater(offset, 0)
        self.assertRegex(info["master_replid"], "^[0-9a-f]{40}$")
        self.assertEqual((info["master_replid2"], info["second_repl_offset"]), ("0" * 40, "-1"))
        self.assertEqual(info["master_failover_state"], "no-failover")
        addresses = [("127.0.0.1", self.one.port), ("10.1.2.3", 4567)]
        for number, (address, port) in enumerate(addresses):
            self.assertRegex(info[f"slave{number}"], f"^ip={re.escape(address)},port={port},state=online,offset={offset},lag=\d+$")
        # A replica that is said to be elsewhere is in ROLE as it says.
        texts = [[address.encode(), b"%d" % port, b"%d" % offset] for address, port in addresses]
        self.assertEqual(role, [b"master", offset, texts])
        names = list(info)
        self.assertEqual(names[:4], ["role", "connected_slaves", "slave0", "slave1"])
        self.assertLessEqual(
            {"repl_backlog_active", "repl_backlog_size", "repl_backlog_first_byte_offset", "repl_backlog_histlen"}, set(names))
        with Client(other.port) as client:
            theirs = client.info()
            self.assertEqual(theirs["master_replid"], info["master_replid"])
            self.assertEqual(client("ROLE")[:4], [b"slave", b"127.0.0.1", self.primary.port, b"connected"])
        other.end()
        self.wait_for_online(1)
        self.assertNotIn("slave1", self.client.info())
        # The count goes on by the bytes of the stream, whatever they are.
        before = int(self.client.info()["master_repl_offset"])
        self.client("SET", "k", "v" * 1000)
        self.assertGreater(int(self.client.info()["master_repl_offset"]), before + 1000)

    def test_client_list_and_kill(self):
        text = self.client("CLIENT", "LIST", "TYPE", "replica").decode()
        self.assertEqual(len(text.splitlines()), 1)
        self.assertEqual(text.split()[0], self.client("CLIENT", "LIST", "TYPE", "slave").decode().split()[0])
        fields = dict(word.split("=", 1) for word in text.split())
        self.assertEqual(fields["flags"], "S")
        self.assertIn(fields["cmd"], ("psync", "replconf"))
        self.assertNotIn(f"id={fields['id']} ", self.client("CLIENT", "LIST", "TYPE", "normal").decode())
        self.assertIn(f"id={fields['id']} ", self.client("CLIENT", "LIST").decode())
        self.assertEqual(str(self.client.reply("CLIENT", "LIST", "TYPE", "nosuch")), "ERR Unknown client type 'nosuch'")
        self.assertEqual(self.client("CLIENT", "KILL", "TYPE", "normal"), 0)
        self.assertEqual(self.client("CLIENT", "KILL", "TYPE", "pubsub"), 0)
        for filter_, what in (("TYPE", "replica"), ("TYPE", "slave"), ("ID", None), ("ADDR", None)):
            listed = self.client("CLIENT", "LIST", "TYPE", "replica").decode()
            number, address = re.search(r"id=(\d+) addr=(\S+)", listed).groups()
            self.assertEqual(self.client("CLIENT", "KILL", filter_, what or {"ID": number, "ADDR": address}[filter_]), 1)
            self.wait_for_another(number)
        self.check_wait(1)

    def test_writes_need_so_many_replicas(self):
        self.client("SET", "k", "v")
        self.client("CONFIG", "SET", "min-replicas-to-write", 1)
        wait_until(lambda: self.client.reply("SET", "k", "w") == "OK", "with a replica it is written")
        self.assertEqual(self.client.info()["min_slaves_good_slaves"], "1")
        self.client("CONFIG", "SET", "min-replicas-to-write", 2)
        self.check_is_refused()
        self.client("CONFIG", "SET", "min-replicas-to-write", 1)
        wait_until(lambda: self.client.reply("SET", "k", "w") == "OK", "with a replica it is written")
        # One that says nothing does not count.
        self.client("CONFIG", "SET", "min-replicas-max-lag", 1)
        self.one.pause()
        wait_until(lambda: isinstance(self.client.reply("SET", "k", "x"), Refused), "one that is paused does not count")
        self.check_is_refused()
        self.one.resume()
        wait_until(lambda: self.client.reply("SET", "k", "y") == "OK", "it counts again")
        self.client("CONFIG", "SET", "min-replicas-max-lag", 10)
        self.one.kill()
        wait_until(lambda: isinstance(self.client.reply("SET", "k", "x"), Refused), "without a replica it is refused")
        self.check_is_refused()
        self.client("CONFIG", "SET", "min-replicas-to-write", 0)
        self.assertEqual(self.client("SET", "k", "z"), "OK")
        self.assertNotIn("min_slaves_good_slaves", self.client.info())

    def check_is_refused(self):
        wait_until(lambda: isinstance(self.client.reply("SET", "k", "x"), Refused), "a write is refused")
        for words in (("SET", "k", "v"), ("DEL", "k"), ("INCR", "n"), ("MSET", "a", "1", "b", "2"), ("FLUSHALL",)):
            self.assertEqual(str(self.client.reply(*words)), NOT_ENOUGH, words)
        self.assertIsInstance(self.client.reply("GET", "k"), bytes)
        self.assertEqual(self.client.reply("PUBLISH", "c", "m"), 0)
        replies = self.client.replies([("MULTI",), ("GET", "k"), ("SET", "k", "v"), ("EXEC",)])
        self.assertEqual([str(reply) for reply in replies[1:]], ["QUEUED", NOT_ENOUGH, "EXECABORT Transaction discarded because of previous errors."])
        script = self.client.reply("EVAL", "return redis.call('set', KEYS[1], 'v')", 1, "k")
        self.assertRegex(str(script), rf"^{re.escape(NOT_ENOUGH)} script: [0-9a-f]{{40}}, on @user_script:1\.$")


class Transfers:
    """Clients that move money between accounts, by MULTI and by scripts, until the `with` is over."""

    COUNT = 3
    SCRIPT = "redis.call('decrby', KEYS[1], ARGV[1]) redis.call('incrby', KEYS[2], ARGV[1])"

    def __init__(self, port, accounts):
        self.is_over, self.problems, self.done_count = False, [], 0
        self.threads = [threading.Thread(target=self.run, args=(Client(port), random.Random(seed), accounts)) for seed in range(self.COUNT)]

    def run(self, client, chance, accounts):
        try:
            with client:
                while not self.is_over:
                    one, other, amount = *chance.sample(accounts, 2), chance.randrange(1, 500)
                    if chance.random() < 0.8:
                        *_, last = client.replies([("MULTI",), ("DECRBY", one, amount), ("INCRBY", other, amount), ("EXEC",)])
                        if len(last) != 2:
                            raise AssertionError(f"EXEC answers {last!r}")
                    else:
                        client("EVAL", self.SCRIPT, 2, one, other, amount)
                    self.done_count += 1
        except Exception as problem:
            self.problems.append(problem)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.is_over = True
        for thread in self.threads:
            thread.join()
        if self.problems:
            raise self.problems[0]


class Backup(WithPrimary):
    def test_the_sum_of_all_accounts_is_exact(self):
        """redis-cli takes snapshots while money moves between accounts; each is of one point in time."""
        accounts = [f"account:{number}" for number in range(500)]
        self.client("MSET", *(word for account in accounts for word in (account, 1000)))
        self.client("MSET", *(word for number in range(20_000) for word in (f"filler:{number}", "x" * 100)))
        self.client("SELECT", 3)
        self.client("SET", "in database 3", "v", "EX", 1000)
        with tempfile.TemporaryDirectory(prefix="backup-") as directory, Transfers(self.primary.port, accounts) as transfers:
            file = pathlib.Path(directory, "dump.rdb")
            for _ in range(3):
                count = transfers.done_count
                wait_until(lambda: transfers.done_count > count + 300 or transfers.problems, "money moves")
                file.unlink(missing_ok=True)
                run = [tool("redis-cli", "redis-tools"), "-p", str(self.primary.port), "--rdb", str(file)]
                got = subprocess.run(run, capture_output=True, text=True, timeout=SECONDS_MAX)
                self.assertEqual(got.returncode, 0, got.stderr)
                self.assertIn("Transfer finished with success", got.stderr)
                check = subprocess.run([tool("redis-check-rdb", "redis-tools"), str(file)], capture_output=True, text=True, timeout=SECONDS_MAX)
                self.assertEqual(check.returncode, 0, check.stdout)
                self.assertIn("RDB looks OK!", check.stdout)
                with loaded(file.read_bytes()) as client:
                    self.assertEqual(sum(map(int, client("MGET", *accounts))), 1000 * len(accounts))
                    self.assertEqual(client("DBSIZE"), 20_500)
                    client("SELECT", 3)
                    self.assertGreater(client("TTL", "in database 3"), 900)
        # Who has taken a snapshot is no replica.
        wait_until(lambda: self.client.info()["connected_slaves"] == "0", lambda: str(self.client.info()))

    def test_a_snapshot_alone(self):
        """`REPLCONF rdb-only 1`, as redis-cli says it: after the snapshot the server closes."""
        self.client("SET", "k", "v")
        for words in ((b"REPLCONF rdb-only 1",), (b"REPLCONF capa eof", b"REPLCONF rdb-only 1")):
            client = self.connect()
            for line in words:
                client.send(line + b"\r\n")
                self.assertEqual(client.read(), "OK")
            client.send(b"SYNC\r\n")
            line = client.line()
            if line.startswith(b"$EOF:") and len(words) == 2:
                mark = line[5:]
                self.assertEqual(len(mark), 40)
                rdb = client.to_the_end()
                self.assertTrue(rdb.endswith(mark))
                rdb = rdb[:-40]
            else:
                rdb = client.bytes(int(line[1:]))
                self.assertEqual(client.to_the_end(), b"")
            with loaded(rdb) as copy:
                self.assertEqual(copy("GET", "k"), b"v")


class RawReplicas(WithPrimary):
    """Bytes of replicas, odd ones too, and what comes back."""

    def synced(self, *lines):
        """A raw client that has said this, and SYNC or PSYNC at the end, and has had its snapshot; its reply to PSYNC."""
        client, line = self.connect(), None
        for text in lines:
            client.send(text.encode() + b"\r\n")
            if text.startswith("REPLCONF"):
                self.assertEqual(client.read(), "OK")
        line = client.line()
        if line[:1] == b"+":
            first, line = line, client.line()
        else:
            first = None
        self.assertEqual(line[:1], b"$", line)
        self.rdb = client.bytes(int(line[1:]))
        self.assertEqual(self.rdb[:9], b"REDIS0010")
        return client, first

    def first_commands(self, client):
        """What comes after the snapshot, SELECT first, once something is written."""
        self.client("SET", "marked", "v")
        self.assertEqual([client.heard(), client.heard()], [[b"SELECT", b"0"], [b"SET", b"marked", b"v"]])

    def test_sync(self):
        self.client("SET", "k", "v")
        for lines in (["SYNC"], ["sync"], ["*1\r\n$4\r\nSYNC"], ["REPLCONF listening-port 1234", "SYNC"]):
            client, first = self.synced(*lines)
            self.assertIsNone(first)
            with loaded(self.rdb) as copy:
                self.assertEqual(copy("GET", "k"), b"v")
            # Nobody else is here: another that comes would make a SELECT for all.
            self.first_commands(client)
            wait_until(lambda: "slave0" in self.client.info(), "it is listed")
            self.assertRegex(self.client.info()["slave0"], r"^ip=127.0.0.1,port=(0|1234),state=online,offset=0,lag=\d+$")
            client.close()
            wait_until(lambda: self.client.info()["connected_slaves"] == "0", "it is gone")

    def test_psync(self):
        self.client("SET", "k", "v")
        names = set()
        for lines in (["PSYNC ? -1"], ["psync ? 0"], [f"PSYNC {'a' * 40} 5"], ["PSYNC short 5"], ["PSYNC ? -1 x y"],
                      ["REPLCONF listening-port 4321", "REPLCONF capa psync2", "PSYNC ? -1"]):
            client, first = self.synced(*lines)
            name, offset = re.fullmatch(rb"\+FULLRESYNC ([0-9a-f]{40}) (\d+)", first).groups()
            names.add(name)
            # The offset counts the stream's bytes; a replica would go on from there.
            self.first_commands(client)
            sent = len(request("SELECT", "0") + request("SET", "marked", "v"))
            self.assertEqual((int(self.client.info()["master_repl_offset"]) - int(offset) - sent) % len(request("PING")), 0)
            client.send(request("REPLCONF", "ACK", int(offset) + sent))
            wait_until(lambda: f"offset={int(offset) + sent}," in self.client.info()["slave0"], "an ACK is seen")
            # An older one does not take it back.
            client.send(request("REPLCONF", "ACK", 0) + request("REPLCONF", "ACK", "x"))
            self.assertTrue(client.is_silent(0.05))
            self.assertIn(f"offset={int(offset) + sent},", self.client.info()["slave0"])
            client.close()
            wait_until(lambda: self.client.info()["connected_slaves"] == "0", "it is gone")
        self.assertEqual(names, {self.client.info()["master_replid"].encode()})

    def test_a_snapshot_with_a_mark(self):
        """Where a replica can do with a mark instead of a length, either may come; the stream waits for its first ACK."""
        client = self.connect()
        self.assertEqual(client("REPLCONF", "capa", "eof", "capa", "psync2"), "OK")
        client.send(b"PSYNC ? -1\r\n")
        offset = int(client.line().split()[2])
        line = client.line()
        self.client("SET", "k", "v")
        if line.startswith(b"$EOF:"):
            self.assertEqual(len(line), 45)
            rdb = b""
            while not rdb.endswith(line[5:]):
                rdb += client.bytes(1)
            # Redis waits: what follows a mark at once would hide it.
            self.assertTrue(client.is_silent(0.2))
            rdb = rdb[:-40]
        else:
            rdb = client.bytes(int(line[1:]))
        client.send(request("REPLCONF", "ACK", offset))
        self.assertEqual([client.heard(), client.heard()], [[b"SELECT", b"0"], [b"SET", b"k", b"v"]])
        with loaded(rdb) as copy:
            self.assertEqual(copy("DBSIZE"), 0)

    def test_what_is_refused(self):
        pending = "ERR SYNC and PSYNC are invalid with pending output"
        for words, want in [
            ("REPLCONF", "OK"), ("REPLCONF capa", "ERR syntax error"), ("REPLCONF capa eof capa", "ERR syntax error"), ("REPLCONF ack", "ERR syntax error"),
            ("REPLCONF capa nosuch", "OK"), ("REPLCONF listening-port x", NOT_AN_INTEGER), ("REPLCONF listening-port 99999999999999999999", NOT_AN_INTEGER),
            ("REPLCONF listening-port -5", "OK"), ("REPLCONF listening-port 99999999", "OK"), ("REPLCONF ip-address " + "a" * 255, "OK"),
            ("REPLCONF ip-address " + "a" * 256, "ERR REPLCONF ip-address provided by replica instance is too long: 256 bytes"),
            ("REPLCONF NoSuch 1", "ERR Unrecognized REPLCONF option: NoSuch"), ("REPLCONF version 7.0", "ERR Unrecognized REPLCONF option: version"),
            ("REPLCONF listening-port 1 nosuch x", "ERR Unrecognized REPLCONF option: nosuch"), ("REPLCONF CAPA eof Capa PSYNC2", "OK"),
            ("REPLCONF rdb-only 2", "ERR value is out of range, value must between 0 and 1"), ("REPLCONF rdb-only x", NOT_AN_INTEGER),
            ("REPLCONF rdb-only 0", "OK"), ("REPLCONF rdb-filter-only x", "ERR Unsupported rdb-filter-only option: x"),
            ("PSYNC", "ERR wrong number of arguments for 'psync' command"), ("PSYNC ?", "ERR wrong number of arguments for 'psync' command"),
            ("PSYNC ? x", NOT_AN_INTEGER), ("PSYNC ? -1 failover", "ERR PSYNC FAILOVER can't be sent to a master."),
            ("SYNC x", "ERR wrong number of arguments for 'sync' command"),
        ]:
            self.assertEqual(str(self.client.reply(*words.split())), want, words)
        # No reply at all, from anybody.
        for words in ("REPLCONF ack 5", "REPLCONF ack x", "REPLCONF getack *"):
            self.client.send(words.encode() + b"\r\n")
            self.assertEqual(self.client("ECHO", words), words.encode())
        if not OURS:
            # Replies of ours have left when the next command is taken up, or they have not.
            for words in (b"SYNC", b"PSYNC ? -1"):
                client = self.connect()
                client.send(b"PING\r\n" + words + b"\r\n")
                self.assertEqual([client.read(), str(client.read())], ["PONG", pending])
        self.assertEqual(self.client.info()["connected_slaves"], "0")

    def test_inside_multi(self):
        aborted = "EXECABORT Transaction discarded because of previous errors."
        for words in (("SYNC",), ("PSYNC", "?", "-1")):
            replies = [str(self.client.reply(*command)) for command in (("MULTI",), ("SET", "k", "v"), words, ("EXEC",), ("GET", "k"))]
            self.assertEqual(replies, ["OK", "QUEUED", "ERR Command not allowed inside a transaction", aborted, "None"])
        replies = [self.client.reply(*command) for command in (("MULTI",), ("REPLCONF", "capa", "eof"), ("WAIT", 3, 0), ("ROLE",), ("EXEC",))]
        self.assertEqual(replies[1:4], ["QUEUED"] * 3)
        self.assertEqual(replies[4][:2], ["OK", 0])
        self.assertEqual(replies[4][2][::2], [b"master", []])

    def test_subscribers_and_monitors(self):
        subscriber = self.connect()
        subscriber("SUBSCRIBE", "c")
        self.assertEqual(
            str(subscriber.reply("SYNC")),
            "ERR Can't execute 'sync': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context")
        monitor = self.connect()
        monitor("MONITOR")
        monitor.send(b"SYNC\r\n")
        self.assertEqual(self.client("ECHO", "x"), b"x")
        line = monitor.line()
        self.assertIn(b'"ECHO" "x"', line if b"ECHO" in line else monitor.line())
        self.assertEqual(self.client.info()["connected_slaves"], "0")

    def test_before_the_password(self):
        self.client("CONFIG", "SET", "requirepass", "pw")
        client = self.connect()
        for words in ("SYNC", "PSYNC ? -1", "REPLCONF capa eof", "REPLCONF ack 1", "PING", "WAIT 0 0", "ROLE"):
            self.assertEqual(str(client.reply(*words.split())), "NOAUTH Authentication required.", words)
        self.assertEqual(client("AUTH", "pw"), "OK")
        client.send(b"SYNC\r\n")
        line = client.line()
        self.assertRegex(line, rb"^\$\d+$")
        client.bytes(int(line[1:]))
        self.first_commands(client)

    def test_a_replica_that_says_something_else_is_closed(self):
        for words in ("PING", "GET k", "SET k v", "MULTI", "nosuch", "REPLCONF nosuch 1", "REPLCONF capa", "WAIT 0 0", "SUBSCRIBE c", "*x", "*1\r\n$x", "QUIT"):
            client, _ = self.synced("PSYNC ? -1")
            client.send(words.encode() + b"\r\n")
            client.to_the_end()
        wait_until(lambda: self.client.info()["connected_slaves"] == "0", "all are gone")
        self.assertEqual(self.client("DBSIZE"), 0)

    def test_what_a_replica_says_quietly(self):
        client, _ = self.synced("PSYNC ? -1")
        client.send(b"\n\r\n\n" + request("REPLCONF", "ACK", 1) + b"SYNC\r\n" + request("PSYNC", "?", "-1") + request("REPLCONF", "GETACK", "*"))
        self.first_commands(client)
        self.assertEqual(self.client.info()["connected_slaves"], "1")
        # Half a command, and then no more.
        client.send(b"*3\r\n$8\r\nREPLCONF\r\n$3\r\nAC")
        client.close()
        wait_until(lambda: self.client.info()["connected_slaves"] == "0", "it is gone")

    def test_one_that_goes_in_the_middle(self):
        self.ballast()
        for line in (b"SYNC\r\n", b"PSYNC ? -1\r\n"):
            client = self.stack.enter_context(Client(self.primary.port, receive_bytes=1 << 16))
            client.send(line)
            self.assertIn(client.line()[:1], b"$+")
            client.bytes(1000)
            client.close()
            self.write_until(lambda: self.client.info()["connected_slaves"] == "0", "it is gone")
        client, _ = self.synced("SYNC")
        with loaded(self.rdb) as copy:
            self.assertEqual(copy("DBSIZE"), self.client("DBSIZE"))

    def test_one_that_never_reads_is_cut_off(self):
        self.ballast()
        self.client("CONFIG", "SET", "client-output-buffer-limit", "replica 1000000 0 0")
        for line in (b"SYNC\r\n", b"PSYNC ? -1\r\n"):
            client = self.stack.enter_context(Client(self.primary.port, receive_bytes=1 << 16))
            if OURS:
                # A snapshot whose length has to be known first counts, too.
                client("REPLCONF", "capa", "eof")
            client.send(line)
            wait_until(lambda: self.client.info()["connected_slaves"] == "1", "it is listed")
            self.write_until(lambda: self.client.info()["connected_slaves"] == "0", "it is cut off")
            client.to_the_end()
        self.client("CONFIG", "SET", "client-output-buffer-limit", "replica 268435456 67108864 60")
        with Replica(self.primary.port) as replica:
            check_same(self.primary, replica)


# What is said, and what replicas hear of it; * is a number. A blank is between words, a semicolon between commands.
STREAMS = [
    ("SET foo bar", "SELECT 0;SET foo bar"),
    ("SET foo bar EX 100;GETEX foo PERSIST;GETEX foo;GETEX foo EXAT 1000000000", "SELECT 0;SET foo bar PXAT *;PERSIST foo;DEL foo"),
    ("SET foo bar EX 200;SET foo bar PX 100000;SET foo bar EXAT 4000000000;SET foo bar PXAT 4000000000000;SETEX foo 100 bar;PSETEX foo 100000 bar",
     "SELECT 0" + ";SET foo bar PXAT *" * 6),
    ("SET foo bar;EXPIRE foo 100;PEXPIRE foo 100000;EXPIREAT foo 4000000000;PEXPIREAT foo 4000000000000;EXPIREAT foo 1000000000",
     "SELECT 0;SET foo bar;PEXPIREAT foo *;PEXPIREAT foo *;PEXPIREAT foo 4000000000000;PEXPIREAT foo 4000000000000;DEL foo"),
    ("SET foo bar;GETEX foo EX 200;GETEX foo PX 200000;GETEX foo EXAT 4000000000;GETEX foo PXAT 4000000000000",
     "SELECT 0;SET foo bar;PEXPIREAT foo *;PEXPIREAT foo *;PEXPIREAT foo 4000000000000;PEXPIREAT foo 4000000000000"),
    ("SET foo bar EX 100;EXPIRE foo 200 NX;EXPIRE foo 50 GT;PERSIST foo;PERSIST foo;EXPIRE absent 10", "SELECT 0;SET foo bar PXAT *;PERSIST foo"),
    ("SET foo bar;GETDEL foo;GETDEL foo", "SELECT 0;SET foo bar;DEL foo"),
    ("SET foo bar;GETEX foo;GET foo;TOUCH foo;EXISTS foo;DEL foo;DEL foo", "SELECT 0;SET foo bar;DEL foo"),
    ("SET foo bar GET;GETSET foo two;SET foo three NX;SET absent x XX", "SELECT 0;SET foo bar;SET foo two"),
    ("SET foo 1.5 EX 100;INCRBYFLOAT foo 2", "SELECT 0;SET foo 1.5 PXAT *;SET foo 3.5 KEEPTTL"),
    ("SET foo bar;GET foo;LCS foo foo;SET absent x XX;SETRANGE absent 0 ;INCR foo;COPY absent foo;RENAME absent foo", "SELECT 0;SET foo bar"),
    ("SELECT 3;SET foo bar;SELECT 3;SET foo two;SELECT 12;SET foo three;GET foo;SELECT 0;GET foo", "SELECT 3;SET foo bar;SET foo two;SELECT 12;SET foo three"),
    ("MULTI;SET foo bar;EXEC;SET foo2 bar", "SELECT 0;SET foo bar;SET foo2 bar"),
    ("MULTI;SET foo bar;GET foo;SET foo2 bar2;GET foo2;SET foo3 bar3;GET foo3;EXEC", "SELECT 0;MULTI;SET foo bar;SET foo2 bar2;SET foo3 bar3;EXEC"),
    ("MULTI;SELECT 1;SET foo bar;GET foo;SELECT 2;SET foo2 bar2;GET foo2;SELECT 3;SET foo3 bar3;GET foo3;EXEC",
     "SELECT 1;MULTI;SET foo bar;SELECT 2;SET foo2 bar2;SELECT 3;SET foo3 bar3;EXEC"),
    ("MULTI;EXEC;SET foo bar", "SELECT 0;SET foo bar"),
    ("MULTI;SET foo bar;SET foo2 bar;DISCARD;SET foo3 bar", "SELECT 0;SET foo3 bar"),
    ("MULTI;SET foo bar;NOSUCH;EXEC;SET foo3 bar", "SELECT 0;SET foo3 bar"),
    ("MULTI;SET foo bar;INCR foo;SET foo3 bar;EXEC", "SELECT 0;MULTI;SET foo bar;SET foo3 bar;EXEC"),
    ("SET foo value1;MULTI;GET foo;EXEC;SET foo value2", "SELECT 0;SET foo value1;SET foo value2"),
    ("MULTI;DEL foo;EXEC;SET foo 1", "SELECT 0;SET foo 1"),
    ("MULTI;SET foo bar EX 100;EXPIRE foo 200;PERSIST foo;GETDEL foo;EXEC",
     "SELECT 0;MULTI;SET foo bar PXAT *;PEXPIREAT foo *;PERSIST foo;DEL foo;EXEC"),
    ("PUBLISH c hello;SET foo bar;PUBLISH c x", "SELECT 0;PUBLISH c hello;SET foo bar;PUBLISH c x"),
    # What is said inside of MULTI is said by itself here.
    ("MULTI;PUBLISH c one;SET foo bar;PUBLISH c two;EXEC",
     "SELECT 0;PUBLISH c one;SET foo bar;PUBLISH c two" if OURS else "SELECT 0;MULTI;PUBLISH c one;SET foo bar;PUBLISH c two;EXEC"),
    ("EVAL redis.call('set',KEYS[1],'v') 1 foo", "SELECT 0;SET foo v"),
    ("EVAL redis.call('set',KEYS[1],'v')redis.call('setex',KEYS[2],100,'w')redis.call('get',KEYS[1]) 2 foo foo2", "SELECT 0;MULTI;SET foo v;SET foo2 w PXAT *;EXEC"),
    ("EVAL redis.call('set',KEYS[1],'v')redis.call('nosuch') 1 foo;EVAL return(redis.call('get',KEYS[1])) 1 foo;SET foo2 x", "SELECT 0;SET foo v;SET foo2 x"),
    ("MULTI;SET a 1;EVAL redis.call('set',KEYS[1],'v')redis.call('set',KEYS[2],'w') 2 foo foo2;SET b 2;EXEC",
     "SELECT 0;MULTI;SET a 1;SET foo v;SET foo2 w;SET b 2;EXEC"),
]


class Streams(unittest.TestCase):
    """What replicas hear of small commands. Redis tells numbers as they were told to it (INCR); ours may tell what has become of them."""

    @classmethod
    def setUpClass(cls):
        cls.primary = cls.enterClassContext(primary())

    def stream(self, client):
        client("SELECT", 0)
        client("FLUSHALL")
        return contextlib.closing(Stream(self.primary.port))

    def test_what_is_heard(self):
        for number, (said, heard) in enumerate(STREAMS):
            with Client(self.primary.port) as client, self.stream(client) as stream:
                client.replies([command.split(" ") for command in said.split(";")])
                client("SELECT", 15)
                client("SET", f"sentinel:{number}", "x")
                got = stream.until(f"sentinel:{number}")
                # The sentinel's own database.
                self.assertEqual(got.pop(), ["SELECT", "15"], said)
                want = heard.split(";")
                self.assertTrue(len(got) == len(want) and all(map(is_like, got, want)), f"{said}\nwant {want}\ngot  {got}")

    def test_ends_are_those_of_the_primary(self):
        with Client(self.primary.port) as client, self.stream(client) as stream:
            ends = []
            for words in ("SET k v EX 100", "SET k v PX 100500", "EXPIRE k 300", "GETEX k PX 70000", "PSETEX k 12345678 v"):
                client(*words.split())
                ends.append(str(client("PEXPIRETIME", "k")))
            client("SET", "sentinel", "x")
            self.assertEqual([command[-1] for command in stream.until("sentinel")[1:]], ends)

    def test_what_expires(self):
        with Client(self.primary.port) as client, self.stream(client) as stream:
            client("SET", "k", "v", "PX", 20)
            client("SET", "l", "v", "PX", 40)
            wait_until(lambda: client("DBSIZE") == 0, "both are gone")
            client("SET", "sentinel", "x")
            got = stream.until("sentinel")
            want = ["SELECT 0", "SET k v PXAT *", "SET l v PXAT *", "DEL k", "DEL l"]
            self.assertTrue(len(got) == 5 and all(any(is_like(command, pattern) for pattern in want) for command in got), got)
            # Each key after it was set.
            names = [(command[0].upper(), command[1]) for command in got]
            for key in "kl":
                self.assertLess(names.index(("SET", key)), names.index(("DEL", key)))

    def test_two_hear_the_same(self):
        with Client(self.primary.port) as client, self.stream(client) as one:
            client("SET", "a", "1")
            with contextlib.closing(Stream(self.primary.port)) as other:
                client("SET", "b", "2")
                client("SET", "sentinel", "x")
                heard = [one.until("sentinel"), other.until("sentinel")]
            self.assertEqual(heard[1], [["SELECT", "0"], ["SET", "b", "2"]])
            # For one that comes later the database is said again, to all.
            self.assertEqual([command for command in heard[0] if command[0] != "SELECT"], [["SET", "a", "1"], ["SET", "b", "2"]])

    def test_large_values_and_odd_bytes(self):
        value, key = random.Random(5).randbytes(5 << 20), b"\0k\r\n" * 50
        with Client(self.primary.port) as client, self.stream(client) as stream:
            client("SET", key, value)
            client("SET", "empty", "")
            self.assertEqual([stream.read() for _ in range(3)], [[b"SELECT", b"0"], [b"SET", key, value], [b"SET", b"empty", b""]])

    def test_pings_and_requests_for_acks(self):
        with Client(self.primary.port) as client, self.stream(client) as stream:
            client("CONFIG", "SET", "repl-ping-replica-period", 1)
            try:
                self.assertEqual([word.upper() for word in stream.read()], [b"PING"])
            finally:
                client("CONFIG", "SET", "repl-ping-replica-period", 10)
            client("SET", "k", "v")
            self.assertEqual(client("WAIT", 1, 200), 0)
            heard = [stream.read() for _ in range(3)]
            while heard[-1] != [b"REPLCONF", b"GETACK", b"*"]:
                self.assertLess(len(heard), 10, heard)
                heard.append(stream.read())


if __name__ == "__main__":
    unittest.main()
