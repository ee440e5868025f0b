"""A replica whose primary is played by a test, word by word: what it says and counts, what it survives, and where it goes on.

What is asserted here is what redis-server 7.0.15 does as a replica, but for where FOLLOWER_IS_OURS is asked. It runs alone, too, and then against Redis:

    PYTHONPATH=bench REPLICATION_REPLICA=redis python3 tests/clients/test_following_bad_primaries.py
"""

import contextlib
import pathlib
import random
import socket
import time
import unittest

from replicas import FOLLOWER_IS_OURS, SECONDS_MAX, Client, Follower, redis_primary, wait_until
from servers import free_port, request

ID, OTHER_ID = "a" * 40, "b" * 40
START = 1000
LONG_AGO = 1_000_000_000_000
VERSION = 10
STRING, LIST = b"\0", b"\1"
MARK = b"m" * 40
# Commands of a replica until PSYNC, at most.
STEPS_MAX = 10


def rdb(*keys, version=VERSION, kind=STRING, checksum=bytes(8)):
    """A snapshot of these names and values in database 0, each shorter than 64 bytes. A checksum of zeros is none."""
    body = b"".join(kind + b"".join(bytes([len(word)]) + word for word in key) for key in keys)
    return b"REDIS%04d" % version + b"\xfe\0" + body + b"\xff" + checksum


def with_length(snapshot):
    return b"$%d\r\n" % len(snapshot) + snapshot


class Played:
    """The port of a primary that is played by a test."""

    def __init__(self):
        self.port = free_port()
        self.socket = socket.create_server(("127.0.0.1", self.port))

    def link(self):
        """The next connection of a replica."""
        self.socket.settimeout(SECONDS_MAX)
        return Link(self.socket.accept()[0])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()


class Link(Client):
    """The primary's end of a connection with a replica."""

    def __init__(self, connection):
        self.socket, self.received = connection, bytearray()
        # What the replica has said before PSYNC.
        self.said = []

    def words(self):
        """The next command of the replica; acknowledgements are commands."""
        return [word.decode() for word in self.read()]

    def psync(self):
        """Answers what comes before PSYNC as Redis does, and returns what that asks for: an id, and the first byte it wants."""
        while (words := self.words())[0].upper() != "PSYNC":
            self.said.append(words)
            self.answer(words)
        return words[1], int(words[2])

    def answer(self, words):
        self.send(b"+PONG\r\n" if words[0].upper() == "PING" else b"+OK\r\n")

    def sync(self, snapshot, offset=START):
        """A full synchronization with this snapshot."""
        self.psync()
        self.send(b"+FULLRESYNC %b %d\r\n" % (ID.encode(), offset) + with_length(snapshot))
        return self

    def acknowledged(self, offset):
        """Waits until the replica says that it has all up to there, and never that it has more."""
        until, last = time.monotonic() + SECONDS_MAX, None
        while last != offset:
            last = self.acknowledgement()
            if last > offset or time.monotonic() > until:
                raise AssertionError(f"{last} is acknowledged instead of {offset}")

    def acknowledgement(self):
        words = self.words()
        if [word.upper() for word in words[:2]] != ["REPLCONF", "ACK"] or len(words) != 3:
            raise AssertionError(f"a replica says {words}")
        return int(words[2])


class WithPlayed(unittest.TestCase):
    """Each test has a follower of nobody, a client of it, and a primary to play."""

    SETTINGS = ()

    def setUp(self):
        self.stack = self.enterContext(contextlib.ExitStack())
        self.played = self.stack.enter_context(Played())
        self.follower = self.stack.enter_context(Follower(None, *self.SETTINGS))
        self.client = self.stack.enter_context(Client(self.follower.port))

    def follow(self, played=None):
        self.assertEqual(self.client("REPLICAOF", "127.0.0.1", (played or self.played).port), "OK")
        return self.link(played)

    def follow_from_the_start(self):
        """The link of a follower of its own, which has never been a primary: one that has offers its own history first."""
        self.follower = self.stack.enter_context(Follower(self.played.port))
        self.client = self.stack.enter_context(Client(self.follower.port))
        return self.link()

    def link(self, played=None):
        return self.stack.enter_context((played or self.played).link())

    def wait_for_link(self, status):
        wait_until(lambda: self.client.info()["master_link_status"] == status, lambda: f"the link is {status}; the follower said:\n{self.follower.tail()}")

    def wait_for(self, value, *command):
        wait_until(lambda: self.client.reply(*command) == value, lambda: f"{command} is {value}; it is {self.client.reply(*command)}")


