"""What is kept in files: snapshots and the log, over restarts, crashes and other numbers of lanes, and with redis-server's own files."""

import contextlib
import os
import pathlib
import random
import shutil
import subprocess
import tempfile
import threading
import time
import unittest

from replicas import DATABASES, SECONDS_MAX, Client, Refused, contents, loaded, wait_until
from servers import Server, Unavailable, expresslane_command, redis_command, tool
from writers import Writer

LANES_COUNT = 2
# Redis' rule for the log: what was written a second ago is there. A machine may be slow.
LOST_SECONDS_MAX = 3


class Kept(Server):
    """A server whose files are in a directory that outlives it."""

    def __init__(self, directory, *settings, lanes=LANES_COUNT):
        super().__init__("kept", expresslane_command(lanes=lanes, extra=("--dir", directory, *settings)))
        with Client(self.port) as client:
            wait_until(lambda: not isinstance(client.reply("DBSIZE"), Refused), lambda: f"it has loaded; it said:\n{self.tail()}")
            wait_until(lambda: client.info("persistence")["aof_rewrite_in_progress"] == "0", lambda: f"its log has begun; it said:\n{self.tail()}")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        code = super().end()
        if code != 0:
            raise AssertionError(f"it ended with {code}:\n{self.tail()}")


def refused(directory, *settings):
    """What a server says that can't start with these files."""
    with tempfile.TemporaryFile() as said:
        command = expresslane_command(lanes=1, extra=("--dir", directory, *settings))(0, None)
        code = subprocess.run(command, stdin=subprocess.DEVNULL, stderr=said, timeout=SECONDS_MAX).returncode
        said.seek(0)
        text = said.read().decode()
    if code != 1:
        raise AssertionError(f"it ended with {code}:\n{text}")
    return text


def fill(client, chance):
    """Keys and values of every shape, in several databases."""
    values = [b"", b"0", b"-1", b"128", b"32768", b"2147483648", b"-9223372036854775808", b"007", b"a" * 20, b"a" * 21, b"ab" * 400,
              chance.randbytes(100), chance.randbytes(16_384), b"z" * 16_385, chance.randbytes(100_000), bytes(range(256))]
    for database in range(0, DATABASES, 3):
        client("SELECT", database)
        names = [b"k:%d" % number for number in range(len(values))]
        names[:5] = [b"", b"12345", b"\0\r\n\xff", b"k" * 20_000, b"{tag}1"]
        for name, value in zip(names, values):
            client("SET", name, value)
            if chance.random() < 0.3:
                client("PEXPIRE", name, chance.randrange(10**6, 10**12))
        client("SET", "soon", "gone", "PX", 1)
    client("SET", "20 MB", chance.randbytes(1 << 20) * 20, "EX", 1000)
    client("SELECT", 0)
    time.sleep(0.01)


def check_kept(test, before, after):
    """All of it is there, but for what has ended since."""
    now = time.time() * 1000
    missing = {name: kept for name, kept in before.keys.items() if name not in after.keys}
    test.assertEqual({name: kept for name, kept in missing.items() if not 0 <= kept[1] <= now}, {})
    test.assertEqual({name: kept for name, kept in before.keys.items() if name not in missing}, after.keys)


class Files(unittest.TestCase):
    def setUp(self):
        self.stack = self.enterContext(contextlib.ExitStack())
        self.directory = self.stack.enter_context(tempfile.TemporaryDirectory(prefix="kept-"))

    def start(self, *settings, lanes=LANES_COUNT):
        return self.stack.enter_context(Kept(self.directory, *settings, lanes=lanes))

    def connect(self, server):
        return self.stack.enter_context(Client(server.port))

    def path(self, *names):
        return pathlib.Path(self.directory, *names)

    def parts(self):
        """The names of the log's files by their types, as its manifest has them."""
        lines = self.path("appendonlydir", "appendonly.aof.manifest").read_text().splitlines()
        words = [line.split(" ") for line in lines]
        return [name for _, name, *_, kind in words if kind == "b"], [name for _, name, *_, kind in words if kind == "i"]


