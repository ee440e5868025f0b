"""pymemcache, a client of memcached's text protocol in Python."""

import unittest

from pymemcache.client.base import Client
from pymemcache.client.retrying import RetryingClient
from pymemcache.exceptions import MemcacheClientError, MemcacheServerError

from restartable import Documents

PASSWORD = "a long secret"


class Text:
    """On one lane and on four: the classes below."""

    @classmethod
    def setUpClass(cls):
        cls.server = Documents(cls.lanes)
        cls.client = Client(("127.0.0.1", cls.server.memcached_port), default_noreply=False, timeout=10)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.server.end()

    def setUp(self):
        self.client.flush_all()

    def test_store_and_read(self):
        client = self.client
        self.assertTrue(client.set("a", b"one", flags=7))
        self.assertEqual(client.get("a"), b"one")
        self.assertIsNone(client.get("b"))
        self.assertFalse(client.add("a", b"two"))
        self.assertTrue(client.add("b", b"two"))
        self.assertTrue(client.replace("a", b"three"))
        self.assertFalse(client.replace("c", b"three"))
        self.assertTrue(client.append("a", b"!"))
        self.assertTrue(client.prepend("a", b"?"))
        self.assertFalse(client.append("c", b"!"))
        self.assertEqual(client.get("a"), b"?three!")
        self.assertTrue(client.delete("a"))
        self.assertFalse(client.delete("a"))

    def test_cas(self):
        client = self.client
        client.set("a", b"one")
        value, cas = client.gets("a")
        self.assertEqual(value, b"one")
        self.assertTrue(client.cas("a", b"two", cas))
        self.assertFalse(client.cas("a", b"three", cas))
        self.assertIsNone(client.cas("nothing", b"three", cas))
        self.assertEqual(client.get("a"), b"two")

    def test_numbers(self):
        client = self.client
        client.set("n", b"10")
        self.assertEqual(client.incr("n", 5), 15)
        self.assertEqual(client.decr("n", 20), 0)
        self.assertIsNone(client.incr("nothing", 1))
        client.set("n", b"18446744073709551615")
        self.assertEqual(client.incr("n", 1), 0)
        client.set("n", b"text")
        with self.assertRaises(MemcacheClientError):
            client.incr("n", 1)

    def test_expiry(self):
        client = self.client
        client.set("a", b"one", expire=100)
        self.assertTrue(client.touch("a", 1000))
        self.assertFalse(client.touch("nothing", 1000))
        self.assertEqual(client.raw_command(b"gat 50 a", b"END\r\n"), b"VALUE a 0 3\r\none\r\n")
        self.assertTrue(client.touch("a", -1))
        self.assertIsNone(client.get("a"))

    def test_many_keys_in_order(self):
        """A thousand keys over all lanes, asked for on one line."""
        values = {f"many:{n}": b"%d" % n for n in range(1000)}
        self.assertEqual(self.client.set_many(values), [])
        found = self.client.get_many([*values, "nothing"])
        self.assertEqual(found, values)
        self.assertEqual(list(found), list(values))
        self.assertEqual(len(self.client.gets_many(list(values))), 1000)
        self.client.delete_many(list(values)[:500])
        self.assertEqual(len(self.client.get_many(list(values))), 500)

    def test_noreply(self):
        for n in range(1000):
            self.client.set(f"quiet:{n}", b"x", noreply=True)
        self.client.delete("quiet:0", noreply=True)
        self.assertEqual(len(self.client.get_many([f"quiet:{n}" for n in range(1000)])), 999)

    def test_large_values(self):
        value = bytes(range(256)) * 4000
        for key in ("large:1", "large:2"):
            self.client.set(key, value)
        self.assertEqual(self.client.get_many(["large:1", "large:2"]), {"large:1": value, "large:2": value})
        with self.assertRaisesRegex(MemcacheServerError, "object too large for cache"):
            self.client.set("large:1", b"x" * (1 << 20))
        self.assertIsNone(self.client.get("large:1"))

    def test_statistics(self):
        client = self.client
        before = client.stats()
        client.set("a", b"one")
        client.get("a")
        client.get("b")
        after = client.stats()
        self.assertEqual(after[b"curr_items"], 1)
        changes = {name: after[name] - before[name] for name in (b"cmd_get", b"get_hits", b"get_misses", b"cmd_set", b"cmd_flush")}
        self.assertEqual(changes, {b"cmd_get": 2, b"get_hits": 1, b"get_misses": 1, b"cmd_set": 1, b"cmd_flush": 0})
        client.flush_all()
        self.assertEqual(client.stats()[b"cmd_flush"], after[b"cmd_flush"] + 1)
        self.assertEqual(client.stats()[b"threads"], self.lanes)
        self.assertEqual(client.version(), b"1.6.18")


class TextOnOneLane(Text, unittest.TestCase):
    lanes = 1


class TextOnFourLanes(Text, unittest.TestCase):
    lanes = 4


class Restart(unittest.TestCase):
    def test_a_client_finds_the_server_again(self):
        with Documents(2) as server:
            client = RetryingClient(Client(("127.0.0.1", server.memcached_port), timeout=10), attempts=3, retry_delay=0.05)
            client.set("a", b"one", noreply=False)
            server.restart()
            self.assertIsNone(client.get("a"))
            self.assertTrue(client.set("a", b"two", noreply=False))
            self.assertEqual(client.get("a"), b"two")
            client.close()


class Password(unittest.TestCase):
    """In text the password is the value of a `set`, behind a user and a blank."""

    def test_text(self):
        with Documents(2, ("--requirepass", PASSWORD)) as server:
            def login(client, password):
                said = f"anyone {password}".encode()
                return client.raw_command(b"set any 0 0 %d\r\n%b" % (len(said), said))

            client = Client(("127.0.0.1", server.memcached_port), timeout=10)
            with self.assertRaisesRegex(MemcacheClientError, "unauthenticated"):
                client.get("a")
            with self.assertRaisesRegex(MemcacheClientError, "authentication failure"):
                login(client, "another")
            self.assertEqual(login(client, PASSWORD), b"STORED")
            self.assertTrue(client.set("a", b"one", noreply=False))
            self.assertEqual(client.get("a"), b"one")
            self.assertIsNone(client.get("any"))
            client.close()