class Words(WithPlayed):
    def test_what_a_replica_says(self):
        link = self.follow_from_the_start()
        self.assertEqual(link.psync(), ("?", -1))
        self.assertEqual([word.upper() for word in link.said[0]], ["PING"])
        said = [words[1:] for words in link.said[1:] if words[0].upper() == "REPLCONF"]
        self.assertEqual(len(said), len(link.said) - 1)
        self.assertIn(["listening-port", str(self.follower.port)], said)
        capabilities = [words[1] for sent in said for words in zip(sent[::2], sent[1::2]) if words[0] == "capa"]
        self.assertEqual(sorted(capabilities), ["eof", "psync2"])
        # Nothing yet, but for signs of life.
        link.send(b"\n\n")
        self.assertEqual(self.client.info()["master_link_status"], "down")
        link.send(b"+FULLRESYNC %b %d\r\n" % (ID.encode(), START) + b"\n\n")
        wait_until(lambda: self.client.info()["master_sync_in_progress"] == "1", "it waits for the snapshot")
        self.assertEqual(self.client("ROLE")[3:], [b"sync", -1])
        link.send(b"\n")
        link.send(with_length(rdb((b"k", b"v"), (b"n", b"5"))))
        self.wait_for_link("up")
        self.assertEqual(self.client("MGET", "k", "n"), [b"v", b"5"])
        self.assertEqual(self.client("ROLE"), [b"slave", b"127.0.0.1", self.played.port, b"connected", START])

    def test_how_far_it_is(self):
        """To the byte, about each second by itself, and at once where it is asked."""
        link = self.follow().sync(rdb())
        offset = START
        link.acknowledged(offset)
        for data in (request("SELECT", 0), request("SET", "k", "v"), request("PING"), request("MULTI") + request("INCR", "n") + request("EXEC"),
                     request("INCR", "n"), request("SET", "long", "x" * 100_000), b"\n\n" + request("PING")):
            # It is asked before it has done that.
            link.send(data + request("REPLCONF", "GETACK", "*"))
            link.acknowledged(offset := offset + len(data))
            offset += len(request("REPLCONF", "GETACK", "*"))
            wait_until(lambda: self.client("ROLE")[4] == offset, lambda: f"all is done up to {offset}; ROLE says {self.client('ROLE')}")
        self.assertEqual(self.client("MGET", "k", "n"), [b"v", b"2"])
        self.assertEqual(int(self.client.info()["slave_repl_offset"]), offset)
        begin = time.monotonic()
        self.assertEqual([link.acknowledgement() for _ in range(2)], [offset] * 2)
        self.assertGreater(time.monotonic() - begin, 0.5)
        self.assertLess(time.monotonic() - begin, 10)
        # Of a command that is not whole it does not speak.
        link.send(request("INCR", "n")[:-3])
        self.assertEqual(link.acknowledgement(), offset)
        link.send(request("INCR", "n")[-3:])
        link.acknowledged(offset + len(request("INCR", "n")))

    def test_a_mark_instead_of_a_length(self):
        for junk in (b"", MARK[:39], MARK[:1] * 80):
            link = self.follow()
            link.psync()
            snapshot = rdb((b"k", junk[:50]))
            link.send(b"+FULLRESYNC %b %d\r\n" % (ID.encode(), START) + b"$EOF:" + MARK + b"\r\n")
            # In pieces, of which some cut the mark.
            for piece in (snapshot[:5], snapshot[5:20], snapshot[20:] + MARK[:13], MARK[13:39], MARK[39:]):
                link.send(piece)
                time.sleep(0.01)
            link.acknowledged(START)
            link.send(request("SELECT", 0) + request("SET", "after", "v"))
            self.wait_for([junk[:50], b"v"], "MGET", "k", "after")
            self.client("REPLICAOF", "NO", "ONE")

    def test_a_primary_that_is_not_ready_is_asked_again(self):
        answers = [b"-LOADING Redis is loading the dataset in memory\r\n", b"-NOMASTERLINK Can't SYNC while not connected with my master\r\n"]
        link = self.follow_from_the_start()
        for answer in answers:
            self.assertEqual(link.psync(), ("?", -1))
            link.send(answer)
            link.to_the_end()
            link = self.link()
        link.sync(rdb((b"k", b"v")))
        self.wait_for(b"v", "GET", "k")

    def test_it_counts_while_it_loads(self):
        """Half of a snapshot: others are served meanwhile, be it that they are refused."""
        self.client("SET", "k", "old")
        link = self.follow()
        link.psync()
        snapshot = rdb(*((b"k:%d" % number, b"v" * 50) for number in range(1000)))
        link.send(b"+FULLRESYNC %b %d\r\n" % (ID.encode(), START) + with_length(snapshot)[:20_000])
        wait_until(lambda: self.client.info()["master_sync_in_progress"] == "1", "it takes the snapshot")
        info = self.client.info()
        self.assertEqual((info["role"], info["master_link_status"]), ("slave", "down"))
        self.assertEqual(self.client("ROLE")[:4], [b"slave", b"127.0.0.1", self.played.port, b"sync"])
        if not FOLLOWER_IS_OURS:
            self.assertEqual(
                [name for name in info if name.startswith("master_sync")],
                ["master_sync_in_progress", "master_sync_total_bytes", "master_sync_read_bytes", "master_sync_left_bytes", "master_sync_perc",
                 "master_sync_last_io_seconds_ago"])
            self.assertEqual(self.client("GET", "k"), b"old")
        self.assertRegex(str(self.client.reply("GET", "k")), "^(b'old'|None|LOADING Redis is loading the dataset in memory|MASTERDOWN .*)$")
        self.assertRegex(str(self.client.reply("SET", "k", "v")), "^(READONLY|LOADING) ")
        link.send(with_length(snapshot)[20_000:])
        self.wait_for_link("up")
        self.assertEqual((self.client("DBSIZE"), self.client("GET", "k")), (1000, None))


