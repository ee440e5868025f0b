"""This server and Debian's memcached 1.6.18 side by side: the same commands, drawn from seeds, and the same replies.

An episode is one seed: a connection in text and meta or one in binary, batches of commands, and now and then one that
ends the connection. This server runs with one lane and with four. What it says otherwise than memcached, wanted, is in
WANTED and in docs/memcached.md; anything else is a failure, shown with the fewest commands that lead to it.
"""

import random
import re
import select
import socket
import struct
import time
import unittest

import shrink
from memcached_commands import BATCH_VALUE_SIZE_MAX, Frames, Lines
from memcached_replies import CasPairs, Difference, compare_frames, compare_lines
from servers import Server, expresslane_command, free_port, tool

EPISODES = 50
BATCHES = 20
BATCH_COMMANDS = 100
COMMANDS_MIN = 100_000
REPLY_SECONDS_MAX = 20
CAS_UNKNOWN = 1 << 62

# What is wanted to be different: what is sent on a connection of its own, memcached's reply, this server's. Each stands in
# docs/memcached.md.
LONG_KEY = b"t" * 251
UNKNOWN = Frames.frame(0x40, extras=b"12345678", key=b"key", opaque=1)
VERBOSITY = Frames.frame(0x1B, extras=bytes(4), opaque=1)
VERBOSITY_REPLY = b"\x81\x1b" + bytes(6) + struct.pack(">IIQ", 0, 1, 0)
UNKNOWN_REPLY, VERBOSITY_REFUSED = (
    b"\x81%c" % opcode + bytes(4) + struct.pack(">HIIQ", 0x81, 15, 1, 0) + b"Unknown command" for opcode in (0x40, 0x1B))
NOOP, NOOP_REPLY = Frames.frame(0x0A, opaque=7), b"\x81\x0a" + bytes(10) + struct.pack(">IQ", 7, 0)
WANTED = [
    ("replies before a key that is too long", b"delete k\r\nget " + LONG_KEY + b"\r\n",
     b"CLIENT_ERROR bad command line format\r\n", b"NOT_FOUND\r\nCLIENT_ERROR bad command line format\r\n"),
    ("keys before one that is too long are not touched", b"set k 0 0 1 noreply\r\nx\r\ngat -1 k " + LONG_KEY + b"\r\nget k\r\n",
     b"CLIENT_ERROR bad command line format\r\nEND\r\n",
     b"CLIENT_ERROR bad command line format\r\nVALUE k 0 1\r\nx\r\nEND\r\n"),
    ("ma: the end that T gives when a number becomes longer", b"set k 0 0 1\r\n9\r\nma k T-1\r\nmg k\r\n",
     b"STORED\r\nHD\r\nHD\r\n", b"STORED\r\nHD\r\nEN\r\n"),
    ("a flag that is too long", b"ma k N0 O" + b"o" * 40 + b"\r\nmg k\r\n",
     b"CLIENT_ERROR opaque token too long\r\nHD\r\n", b"CLIENT_ERROR opaque token too long\r\nEN\r\n"),
    ("commands about the insides of memcached", b"cache_memlimit 64\r\n", b"OK\r\n",
     b"MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust\r\n"),
    ("binary VERBOSITY", VERBOSITY + NOOP, VERBOSITY_REFUSED, VERBOSITY_REPLY + NOOP_REPLY),
    ("the body behind a binary opcode that there is not", UNKNOWN + NOOP, UNKNOWN_REPLY, UNKNOWN_REPLY + NOOP_REPLY),
]


def memcached_command(port, _directory):
    return [
        tool("memcached", "memcached"), "-p", str(port), "-l", "127.0.0.1", "-U", "0", "-u", "nobody", "-I", "1m", "-m", "512",
        # What its other threads hold for a moment shows in replies: a number that shrinks is then stored anew, without blanks.
        "-t", "1", "-o", "no_lru_maintainer,no_lru_crawler",
    ]


