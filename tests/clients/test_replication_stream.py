"""How replicas are answered, and what they are sent, byte for byte.

What is asserted here is what redis-server 7.0.15 does as a primary, but for where OURS is asked. It runs alone, too, and then against Redis:

    PYTHONPATH=bench REPLICATION_PRIMARY=redis python3 tests/clients/test_replication_stream.py
"""

import contextlib
import random
import re
import unittest

from replicas import (
    NOT_AN_INTEGER, OURS, Client, Replica, Stream, WithPrimary, check_same, is_like, loaded, primary, wait_until)
from servers import request


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