class Stream(WithPlayed):
    def test_the_primary_says_when_something_ends(self):
        link = self.follow().sync(rdb((b"other", b"v")))
        link.send(b"".join(request(*words) for words in (
            ("SELECT", 0), ("SET", "k", "v", "PXAT", LONG_AGO), ("SET", "n", 5, "PXAT", LONG_AGO), ("SET", "m", "v"), ("PEXPIREAT", "m", LONG_AGO),
            ("SET", "moved", "v", "PXAT", LONG_AGO), ("RENAME", "moved", "renamed"), ("SET", "deleted", "v", "PXAT", LONG_AGO), ("DEL", "deleted"),
            ("SET", "not set", "v", "PXAT", LONG_AGO), ("SET", "not set", "w", "NX"), ("SET", "last", "v"))))
        self.wait_for(b"v", "GET", "last")
        self.assertEqual(self.client("MGET", "k", "n", "m", "renamed", "deleted"), [None] * 5)
        self.assertEqual([self.client("EXISTS", "k"), self.client("TTL", "k"), self.client("DBSIZE")], [0, -2, 7])
        # To the primary they have not ended.
        link.send(b"".join(request(*words) for words in (
            ("INCR", "n"), ("APPEND", "k", "w"), ("PERSIST", "k"), ("PERSIST", "n"), ("PEXPIREAT", "m", 2 * LONG_AGO), ("PERSIST", "renamed"),
            ("PERSIST", "not set"), ("SET", "last", "w"))))
        self.wait_for(b"w", "GET", "last")
        self.assertEqual(self.client("MGET", "k", "n", "m", "renamed", "not set"), [b"vw", b"6", b"v", b"v", b"v"])
        self.assertEqual(self.client("PEXPIRETIME", "m"), 2 * LONG_AGO)

    def test_the_stream_goes_on_in_a_database_that_the_snapshot_names(self):
        """A replica that is followed passes on what it is sent itself, and does not begin with a SELECT."""
        for number in (b"\xc0\x03", b"\x013"):
            aux = b"\xfa\x0erepl-stream-db" + number
            snapshot = rdb((b"k", b"v"))
            with self.follow().sync(snapshot[:9] + aux + snapshot[9:]) as link:
                self.wait_for_link("up")
                sent = request("SET", "there", number)
                link.send(sent)
                link.acknowledged(START + len(sent))
                self.client("SELECT", 3)
                self.assertEqual([self.client("GET", "there"), self.client("DBSIZE")], [number, 1])
                self.client("SELECT", 0)
                self.assertEqual([self.client("GET", "k"), self.client("DBSIZE")], [b"v", 1])
                self.client("REPLICAOF", "NO", "ONE")

    def test_a_snapshot_may_hold_what_has_ended(self):
        """Its primary has not deleted it yet, and may go on with it."""
        ended = b"\xfc" + LONG_AGO.to_bytes(8, "little")
        names = [b"k", b"moved", b"copied", b"deleted"]
        body = b"".join(ended + STRING + bytes([len(name)]) + name + b"\x01v" for name in names)
        link = self.follow().sync(rdb()[:-9] + body + b"\xff" + bytes(8))
        self.wait_for_link("up")
        self.assertEqual([self.client("DBSIZE"), self.client("GET", "k")], [4, None])
        link.send(b"".join(request(*words) for words in (
            ("SELECT", 0), ("PERSIST", "k"), ("RENAME", "moved", "renamed"), ("PERSIST", "renamed"), ("COPY", "copied", "copy"), ("PERSIST", "copy"),
            ("DEL", "deleted"), ("SET", "last", "x"))))
        self.wait_for(b"x", "GET", "last")
        self.assertEqual(self.client("MGET", "k", "renamed", "copy", "copied"), [b"v", b"v", b"v", None])
        self.assertEqual(self.client("DBSIZE"), 5)

    def test_one_that_is_cut_anywhere_goes_on_there(self):
        """The link breaks in the middle of commands and transactions; what comes again is neither done twice nor left out."""
        chance = random.Random(7)
        stream = request("SELECT", 3)
        for number in range(300):
            change = request("APPEND", "log", f"{number},") + request("INCR", f"n:{number % 7}")
            stream += request("MULTI") + change + request("EXEC") if number % 3 == 0 else change
        want = "".join(f"{number}," for number in range(300)).encode()
        link, begin = self.follow().sync(rdb()), START
        link.acknowledged(START)
        cuts = sorted(chance.sample(range(1, len(stream)), 5))
        for count, cut in enumerate(cuts):
            link.send(stream[begin - START:cut])
            time.sleep(0.05)
            link.close()
            link = self.link()
            asked, first = link.psync()
            self.assertEqual(asked, [ID, OTHER_ID][count % 2])
            # It wants the byte behind the last whole thing that it has; none is asked for twice that it has done.
            self.assertGreater(first, begin)
            self.assertLessEqual(first, START + cut + 1)
            begin = first - 1
            self.assertIn(stream[begin - START:][:9], (b"*3\r\n$6\r\nA", b"*2\r\n$4\r\nI", b"*1\r\n$5\r\nM"))
            # The id may be another from there on.
            link.send(f"+CONTINUE {[OTHER_ID, ID][count % 2]}\r\n".encode())
        link.send(stream[begin - START:])
        self.client("SELECT", 3)
        self.wait_for(want, "GET", "log")
        link.acknowledged(START + len(stream))
        self.assertEqual(sum(map(int, self.client("MGET", *(f"n:{number}" for number in range(7))))), 300)
        self.assertEqual(self.client("ROLE")[3:], [b"connected", START + len(stream)])
        # Without a new id the old one goes on.
        link.close()
        link = self.link()
        self.assertEqual(link.psync(), (OTHER_ID, START + len(stream) + 1))
        link.send(b"+CONTINUE\r\n" + request("SET", "last", "v"))
        self.wait_for(b"v", "GET", "last")

    def test_bytes_come_one_by_one(self):
        link = self.follow()
        link.psync()
        link.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        data = b"+FULLRESYNC %b %d\r\n" % (ID.encode(), START) + with_length(rdb((b"k", b"v"))) + b"".join(
            request(*words) for words in (("SELECT", 0), ("INCR", "n"), ("MULTI",), ("APPEND", "k", "w"), ("INCR", "n"), ("EXEC",), ("PING",), ("SET", "last", "x")))
        for index in range(len(data)):
            link.send(data[index:index + 1])
        self.wait_for([b"vw", b"2", b"x"], "MGET", "k", "n", "last")

    def test_lives_are_counted_from_now_on(self):
        """Redis says when a key ends; others may say how long it lives."""
        link = self.follow().sync(rdb((b"k", b"v")))
        link.send(b"".join(request(*words) for words in (
            ("SELECT", 0), ("EXPIRE", "k", 100), ("SET", "set", 1, "EX", 100), ("SETEX", "setex", 100, 1), ("PSETEX", "psetex", 100_000, 1),
            ("MULTI",), ("SET", "multi", 1, "PX", 100_000), ("EXEC",), ("SET", "last", "x"))))
        self.wait_for(b"x", "GET", "last")
        lives = [self.client("TTL", name) for name in ("k", "set", "setex", "psetex", "multi")]
        self.assertTrue(all(50 < life <= 100 for life in lives), lives)

    def test_half_a_transaction_is_none(self):
        link = self.follow().sync(rdb((b"k", b"v")))
        link.send(b"".join(request(*words) for words in (("SELECT", 0), ("SET", "before", "v"), ("MULTI",), ("SET", "k", "w"), ("DEL", "before"))))
        self.wait_for(b"v", "GET", "before")
        self.assertEqual(self.client("GET", "k"), b"v")
        link.close()
        link = self.link()
        asked, first = link.psync()
        self.assertEqual(asked, ID)
        begin = START + len(request("SELECT", 0) + request("SET", "before", "v")) + 1
        # Redis wants the transaction from its beginning; ours may keep what it has.
        self.assertIn(first, range(begin, begin + 100) if FOLLOWER_IS_OURS else [begin])
        # Its primary has gone on without it, and says so by a snapshot.
        self.assertEqual(self.client("MGET", "k", "before"), [b"v", b"v"])
        link.send(b"+FULLRESYNC %b 5\r\n" % OTHER_ID.encode() + with_length(rdb((b"k", b"x"))) + request("SELECT", 0) + request("INCR", "n"))
        self.wait_for([b"x", b"1", None], "MGET", "k", "n", "before")

    def test_a_primary_that_has_forgotten_is_followed_anew(self):
        link = self.follow().sync(rdb((b"old", b"v")))
        link.acknowledged(START)
        link.close()
        link = self.link()
        self.assertEqual(link.psync(), (ID, START + 1))
        link.send(b"+FULLRESYNC %b 5\r\n" % OTHER_ID.encode() + with_length(rdb((b"k", b"v"))))
        link.acknowledged(5)
        self.assertEqual(self.client("MGET", "old", "k"), [None, b"v"])
        self.assertEqual(self.client("ROLE")[3:], [b"connected", 5])

    def test_one_that_is_silent_is_left(self):
        """In the stream, before the answer to PSYNC, and in the middle of the snapshot; one that now and then gives a sign of life is not."""
        snapshot = rdb((b"k", b"v"))
        ports = [self.stack.enter_context(Played()) for _ in range(4)]
        for port in ports:
            follower = self.stack.enter_context(Follower(port.port))
            with Client(follower.port) as client:
                client("CONFIG", "SET", "repl-timeout", 2)
        in_stream, unanswered, in_snapshot, slow = [self.link(port) for port in ports]
        in_stream.sync(snapshot).acknowledged(START)
        for link in (unanswered, in_snapshot, slow):
            link.psync()
        in_snapshot.send(b"+FULLRESYNC %b 5\r\n" % ID.encode() + with_length(snapshot)[:20])
        slow.send(b"+FULLRESYNC %b 5\r\n" % ID.encode())
        for _ in range(8):
            slow.send(b"\n")
            time.sleep(0.5)
        slow.send(with_length(snapshot))
        slow.acknowledged(5)
        for link in (in_stream, unanswered, in_snapshot):
            link.to_the_end()
        # Each is asked again, and is left again if nothing is said.
        for port in ports[:3]:
            self.link(port)


