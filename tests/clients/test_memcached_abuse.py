"""Clients that abuse memcached's port: lines and values without end, sizes that lie, floods whose replies nobody reads, and
clients of the other protocol. Others are served all the while, and nothing of it stays.
"""

import socket
import struct
import time
import unittest

import redis
from pymemcache.client.base import Client

from memcached_commands import Frames
from restartable import Documents

LANES = 4
PASSWORD = "a long secret"
# How much more memory the server may have meanwhile and afterwards: far less than the replies that are asked for.
GROWTH_BYTES_MAX = 256 << 20
# What a rude client sends at most, should the server take it all: more than the kernel holds on the way.
FLOOD_SIZE_MAX = 16 << 20
# A server that neither answers nor closes within this hangs.
SECONDS_MAX = 20


class Abuse(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Documents(LANES)

    @classmethod
    def tearDownClass(cls):
        cls.server.end()

    def setUp(self):
        self.rude = []
        self.polite = Client(("127.0.0.1", self.server.memcached_port), default_noreply=False, timeout=SECONDS_MAX)
        self.polite.set("polite", b"still here")
        self.rss_before = self.server.server.rss_bytes()

    def tearDown(self):
        """All rude clients go, with what they had."""
        for client in self.rude:
            client.close()
        self.assertEqual(self.polite.get("polite"), b"still here")
        deadline = time.monotonic() + SECONDS_MAX
        while self.polite.stats()[b"curr_connections"] > 1:
            self.assertLess(time.monotonic(), deadline, "connections of clients that are gone stay")
            time.sleep(0.01)
        self.polite.flush_all()
        self.polite.close()
        growth = self.server.server.rss_bytes() - self.rss_before
        self.assertLess(growth, GROWTH_BYTES_MAX, "memory stays")

    def connect(self, port=None):
        client = socket.create_connection(("127.0.0.1", port or self.server.memcached_port), SECONDS_MAX)
        self.rude.append(client)
        return client

    def say(self, data, port=None):
        """What the server answers to `data`, until it closes or falls silent behind an answer."""
        client = self.connect(port)
        received = b""
        try:
            client.sendall(data)
            while True:
                piece = client.recv(1 << 16)
                if not piece:
                    return received, "closed"
                received += piece
                client.settimeout(0.2)
        except TimeoutError:
            self.assertTrue(received, f"the server hangs after {data[:100]!r}")
            return received, "open"
        except (ConnectionResetError, BrokenPipeError):
            return received, "closed"
        finally:
            client.close()

    def flood(self, piece):
        """Sends without reading until the server takes no more, closes, or has taken FLOOD_SIZE_MAX. Returns how much it took."""
        client = self.connect()
        client.settimeout(1)
        sent = 0
        try:
            while sent < FLOOD_SIZE_MAX:
                sent += client.send(piece)
        except (TimeoutError, ConnectionResetError, BrokenPipeError):
            pass
        self.assertEqual(self.polite.get("polite"), b"still here")
        self.assertLess(self.server.server.rss_bytes() - self.rss_before, GROWTH_BYTES_MAX, "a flood fills the memory")
        client.close()
        return sent

    def test_a_line_without_end(self):
        self.assertLess(self.flood(b"x" * 65536), FLOOD_SIZE_MAX)

    def test_a_line_of_keys_without_end(self):
        self.flood(b"get " + b"k" * 250 + b" ")
        self.flood(b"get " + b"polite " * 10_000)

    def test_floods_that_never_read(self):
        self.polite.set("large", b"v" * 500_000)
        get = Frames.frame(0x0D, key=b"large")
        self.flood(get * 1000)
        self.flood(b"get large large large\r\n" * 1000)
        self.flood(b"mg large v k q\r\n" * 1000)
        self.flood(b"bogus\r\n" * 10_000)

    def test_quiet_floods_without_replies(self):
        self.flood(Frames.frame(0x09, key=b"nothing") * 10_000)
        self.flood(b"set k 0 0 1000 noreply\r\n" + b"x" * 1000 + b"\r\n")

    def test_noreply_and_gone(self):
        """What was sent before the end of a connection counts."""
        client = self.connect()
        client.sendall(b"".join(b"set gone:%d 0 0 1 noreply\r\nx\r\n" % n for n in range(10_000)))
        client.close()
        deadline = time.monotonic() + SECONDS_MAX
        while len(self.polite.get_many([f"gone:{n}" for n in range(10_000)])) < 10_000:
            self.assertLess(time.monotonic(), deadline, "sets are missing")

    def test_values_cut_off(self):
        for n in range(200):
            client = self.connect()
            client.sendall(b"set cut:%d 0 0 1000000\r\n" % n + b"x" * (n * 1000))
            other = self.connect()
            other.sendall(Frames.frame(0x01, bytes(8), b"cut:%d" % n, b"x" * 1_000_000)[:100 + n * 1000])
            client.close()
            other.close()
        self.assertEqual(self.polite.get_many([f"cut:{n}" for n in range(200)]), {})

    def test_sizes_that_lie(self):
        for opcode in range(256):
            for key_size, extras_size, body_size in (
                    (0, 0, 0xFFFFFFFF), (1, 8, 0xFFFFFFFF), (0xFFFF, 255, 0xFFFFFFFF), (0xFFFF, 0, 5), (5, 255, 5)):
                client = self.connect()
                client.sendall(struct.pack(">BBHBBHIIQ", 0x80, opcode, key_size, extras_size, 0, 0, body_size, 0, 0) + b"x" * 300)
                client.close()
        received, _ = self.say(struct.pack(">BBHBBHIIQ", 0x80, 0x01, 1, 8, 0, 0, 0xFFFFFFFF, 0, 0) + bytes(8) + b"k")
        self.assertEqual(struct.unpack(">H", received[6:8])[0], 3, "a value of 4 GiB is too large")
        for size in (b"1048577", b"2147483645", b"4294967297", b"99999999999", b"-1", b"18446744073709551615"):
            self.connect().sendall(b"set lie 0 0 " + size + b"\r\nx\r\n" * 1000)
            self.connect().sendall(b"ms lie " + size + b"\r\nx\r\n" * 1000)
        self.assertEqual(self.polite.get("polite"), b"still here")

    def test_other_protocols(self):
        """They are told or closed."""
        resp = b"*1\r\n$4\r\nPING\r\n"
        self.assertEqual(self.say(resp)[0], b"ERROR\r\n" * 3)
        with self.assertRaises(redis.RedisError):
            redis.Redis(port=self.server.memcached_port, socket_timeout=SECONDS_MAX).ping()
        self.assertEqual(self.say(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"), (b"", "closed"))
        self.say(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(4000))
        text = Client(("127.0.0.1", self.server.port), timeout=SECONDS_MAX, default_noreply=False)
        with self.assertRaises(Exception) as told:
            text.set("a", b"1")
        self.assertNotIsInstance(told.exception, TimeoutError)
        text.close()


class BeforeThePassword(unittest.TestCase):
    def test_sasl_garbage(self):
        with Documents(LANES, ("--requirepass", PASSWORD)) as server:
            def say(data):
                with socket.create_connection(("127.0.0.1", server.memcached_port), SECONDS_MAX) as client:
                    client.sendall(data)
                    return client.recv(1 << 16)

            def status(reply):
                return struct.unpack(">H", reply[6:8])[0] if reply else None

            for mechanism in (b"PLAIN", b"plain", b"SCRAM-SHA-512", b"X" * 32, b"\x00"):
                for payload in (b"", b"\x00", b"\x00\x00", b"\x00\x00\x00", b"\xff" * 1000, b"a\x00b\x00c", b"\x00user\x00" + b"p" * 8000,
                                b"\x00\x00" + PASSWORD.encode() + b"\x00", PASSWORD.encode()):
                    for opcode in (0x21, 0x22):
                        reply = say(Frames.frame(opcode, key=mechanism, value=payload))
                        self.assertEqual(status(reply), 0x20, (mechanism, payload, reply))
            self.assertIn(status(say(Frames.frame(0x21, key=b"PLAIN", value=b"x" * 100_000))), (0x20, 0x82))
            self.assertIn(status(say(Frames.frame(0x21, key=b"X" * 100, value=b"x"))), (0x04, 0x20))
            self.assertEqual(status(say(Frames.frame(0x00, key=b"a"))), 0x20)
            self.assertEqual(status(say(Frames.frame(0x21, key=b"PLAIN", value=b"\x00any\x00" + PASSWORD.encode()))), 0)