class Side:
    """One server under comparison, with a connection."""

    def __init__(self, name, port):
        self.name = name
        self.port = port
        self.client = None
        self.forget()

    def forget(self):
        """A new episode: no CAS is known."""
        self.cas_of = {}
        self.connect()

    def connect(self):
        self.close()
        self.client = socket.create_connection(("127.0.0.1", self.port))
        self.client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.client.setblocking(False)

    def close(self):
        if self.client is not None:
            self.client.close()

    def cas(self, key, pick):
        """A CAS that was seen of the key: the newest mostly, by `pick` in 0..1."""
        known = self.cas_of.get(key)
        if not known or pick > 0.95:
            return CAS_UNKNOWN
        return known[-1] if pick < 0.7 else known[int((pick - 0.7) * 4 * len(known))]

    def exchange(self, data, end):
        """What the server answers to `data`, until `end` has come; None: until it closes."""
        received, view = bytearray(), memoryview(data)
        poll = select.poll()
        deadline = time.monotonic() + REPLY_SECONDS_MAX
        while end is None or view or not received.endswith(end):
            poll.register(self.client, select.POLLIN | (select.POLLOUT if view else 0))
            if time.monotonic() > deadline or not poll.poll(REPLY_SECONDS_MAX * 1000):
                raise Difference(
                    f"{self.name} has not answered {data[:60]!r}… ({len(data)} bytes, {len(view)} of them unsent) to the end: "
                    f"{bytes(received[-200:])!r} is the last of it")
            try:
                piece = self.client.recv(1 << 20)
                if not piece:
                    break
                received += piece
            except BlockingIOError:
                pass
            except ConnectionResetError:
                break
            if view:
                try:
                    view = view[self.client.send(view):]
                except BlockingIOError:
                    pass
                except (BrokenPipeError, ConnectionResetError):
                    view = view[:0]
        return bytes(received)


class Episode:
    """The commands of one seed. Whatever becomes of them, the same are drawn again."""

    def __init__(self, seed, now_s):
        dice = random.Random(seed)
        self.draw = (Frames if seed % 3 == 2 else Lines)(dice, now_s)
        self.is_binary = isinstance(self.draw, Frames)
        self.batches = []
        for _ in range(BATCHES):
            self.draw.values_left = BATCH_VALUE_SIZE_MAX
            batch = self.draw.batch(BATCH_COMMANDS)
            closing = dice.choice(self.draw.CLOSING) if dice.random() < 0.15 else None
            self.batches.append((batch, closing))

    def empty(self):
        return Frames.frame(0x08) if self.is_binary else b"flush_all\r\n"

    def run(self, memcached, ours, is_unique, batches=None):
        """Raises Difference where this server answers otherwise than memcached."""
        pairs = CasPairs(is_unique)
        sides = (memcached, ours)
        for side in sides:
            side.forget()

        def note(key, left, right):
            if key is not None:
                memcached.cas_of.setdefault(key, []).append(left)
                ours.cas_of.setdefault(key, []).append(right)

        def compare(replies):
            if self.is_binary:
                compare_frames(*replies, pairs, note, self.draw.key_of)
            else:
                compare_lines(*replies, pairs, note)

        ends = (self.draw.END, self.draw.END_REPLY)
        compare([side.exchange(self.empty() + ends[0], ends[1]) for side in sides])
        for batch, closing in self.batches if batches is None else batches:
            compare([side.exchange(b"".join(command(side) for command in batch) + ends[0], ends[1]) for side in sides])
            if closing is not None:
                compare([side.exchange(closing, None) for side in sides])
                for side in sides:
                    side.connect()


def fewest(episode, memcached, ours, is_unique):
    """The batches that are left when all is taken away without which the servers differ as well; and how they differ."""

    def difference(batches):
        try:
            episode.run(memcached, ours, is_unique, batches)
        except Difference as difference:
            return difference
        return None

    # One command a batch, so that each can be left out alone, and a CAS that a reply gave is known to the next.
    single = []
    for batch, closing in episode.batches:
        single += [([command], None) for command in batch]
        if closing is not None:
            single.append(([], closing))
    batches, said = shrink.fewest(single, difference)
    if said is None:
        batches, said = shrink.fewest(episode.batches, difference)
    return batches, said or "it does not happen again"