HTTP = b"HTTP/1.1 400 Bad Request\r\nServer: x\r\nContent-Length: 5\r\n\r\nhello"
# What a primary may say to the first word.
FIRST_ANSWERS = [HTTP, b"\0" * 1000, b"x" * 100_000, b"-ERR no\r\n", b"-NOAUTH Authentication required.\r\n", b"$5\r\nhello\r\n", b"*-1\r\n", b":1\r\n", b"\r\n" * 100]
# And to PSYNC.
SYNC_ANSWERS = [
    HTTP, b"+FULLRESYNC\r\n", b"+FULLRESYNC short 5\r\n", b"+FULLRESYNC %b x\r\n" % ID.encode(), b"+FULLRESYNC %b -5\r\n$30\r\nabc" % ID.encode(),
    b"+CONTINUE\r\n", b"+CONTINUE short\r\n*1\r\n$4\r\nPING\r\n", b"+OK\r\n", b"-ERR no\r\n", b"-NOPERM no\r\n",
    b"\0" * 1000 + b"\r\n", b"$-1\r\n", b"+" + b"x" * 100_000 + b"\r\n",
]
WHOLE = rdb((b"k", b"v"), (b"l", b"w"))
# Behind +FULLRESYNC, and whether redis-server ends itself because of it.
SNAPSHOTS = [
    (b"$99999999999999999999\r\n", False), (b"$-5\r\n", False), (b"$abc\r\n", False), (b"$0\r\n", False), (b"hello\r\n", False), (b"-ERR no\r\n", False),
    (b"$EOF:short\r\n" + WHOLE, False), (b"$EOF:" + MARK + b"\r\n" + WHOLE, False), (b"$9223372036854775807\r\n" + WHOLE, False),
    (with_length(WHOLE)[:-20], False), (with_length(b"x" * 1000), False), (with_length(b"REDIS"), True), (with_length(rdb(version=99)), False),
    (with_length(rdb((b"k", b"v"), checksum=b"wrong!!!")), True), (with_length(WHOLE[:20]), True), (with_length(WHOLE[:12] + b"\xee" * 100), True),
    (with_length(WHOLE[:11] + b"\0\x01k\xc3\x05\xbf\xff\xff\xff\xff" + b"x" * 30), True), (with_length(WHOLE[:11] + b"\0\x81\xff\xff\xff\xff\xff\xff\xff\xff"), True),
    (with_length(WHOLE[:11] + b"\0\x01k\xc3\x03\x0a\x20\xff\xff\xff" + bytes(8)), True), (b"$EOF:" + MARK + b"\r\n" + b"x" * 100 + MARK, False),
    # So many bytes are said to come out of five.
    (with_length(WHOLE[:11] + b"\0\x01k\xc3\x05\x81\x7f" + b"\xff" * 7 + b"x" * 30), True),
    (with_length(WHOLE[:11] + b"\0\x01k\xc3\x05\x80\xff\xff\xff\xff" + b"x" * 30), True),
    (with_length(rdb((b"l", b"a"), kind=LIST)[:-9] + rdb((b"k", b"v"))[11:]), True), (with_length(rdb(version=11)), False), (with_length(WHOLE + b"more"), False),
]
# In the stream.
FRAMES = [
    b"*-5\r\n", b"*0\r\n", b"*1\r\n$999999999999\r\n", b"*1\r\n$-1\r\n", b"*99999999999\r\n", b"*2\r\n$3\r\nGET\r\nx", b"$5\r\nhello\r\n", b"\0" * 1000, HTTP,
    b"*1\r\n:5\r\n", b"*abc\r\n", b"x" * 100_000, request("NOSUCH", "command"), request("SET", "k"), request("LPUSH", "list", "a"), request("EXEC"),
    request("MULTI") + request("MULTI"), request("MULTI") + request("NOSUCH") + request("EXEC"), request("SELECT", 99), request("INCR", "k"),
    request("SET", "k" * 40_000, "v"), request("FUNCTION", "LOAD", "nonsense"), request("AUTH", "x"), request("SHUTDOWN", "x"), request("SUBSCRIBE", "c"),
    request("REPLICAOF", "NO", "x"), request("GET", "k"), request("QUIT"), request("CLIENT", "KILL", "TYPE", "x"), request("RESET"),
    request("REPLCONF", "ACK", 5), request("PSYNC", "?", -1), request("MULTI") + request("SET", "k", "half"), request("WATCH", "k"), request(b"\xff" * 1000),
]


