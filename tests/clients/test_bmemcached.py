"""python-binary-memcached, a client of memcached's binary protocol with SASL."""

import unittest

from bmemcached import Client
from bmemcached.exceptions import MemcachedException

from restartable import Documents

PASSWORD = "a long secret"


class Binary:
    """On one lane and on four: the classes below."""

    @classmethod
    def setUpClass(cls):
        cls.server = Documents(cls.lanes)
        cls.client = Client((f"127.0.0.1:{cls.server.memcached_port}",), socket_timeout=10)

    @classmethod
    def tearDownClass(cls):
        cls.client.disconnect_all()
        cls.server.end()

    def setUp(self):
        self.client.flush_all()

    def test_store_and_read(self):
        client = self.client
        self.assertTrue(client.set("a", "one"))
        self.assertEqual(client.get("a"), "one")
        self.assertIsNone(client.get("b"))
        self.assertFalse(client.add("a", "two"))
        self.assertTrue(client.add("b", "two"))
        self.assertTrue(client.replace("a", "three"))
        self.assertFalse(client.replace("c", "three"))
        self.assertTrue(client.delete("a"))
        self.assertIsNone(client.get("a"))
        # Numbers and objects go as such, told apart by the flags.
        for value in (12345, b"bytes", {"a": [1, 2]}):
            self.assertTrue(client.set("a", value))
            self.assertEqual(client.get("a"), value)

    def test_cas(self):
        client = self.client
        client.set("a", "one")
        value, cas = client.gets("a")
        self.assertEqual(value, "one")
        self.assertTrue(client.cas("a", "two", cas))
        self.assertFalse(client.cas("a", "three", cas))
        self.assertFalse(client.delete("a", cas=cas))
        self.assertEqual(client.get("a"), "two")
        value, cas = client.gets("a")
        self.assertTrue(client.delete("a", cas=cas))

    def test_numbers(self):
        client = self.client
        self.assertEqual(client.incr("n", 5, default=100), 100)
        self.assertEqual(client.incr("n", 5), 105)
        self.assertEqual(client.decr("n", 200), 0)

    def test_many_keys(self):
        """Quiet requests, and NOOP at their end."""
        values = {f"many:{n}": str(n) for n in range(1000)}
        self.assertEqual(self.client.set_multi(values), [])
        self.assertEqual(self.client.get_multi([*values, "nothing"]), values)
        self.client.delete_multi(list(values)[:500])
        self.assertEqual(len(self.client.get_multi(list(values))), 500)

    def test_large_values(self):
        value = bytes(range(256)) * 4000
        self.assertTrue(self.client.set("large", value, compress_level=0))
        self.assertEqual(self.client.get("large"), value)

    def test_statistics(self):
        stats = next(iter(self.client.stats().values()))
        self.assertEqual((stats["version"], stats["threads"]), (b"1.6.18", b"%d" % self.lanes))


class BinaryOnOneLane(Binary, unittest.TestCase):
    lanes = 1


class BinaryOnFourLanes(Binary, unittest.TestCase):
    lanes = 4


class Password(unittest.TestCase):
    def test_sasl_plain(self):
        with Documents(2, ("--requirepass", PASSWORD)) as server:
            address = f"127.0.0.1:{server.memcached_port}"
            client = Client((address,), "anyone", PASSWORD)
            self.assertTrue(client.set("a", "one"))
            self.assertEqual(client.get("a"), "one")
            client.disconnect_all()
            with self.assertRaisesRegex(MemcachedException, "Auth failure"):
                Client((address,), "anyone", "another").get("a")


class Restart(unittest.TestCase):
    def test_a_client_finds_the_server_again(self):
        with Documents(2) as server:
            client = Client((f"127.0.0.1:{server.memcached_port}",), socket_timeout=10)
            client.set("a", "one")
            server.restart()
            # The first request finds the connection gone, a later one connects.
            self.assertTrue(client.set("a", "two") or client.set("a", "two"))
            self.assertEqual(client.get("a"), "two")
            client.disconnect_all()