class Differential(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.servers = [Server("memcached", memcached_command)]
        cls.memcached = Side("memcached", cls.servers[0].port)
        cls.ours = []
        for lanes in (1, 4):
            port = free_port()
            command = expresslane_command(lanes=lanes, extra=("--memcached", str(port), "--maxmemory", "1gb"))
            cls.servers.append(Server("expresslane", command))
            cls.ours.append((Side(f"this server with {lanes} lanes", port), lanes == 1))

    @classmethod
    def tearDownClass(cls):
        for side in [cls.memcached, *(side for side, _ in cls.ours)]:
            side.close()
        codes = [server.end() for server in cls.servers]
        assert codes[1:] == [0, 0], f"the servers ended with {codes[1:]}"

    def check(self, episode, about):
        for side, is_unique in self.ours:
            try:
                episode.run(self.memcached, side, is_unique)
            except Difference as difference:
                batches, said = fewest(episode, self.memcached, side, is_unique)
                sent = []
                for batch, closing in batches:
                    sent += [command(side) for command in batch] + [closing] * (closing is not None)
                lines = "\n".join(f"  {data[:200]!r}" + (f" of {len(data)} bytes" if len(data) > 200 else "") for data in sent)
                self.fail(f"{about}, {side.name}: {difference}\nmemcached and this server after these commands: {said}\n{lines}")

    def test_what_is_wanted_to_be_different(self):
        for about, sent, of_memcached, of_ours in WANTED:
            for side, want in [(self.memcached, of_memcached), *((side, of_ours) for side, _ in self.ours)]:
                side.forget()
                self.assertEqual(side.exchange(sent, want), want, f"{about}: {side.name}")

    def test_the_same_commands_are_counted_alike(self):
        """Lines, then binary requests; what `stats` counts of them."""
        lines = (
            b"set a 0 0 1\r\n1\r\nadd a 0 0 1\r\nx\r\nreplace none 0 0 1\r\nx\r\nappend a 0 0 1\r\n2\r\ncas a 0 0 1 1\r\nx\r\n"
            b"cas none 0 0 1 1\r\nx\r\nget a none\r\ngats 9 a none\r\ntouch a 9\r\ntouch none 9\r\nincr a 1\r\nincr none 1\r\n"
            b"decr a 1\r\ndecr a 1\r\ndecr none 1\r\nms b 1\r\nx\r\nmg b v T9\r\nmg none v\r\nma a\r\nma none MD\r\nmd b\r\nmd none\r\n"
            b"delete a\r\ndelete none\r\nflush_all\r\nmn\r\n")
        frames = b"".join(Frames.frame(opcode, extras, key, value) for key in (b"a", b"none") for opcode, extras, value in [
            (0x01, bytes(8), b"1") if key == b"a" else (0x03, bytes(8), b"1"), (0x00, b"", b""), (0x1D, bytes(4), b""),
            (0x1C, bytes(4), b""), (0x05, bytes(7) + b"\1" + bytes(8) + b"\xff" * 4, b""),
            (0x06, bytes(7) + b"\1" + bytes(8) + b"\xff" * 4, b""), (0x04, b"", b"")]) + NOOP
        counted = []
        for side in (self.memcached, *(side for side, _ in self.ours)):
            before = self.statistics(side)
            side.forget()
            side.exchange(lines, b"MN\r\n")
            side.forget()
            side.exchange(frames, NOOP_REPLY)
            after = self.statistics(side)
            counted.append({name: after[name] - before[name] for name in after})
        for ours in counted[1:]:
            self.assertEqual(ours, counted[0])

    def statistics(self, side):
        """What a server has counted of commands."""
        side.forget()
        said = side.exchange(b"stats\r\n", b"END\r\n").decode().split("\r\n")
        pairs = (line.split()[1:3] for line in said if line.startswith("STAT "))
        # meta's own counters came with later versions than the one that is followed.
        return {name: int(value) for name, value in pairs if re.fullmatch(r"cmd_(get|set|flush|touch)|.+_hits|.+_misses|cas_badval", name)
                and not name.startswith(("get_flushed", "get_expired", "auth"))}

    def test_the_same_commands_have_the_same_replies(self):
        now_s = int(time.time())
        count = 0
        for seed in range(EPISODES):
            episode = Episode(seed, now_s)
            self.check(episode, f"seed {seed}")
            count += BATCHES * BATCH_COMMANDS
        self.assertGreaterEqual(count, COMMANDS_MIN)