class Bad(WithPlayed):
    """After each a client is served, and a right primary is followed."""

    def setUp(self):
        super().setUp()
        self.right = self.stack.enter_context(redis_primary())
        with Client(self.right.port) as client:
            client("MSET", "k", "right", "right", 1)
        self.follow_the_right_one()

    def each(self, cases, play):
        """Plays each of these, and sees that no open files are left. What is there stays until somebody says that a snapshot comes."""
        counts = []
        for number, case in enumerate(cases):
            with self.subTest(case=case[:100] if isinstance(case, bytes) else case):
                # Each has its port: nobody comes to one late.
                with Played() as played, self.follow(played) as link:
                    is_kept = play(link, case)
                    self.check_others()
                    if is_kept:
                        self.assertEqual(self.client("GET", "k"), b"right")
                self.follow_the_right_one()
            if number in (0, len(cases) - 1):
                counts.append(self.files_count())
        # What is over is closed soon.
        wait_until(lambda: self.files_count() <= counts[0] + 2, lambda: f"files are closed; they were {counts}, and are {self.files_count()}")

    def files_count(self):
        return len(list(pathlib.Path(f"/proc/{self.follower.pid}/fd").iterdir()))

    def check_others(self):
        # Redis takes a snapshot whole before it loads it; ours is loading from its beginning on.
        loading = "LOADING Redis is loading the dataset in memory"
        self.assertIn(str(self.client.reply("PING")), ("PONG", loading) if FOLLOWER_IS_OURS else ("PONG",), self.follower.tail())
        with Client(self.follower.port) as other:
            self.assertEqual(other.info()["role"], "slave")

    def follow_the_right_one(self):
        self.wait_for("OK", "REPLICAOF", "127.0.0.1", self.right.port)
        self.follower.wait_until_up()
        self.assertEqual([self.client("GET", "k"), self.client("DBSIZE")], [b"right", 2])

    def test_the_first_answer(self):
        def play(link, answer):
            link.words()
            link.send(answer)
            return True

        self.each(FIRST_ANSWERS, play)

    def test_the_answer_to_psync(self):
        def play(link, answer):
            link.psync()
            link.send(answer)
            return not answer.startswith(b"+FULLRESYNC")

        self.each(SYNC_ANSWERS, play)

    def test_one_that_stops_in_the_middle_is_left_when_it_is_said(self):
        for order in (("NO", "ONE"), ("127.0.0.1", self.right.port)):
            with Played() as played, self.follow(played) as link:
                link.psync()
                link.send(b"+FULLRESYNC %b 5\r\n" % ID.encode() + with_length(WHOLE)[:-20])
                wait_until(lambda: self.client.info()["master_sync_in_progress"] == "1", "it takes the snapshot")
                self.assertEqual(self.client("REPLICAOF", *order), "OK")
                link.to_the_end()
                self.wait_for("PONG", "PING")
        self.follower.wait_until_up()
        self.assertEqual(self.client("GET", "k"), b"right")

    def test_one_that_closes_is_asked_again(self):
        """After each step of the handshake, and then it is followed."""
        link = self.follow()
        for count in range(STEPS_MAX):
            with link:
                words = link.words()
                for _ in range(count):
                    link.answer(words)
                    words = link.words()
            link = self.link()
            if words[0].upper() == "PSYNC":
                break
        else:
            self.fail(f"PSYNC is not among {STEPS_MAX} commands; the last is {words}")
        link.sync(WHOLE)
        self.wait_for([b"v", b"w"], "MGET", "k", "l")
        self.follow_the_right_one()

    def test_snapshots(self):
        def play(link, snapshot):
            link.psync()
            link.send(b"+FULLRESYNC %b 5\r\n" % ID.encode() + snapshot)

        self.each([snapshot for snapshot, ends_redis in SNAPSHOTS if FOLLOWER_IS_OURS or not ends_redis], play)

    def test_the_stream(self):
        def play(link, frame):
            link.sync(WHOLE)
            self.wait_for_link("up")
            with contextlib.suppress(ConnectionResetError, BrokenPipeError):
                link.send(request("SELECT", 0) + request("SET", "before", 1) + frame)
            time.sleep(0.02)

        self.each(FRAMES, play)


if __name__ == "__main__":
    unittest.main()