class Snapshots(Files):
    def test_one_comes_back_whole_on_another_number_of_lanes(self):
        server = self.start(lanes=2)
        client = self.connect(server)
        fill(client, random.Random(1))
        self.assertEqual(client("SAVE"), "OK")
        before = contents(server.port)
        self.assertEqual(client.info("persistence")["rdb_changes_since_last_save"], "0")
        client("SET", "after", "is lost")
        server.stop()
        self.assertEqual(sorted(path.name for path in self.path().iterdir()), ["dump.rdb"])
        for lanes in (1, 4):
            server = self.start("--save", "1 1", lanes=lanes)
            persistence = self.connect(server).info("persistence")
            self.assertEqual((persistence["rdb_changes_since_last_save"], persistence["rdb_saves"]), ("0", "0"), "what was loaded is no change")
            check_kept(self, before, contents(server.port))
            server.stop()

    def test_redis_reads_ours_and_we_read_that_of_redis(self):
        server = self.start()
        client = self.connect(server)
        fill(client, random.Random(2))
        client("SAVE")
        ours = contents(server.port)
        with loaded(self.path("dump.rdb").read_bytes()) as other:
            check_kept(self, ours, contents(other.socket.getpeername()[1]))
            other("CONFIG", "SET", "rdbcompression", "yes")
            other("SAVE")
            path = pathlib.Path(other("CONFIG", "GET", "dir")[1].decode(), "dump.rdb")
            server.stop()
            shutil.copy(path, self.path("dump.rdb"))
        check_kept(self, ours, contents(self.start(lanes=3).port))

    def test_one_is_written_while_everything_goes_on(self):
        server = self.start("--enable-debug-command", "yes")
        client = self.connect(server)
        with contextlib.ExitStack() as writers:
            for seed in range(3):
                writers.enter_context(Writer(server.port, seed))
            saves = int(client.info("persistence")["rdb_saves"])
            for number in range(5):
                self.assertEqual(client("BGSAVE"), "Background saving started")
                wait_until(lambda: int(client.info("persistence")["rdb_saves"]) == saves + number + 1, "a snapshot is written")
        before = contents(server.port)
        self.assertEqual(client("DEBUG", "RELOAD"), "OK")
        check_kept(self, before, contents(server.port))
        persistence = client.info("persistence")
        self.assertLessEqual(int(persistence["rdb_last_load_keys_loaded"]), sum(before.sizes))
        self.assertEqual((persistence["loading"], persistence["rdb_last_bgsave_status"]), ("0", "ok"))

    def test_at_the_end_and_after_so_many_changes(self):
        server = self.start("--save", "1 5")
        client = self.connect(server)
        client.replies([("SET", f"k:{number}", number) for number in range(5)])
        wait_until(lambda: client.info("persistence")["rdb_saves"] == "1", "a snapshot after five changes")
        server.kill()
        server = self.start("--save", "3600 1")
        client = self.connect(server)
        self.assertEqual(client("DBSIZE"), 5)
        client("SET", "last", "of all")
        server.stop()
        server = self.start()
        client = self.connect(server)
        self.assertEqual(client("GET", "last"), b"of all")
        # Without save points an end is an end, unless it is said otherwise.
        client("SET", "not", "kept")
        server.stop()
        server = self.start("--save", "3600 1")
        client = self.connect(server)
        self.assertEqual(client("EXISTS", "not"), 0)
        client("SET", "not", "kept")
        client.send(b"SHUTDOWN NOSAVE\r\n")
        server.process.wait(SECONDS_MAX)
        server = self.start()
        client = self.connect(server)
        self.assertEqual(client("EXISTS", "not"), 0)
        client("SET", "this", "is kept")
        client.send(b"SHUTDOWN SAVE\r\n")
        self.assertEqual(server.process.wait(SECONDS_MAX), 0)
        self.assertEqual(self.connect(self.start())("GET", "this"), b"is kept")

    def test_a_place_that_is_gone_is_told_and_nothing_ends(self):
        self.path("place").mkdir()
        server = self.stack.enter_context(Kept(str(self.path("place")), "--save", "1 1"))
        client = self.connect(server)
        shutil.rmtree(self.path("place"))
        with self.assertRaisesRegex(Refused, "^ERR the snapshot can't be written: .*place/temp-.*No such file"):
            client("SAVE")
        self.assertEqual(client.info("persistence")["rdb_last_bgsave_status"], "err")
        wait_until(lambda: isinstance(client.reply("SET", "k", 1), Refused), "writes are refused")
        with self.assertRaisesRegex(Refused, "^MISCONF Redis is configured to save RDB snapshots"):
            client("SET", "k", 1)
        client("CONFIG", "SET", "stop-writes-on-bgsave-error", "no")
        self.assertEqual(client("SET", "k", 1), "OK")
        client("CONFIG", "SET", "stop-writes-on-bgsave-error", "yes")
        with self.assertRaises(Refused):
            client("SHUTDOWN")
        # Asked to end it goes on, too, for its data would be lost.
        server.process.terminate()
        wait_until(lambda: "the server goes on; SHUTDOWN NOSAVE" in server.tail(4000), "it says that it can't end")
        self.path("place").mkdir()
        wait_until(lambda: client.reply("SET", "k", 2) == "OK", "writes are taken again")
        server.stop()
        self.assertEqual(self.connect(self.stack.enter_context(Kept(str(self.path("place")))))("GET", "k"), b"2")

    def test_what_can_not_be_read_is_not_written_over(self):
        client = self.connect(server := self.start())
        client("SET", "k", "v" * 100)
        client("SET", "2 MB", "v" * (2 << 20))
        client("SAVE")
        server.stop()
        whole = self.path("dump.rdb").read_bytes()
        for data, why in (
                (whole[:-20_000], "it ends too early"), (whole[:-1] + b"x", "its checksum is wrong"),
                (whole.replace(b"REDIS0010", b"REDIS0099"), "its version is 99"), (b"hello\r\n" * 3, "it does not begin with REDIS"),
                (b"hello", "it ends too early"), (b"", "it ends too early"), (whole[:9] + b"\x01\x01l\x01\x01a\xff" + bytes(8), "it holds lists, and only strings are served")):
            self.path("dump.rdb").write_bytes(data)
            self.assertIn(f"can't start without the data: {self.directory}/dump.rdb: {why}", refused(self.directory))
            self.assertEqual(self.path("dump.rdb").read_bytes(), data)
        # What stands behind its end is nothing of it.
        self.path("dump.rdb").write_bytes(whole + b"FLUSHALL\r\n")
        self.assertEqual(self.connect(self.start())("STRLEN", "k"), 100)

    def test_what_was_there_is_there_again_whatever_the_limits(self):
        limits = ("--maxmemory", "1mb", "--client-query-buffer-limit", "1mb", "--proto-max-bulk-len", "1mb")
        client = self.connect(server := self.start("--appendonly", "yes"))
        client("SET", "{2 MB}", "v" * (2 << 20))
        client("SAVE")
        client.replies([("MULTI",), *(("SET", f"of many:{number}", "v" * 300_000) for number in range(8)), ("EXEC",)])
        before = contents(server.port)
        server.stop()
        for settings in (("--appendonly", "yes"), ()):
            server = self.stack.enter_context(Kept(self.directory, *settings, *limits))
            client = self.connect(server)
            self.assertEqual(client("DBSIZE"), 9 if settings else 1)
            if settings:
                check_kept(self, before, contents(server.port))
            # From now on they hold.
            self.assertIn("OOM command not allowed", str(client.reply("SET", "{2 MB}", "v")))
            server.kill()


