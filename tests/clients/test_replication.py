"""Unmodified redis-servers that follow this one, and backups by redis-cli.

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
    BALLAST_VALUES, DATABASES, NOT_AN_INTEGER, OURS, SECONDS_MAX, Client, Refused, Replica, WithPrimary, check_same,
    fill_with_every_shape, loaded, wait_until)
from servers import request, tool
from writers import Writer

NOT_ENOUGH = "NOREPLICAS Not enough good replicas to write."


class Following(WithPrimary):
    def test_a_snapshot_has_every_shape(self):
        fill_with_every_shape(self.client, random.Random(3))
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


if __name__ == "__main__":
    unittest.main()