class Logs(Files):
    def test_all_that_was_said_is_there_after_an_end(self):
        server = self.start("--appendonly", "yes", lanes=2)
        client = self.connect(server)
        fill(client, random.Random(3))
        with contextlib.ExitStack() as writers:
            for seed in range(4):
                writers.enter_context(Writer(server.port, seed))
            rewrites = int(client.info("persistence")["aof_rewrites"])
            for number in range(3):
                self.assertEqual(client("BGREWRITEAOF"), "Background append only file rewriting started")
                wait_until(lambda: int(client.info("persistence")["aof_rewrites"]) == rewrites + number + 1, "the log has a new base")
        before = contents(server.port)
        server.stop()
        bases, increments = self.parts()
        self.assertEqual((len(bases), len(increments)), (1, 1))
        names = sorted(path.name for path in self.path("appendonlydir").iterdir())
        self.assertEqual(names, sorted([*bases, *increments, "appendonly.aof.manifest"]))
        server = self.start("--appendonly", "yes", lanes=4)
        check_kept(self, before, contents(server.port))
        self.assertEqual(self.connect(server).info("persistence")["aof_enabled"], "1")

    def test_a_crash_loses_a_moment_at_most_and_no_half_of_anything(self):
        server = self.start("--appendonly", "yes", lanes=3)
        said, clients, counts = [], [self.connect(server) for _ in range(3)], [0, 0, 0]
        until = time.monotonic() + 3
        while time.monotonic() < until:
            for number, client in enumerate(clients):
                counts[number] += 1
                # Its two keys are on two lanes more often than not.
                names = (f"one:{number}", f"two:{number}")
                client.replies([("MULTI",), ("SET", names[0], counts[number]), ("SET", names[1], counts[number]), ("EXEC",)])
                client("SET", f"k:{number}:{counts[number]}", counts[number])
            said.append((time.monotonic(), list(counts)))
        killed = time.monotonic()
        server.kill()
        old = [counts for at, counts in said if at < killed - LOST_SECONDS_MAX + 1][-1:] or [[0, 0, 0]]
        client = self.connect(self.start("--appendonly", "yes", lanes=2))
        for number in range(3):
            one, two = client("GET", f"one:{number}"), client("GET", f"two:{number}")
            self.assertEqual(one, two, "a transaction is whole")
            count = int(one)
            self.assertGreaterEqual(count, old[0][number])
            there = client.replies([("EXISTS", f"k:{number}:{index}") for index in range(1, count)])
            self.assertEqual(there, [1] * (count - 1), "nothing is missing before what is there")

    def test_redis_reads_ours_and_we_read_those_of_redis(self):
        server = self.start("--appendonly", "yes")
        client = self.connect(server)
        client("SET", "in the base", 1)
        client("BGREWRITEAOF")
        wait_until(lambda: client.info("persistence")["aof_rewrite_in_progress"] == "0", "the log has a new base")
        fill(client, random.Random(4))
        client.replies([("INCR", "n"), ("APPEND", "20 MB", "end"), ("MSET", "a", 1, "b", 2), ("SELECT", 3), ("SWAPDB", 0, 3), ("DEL", "k:9")])
        ours = contents(server.port)
        server.stop()
        tool("redis-check-aof", "redis-tools")
        subprocess.run(["redis-check-aof", self.path("appendonlydir", "appendonly.aof.manifest")], check=True, stdout=subprocess.DEVNULL)
        settings = ("--dir", self.directory, "--appendonly", "yes")
        with Server("redis", lambda port, at: [*redis_command(port, at), *settings, "--aof-use-rdb-preamble", "no"]) as other:
            with Client(other.port) as client:
                wait_until(lambda: not isinstance(client.reply("DBSIZE"), Refused), "redis-server has loaded")
                check_kept(self, ours, contents(other.port))
                # A base of commands.
                client("BGREWRITEAOF")
                wait_until(lambda: client.info("persistence")["aof_rewrite_in_progress"] == "0", "redis-server has written its log")
                client.replies([("SELECT", 5), ("INCRBYFLOAT", "x", "1.5"), ("EVAL", "return redis.call('set', KEYS[1], 'by a script')", 1, "s")])
                theirs = contents(other.port)
        self.assertTrue(self.parts()[0][0].endswith(".base.aof"))
        check_kept(self, theirs, contents(self.start("--appendonly", "yes", lanes=3).port))

    def test_what_has_ended_since_had_not_when_it_was_said(self):
        server = self.start("--appendonly", "yes", lanes=3)
        client = self.connect(server)
        client.replies([("SET", name, "v", "PX", 3000) for name in ("kept", "moved", "gone")])
        client("BGREWRITEAOF")
        wait_until(lambda: client.info("persistence")["aof_rewrite_in_progress"] == "0", "the log has a new base")
        self.assertEqual(client.replies([("PERSIST", "kept"), ("RENAME", "moved", "there"), ("PERSIST", "there"), ("APPEND", "gone", "!")]), [1, "OK", 1, 2])
        server.stop()
        time.sleep(3)
        client = self.connect(self.start("--appendonly", "yes", lanes=2))
        self.assertEqual(client("MGET", "kept", "moved", "there", "gone"), [b"v", None, b"v", None])
        wait_until(lambda: client("DBSIZE") == 2, "what has ended is gone")
        self.assertAlmostEqual(int(client("TIME")[0]), time.time(), delta=60)
        self.assertLess(client("OBJECT", "IDLETIME", "kept"), 60)

    def test_a_log_is_loaded_whatever_clients_may_do(self):
        users = ("--user", "default on nopass ~* -@all +info +dbsize", "--user", "owner on nopass ~* &* +@all")
        server = self.start("--appendonly", "yes", *users)
        client = self.connect(server)
        client("AUTH", "owner", "x")
        client.replies([("SET", "gone", 1), ("FLUSHALL",), ("MULTI",), ("SET", "k", 1), ("INCR", "k"), ("EXEC",), ("MSET", "l", 1, "m", 2), ("SWAPDB", 0, 1)])
        server.stop()
        client = self.connect(self.start("--appendonly", "yes", *users))
        client("AUTH", "owner", "x")
        client("SELECT", 1)
        self.assertEqual(client("MGET", "k", "l", "m", "gone"), [b"2", b"1", b"2", None])

    def test_an_end_that_was_cut_off_is_left_out_or_refused(self):
        server = self.start("--appendonly", "yes")
        client = self.connect(server)
        wait_until(lambda: self.path("appendonlydir", "appendonly.aof.manifest").exists(), "the log has begun")
        client.replies([("SET", "whole", 1), ("MULTI",), ("SET", "a", 1), ("SET", "b", 1), ("EXEC",)])
        server.stop()
        path = self.path("appendonlydir", self.parts()[1][-1])
        data = path.read_bytes()
        # Two bytes less, and the transaction is none.
        path.write_bytes(data[:-2])
        self.assertIn("its last command is cut off", refused(self.directory, "--appendonly", "yes", "--aof-load-truncated", "no"))
        server = self.start("--appendonly", "yes")
        client = self.connect(server)
        self.assertEqual(client("MGET", "whole", "a", "b"), [b"1", None, None])
        self.assertIn("the last command is cut off", server.tail(4000))
        server.stop()
        self.path("appendonlydir", self.parts()[1][-1]).write_bytes(b"*2\r\n$3\r\nGET\r\nx")
        self.assertIn("a command is not as clients send them", refused(self.directory, "--appendonly", "yes"))
        self.path("appendonlydir", self.parts()[1][-1]).write_bytes(b"*3\r\n$5\r\nLPUSH\r\n$1\r\nl\r\n$1\r\na\r\n")
        self.assertIn("LPUSH is a command that this server does not have", refused(self.directory, "--appendonly", "yes"))
        self.path("appendonlydir", "appendonly.aof.manifest").write_text("nonsense\n")
        self.assertIn("appendonly.aof.manifest: line 1 is not", refused(self.directory, "--appendonly", "yes"))

    def test_a_log_that_was_cut_off_goes_on_until_the_next_crash(self):
        for number in range(4):
            server = self.start("--appendonly", "yes")
            client = self.connect(server)
            self.assertEqual(client("MGET", "cut", *(f"k:{earlier}" for earlier in range(number))), [None, *[b"1"] * number])
            # One after the other: those of a pipeline may come from several lanes at once.
            client("SET", f"k:{number}", 1)
            client("SET", "cut", number)
            path = self.path("appendonlydir", self.parts()[1][-1])
            last = b"$3\r\ncut\r\n$1\r\n%d\r\n" % number
            wait_until(lambda: path.read_bytes().endswith(last), "it is in the log")
            server.kill()
            path.write_bytes(path.read_bytes()[:-2])

    def test_a_cut_end_is_the_end_of_the_log_only_if_nothing_is_behind_it(self):
        server = self.start("--appendonly", "yes")
        client = self.connect(server)
        client.replies([("SET", "whole", 1), ("MULTI",), ("SET", "a", 1), ("EXEC",)])
        server.stop()
        cut, manifest = self.path("appendonlydir", self.parts()[1][-1]), self.path("appendonlydir", "appendonly.aof.manifest")
        sequence = int(cut.name.split(".")[2]) + 1
        behind = cut.with_name(f"appendonly.aof.{sequence}.incr.aof")
        named = manifest.read_text() + f"file {behind.name} seq {sequence} type i\n"
        data = cut.read_bytes()
        for size in (2, len(b"*1\r\n$4\r\nEXEC\r\n")):
            # In the middle of a command, and between two of a transaction.
            cut.write_bytes(data[:-size])
            manifest.write_text(named)
            behind.write_bytes(b"*3\r\n$3\r\nSET\r\n$5\r\nlater\r\n$1\r\n1\r\n")
            self.assertIn("its last command is cut off", refused(self.directory, "--appendonly", "yes"))
            self.assertEqual(len(cut.read_bytes()), len(data) - size, "what is refused stays as it is")
        behind.write_bytes(b"")
        server = self.start("--appendonly", "yes")
        client = self.connect(server)
        self.assertEqual(client("MGET", "whole", "a", "later"), [b"1", None, None])
        server.stop()
        self.assertEqual(self.connect(self.start("--appendonly", "yes"))("MGET", "whole", "a"), [b"1", None])

    def test_a_crash_while_the_log_is_begun_anew_leaves_no_gap(self):
        server = self.start("--appendonly", "yes", "--auto-aof-rewrite-percentage", "0")
        indices = range(4)
        for number in range(6):
            client = self.connect(server)
            counts = [int(count or 0) for count in client("MGET", *(f"count:{index}" for index in indices))]
            talkers = [self.connect(server) for _ in indices]

            def talk(index):
                with contextlib.suppress(OSError, EOFError, ValueError, IndexError):
                    for said in range(counts[index] + 1, 10**9):
                        # Long ones keep the file busy. What is said and what is counted is the same if all is there, once.
                        talkers[index]("SET", f"long:{index}", "x" * 300_000)
                        talkers[index]("SET", f"said:{index}", said)
                        talkers[index]("INCR", f"count:{index}")

            threads = [threading.Thread(target=talk, args=(index,)) for index in indices]
            for thread in threads:
                thread.start()
            time.sleep(0.2)
            client("BGREWRITEAOF")
            time.sleep(0.01 * number)
            server.kill()
            for thread in threads:
                thread.join()
            server = self.start("--appendonly", "yes", "--auto-aof-rewrite-percentage", "0")
            client = self.connect(server)
            for index in indices:
                said, count = (int(found or 0) for found in client("MGET", f"said:{index}", f"count:{index}"))
                self.assertIn(said - count, (0, 1), f"client {index} has said {said}, and {count} were counted")

    def test_it_begins_and_ends_while_the_server_runs(self):
        server = self.start("--enable-debug-command", "yes")
        client = self.connect(server)
        with self.assertRaisesRegex(Refused, "Error trying to load the AOF files"):
            client("DEBUG", "LOADAOF")
        client("SET", "before", 1)
        with self.assertRaisesRegex(Refused, "no reply waits for a disk here"):
            client("CONFIG", "SET", "appendfsync", "always")
        client("CONFIG", "SET", "appendonly", "yes")
        wait_until(lambda: self.path("appendonlydir", "appendonly.aof.manifest").exists(), "the log has begun")
        client.replies([("SET", "during", 1), ("PEXPIREAT", "during", 10**13), ("INCR", "n")])
        self.assertEqual(client("DEBUG", "LOADAOF"), "OK")
        self.assertEqual(client("MGET", "before", "during", "n"), [b"1", b"1", b"1"])
        self.assertEqual(client("PEXPIRETIME", "during"), 10**13)
        client("INCR", "n")
        client("CONFIG", "SET", "appendonly", "no")
        client("INCR", "n")
        self.assertEqual(client("DEBUG", "LOADAOF"), "OK")
        # What was on its way to the log when it ended may not be in it.
        self.assertIn(client("GET", "n"), (b"1", b"2"))
        client("SET", "n", 3)
        # What it says is old now, and is never mixed with what comes later.
        client("CONFIG", "SET", "appendonly", "yes")
        wait_until(lambda: client.info("persistence")["aof_rewrite_in_progress"] == "0", "the log has begun")
        client("INCR", "n")
        with self.assertRaisesRegex(Unavailable, "another server writes its log there"):
            self.start("--appendonly", "yes")
        server.stop()
        self.assertEqual(self.connect(self.start("--appendonly", "yes"))("GET", "n"), b"4")

    def test_nothing_is_answered_that_no_file_would_hold(self):
        server = self.start("--appendonly", "yes")
        client = self.connect(server)
        # The next file's name is taken.
        self.path("appendonlydir", "appendonly.aof.2.incr.aof").mkdir()
        kept = []

        def can_write():
            kept.append(client.reply("SET", f"k:{len(kept)}", 1))
            return kept[-1] == "OK"

        client("BGREWRITEAOF")
        wait_until(lambda: not can_write(), "writes are refused")
        self.assertEqual(str(kept[-1]), "MISCONF Errors writing to the AOF file: please check the server's log")
        self.assertEqual(client.info("persistence")["aof_last_write_status"], "err")
        self.path("appendonlydir", "appendonly.aof.2.incr.aof").rmdir()
        wait_until(can_write, "writes are taken again")
        last = b"k:%d\r" % (len(kept) - 1)
        wait_until(lambda: last in self.path("appendonlydir", "appendonly.aof.2.incr.aof").read_bytes(), "it is in the log")
        server.kill()
        client = self.connect(self.start("--appendonly", "yes"))
        for number, reply in enumerate(kept):
            self.assertEqual(client("EXISTS", f"k:{number}"), int(reply == "OK"), f"{number} was answered {reply}")

    def test_an_end_waits_for_a_slow_disk(self):
        for is_patient in (True, False):
            server = self.start("--appendonly", "yes", "--appendfsync", "no")
            client = self.connect(server)
            # A disk that takes nothing until somebody reads.
            number = 1 + int(self.parts()[1][-1].split(".")[2])
            path = self.path("appendonlydir", f"appendonly.aof.{number}.incr.aof")
            os.mkfifo(path)
            client("BGREWRITEAOF")
            with path.open("rb") as disk:
                wait_until(lambda: client.info("persistence")["aof_rewrite_in_progress"] == "0", "the log has a new base")
                # More than is on its way to a file at a time.
                value = b"v" * 100_000
                for index in range(30):
                    self.assertEqual(client("SET", f"k:{index}", value), "OK")
                server.process.terminate()
                wait_until(lambda: "the disk is slow" in server.tail(4000), "it says what it waits for")
                self.assertIsNone(server.process.poll())
                if not is_patient:
                    server.process.terminate()
                    self.assertEqual(server.process.wait(SECONDS_MAX), 1)
                    break
                data = disk.read()
                self.assertEqual(server.process.wait(SECONDS_MAX), 0)
            self.assertEqual([data.count(b"k:%d\r\n" % index) for index in range(30)], [1] * 30)
            path.unlink()
            path.touch()

    def test_an_end_waits_for_the_first_base(self):
        server = self.start()
        client = self.connect(server)
        value = random.Random(5).randbytes(1 << 20)
        for number in range(60):
            client("SET", f"k:{number}", value)
        client("CONFIG", "SET", "appendonly", "yes")
        client("SET", "after", 1)
        server.stop()
        bases, increments = self.parts()
        self.assertEqual(sorted(path.name for path in self.path("appendonlydir").iterdir()), sorted([*bases, *increments, "appendonly.aof.manifest"]))
        client = self.connect(self.start("--appendonly", "yes"))
        self.assertEqual((client("DBSIZE"), client("GET", "after")), (61, b"1"))

    def test_what_is_half_written_at_an_end_is_not_left(self):
        server = self.start("--appendonly", "yes")
        client = self.connect(server)
        value = random.Random(6).randbytes(1 << 20)
        for number in range(60):
            client("SET", f"k:{number}", value)
        client.replies([("BGREWRITEAOF",), ("BGSAVE",)])
        server.stop()
        self.assertEqual([path.name for path in self.path().rglob("temp-*")], [])
        self.assertEqual(self.connect(self.start("--appendonly", "yes"))("DBSIZE"), 60)

    def test_replicas_and_the_log_get_the_same(self):
        server = self.start("--appendonly", "yes", lanes=3)
        follow = ("--replicaof", "127.0.0.1", str(server.port), "--repl-diskless-sync-delay", "0")
        with Server("replica", lambda port, at: [*redis_command(port, at), *follow]) as replica, Client(replica.port) as follower:
            client = self.connect(server)
            wait_until(lambda: client.info()["connected_slaves"] == "1", "one replica, for a file is none")
            with contextlib.ExitStack() as writers:
                for seed in range(2):
                    writers.enter_context(Writer(server.port, seed))
            client("SET", "last", 1)
            self.assertEqual(client("WAIT", 1, SECONDS_MAX * 1000), 1)
            self.assertEqual(client("WAIT", 2, 100), 1, "the log's file acknowledges nothing")
            before = contents(server.port)
            check_kept(self, before, contents(replica.port))
            self.assertEqual(follower("GET", "last"), b"1")
        server.stop()
        check_kept(self, before, contents(self.start("--appendonly", "yes").port))

    def test_it_is_begun_anew_when_it_has_grown(self):
        server = self.start("--appendonly", "yes", "--auto-aof-rewrite-min-size", "100kb")
        client = self.connect(server)
        wait_until(lambda: client.info("persistence")["aof_rewrites"] == "1", "the log has a base")
        for number in range(300):
            client("SET", "k", bytes([65 + number % 26]) * 1000)
        wait_until(lambda: int(client.info("persistence")["aof_rewrites"]) >= 2, "the log is begun anew")
        wait_until(lambda: int(client.info("persistence")["aof_current_size"]) < 200_000, "it is small then")


if __name__ == "__main__":
    unittest.main()
