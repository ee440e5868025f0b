"""meta-memcache, a client of memcached's meta commands: leases, stale values and keys in base64."""

import unittest

from meta_memcache import (
    CacheClient, Key, LeasePolicy, RecachePolicy, ServerAddress, SetMode, StalePolicy, connection_pool_factory_builder)

from restartable import Documents


class Meta:
    """On one lane and on four: the classes below."""

    @classmethod
    def setUpClass(cls):
        cls.server = Documents(cls.lanes)
        cls.client = cls.connect()

    @classmethod
    def connect(cls):
        return CacheClient.cache_client_from_servers(
            [ServerAddress("127.0.0.1", cls.server.memcached_port)], connection_pool_factory_builder(recv_timeout=10))

    @classmethod
    def tearDownClass(cls):
        cls.server.end()

    def test_store_and_read(self):
        client = self.client
        for value in (b"one", "two", 3, {"four": [5]}):
            self.assertTrue(client.set(Key("a"), value, ttl=1000))
            self.assertEqual(client.get(Key("a")), value)
        self.assertFalse(client.set("a", b"x", ttl=1000, set_mode=SetMode.ADD))
        self.assertTrue(client.set("a", b"x", ttl=1000, set_mode=SetMode.REPLACE))
        self.assertTrue(client.set("a", b"y", ttl=1000, set_mode=SetMode.APPEND))
        self.assertTrue(client.set("a", b"z", ttl=1000, set_mode=SetMode.PREPEND))
        self.assertEqual(client.get("a"), b"zxy")
        self.assertTrue(client.touch("a", ttl=2000))
        self.assertTrue(client.delete("a"))
        self.assertFalse(client.delete("a"))
        self.assertIsNone(client.get("a"))

    def test_keys_in_base64(self):
        for key in ("schlüssel", "with blank", "🍺"):
            self.assertTrue(self.client.set(Key(key), key, ttl=1000))
            self.assertEqual(self.client.get(Key(key)), key)

    def test_cas(self):
        client = self.client
        client.set("cas", "one", ttl=1000)
        value, cas = client.get_cas("cas")
        self.assertEqual(value, "one")
        self.assertTrue(client.set("cas", "two", ttl=1000, cas_token=cas))
        self.assertFalse(client.set("cas", "three", ttl=1000, cas_token=cas))
        self.assertFalse(client.delete("cas", cas_token=cas))
        self.assertEqual(client.get("cas"), "two")

    def test_numbers(self):
        client = self.client
        self.assertFalse(client.delta("number", 1))
        self.assertTrue(client.delta_initialize("number", 5, initial_value=10, initial_ttl=1000))
        self.assertEqual(client.delta_and_get("number", 5), 15)
        self.assertEqual(client.delta_and_get("number", -20), 0)

    def test_many_keys(self):
        values = {Key(f"many:{n}"): n for n in range(500)}
        for key, value in values.items():
            self.client.set(key, value, ttl=1000, no_reply=True)
        self.assertEqual(self.client.multi_get([*values, Key("nothing")]), {**values, Key("nothing"): None})

    def test_a_lease_is_won_once(self):
        """The first who misses is told to make the value; who comes next waits, and gets it."""
        first, second = self.connect(), self.connect()
        policy = LeasePolicy(ttl=30, miss_retries=3, miss_retry_wait=0.001, wait_backoff_factor=1)
        self.assertIsNone(first.get_or_lease("lease", policy))
        waits = []

        def wait(seconds):
            waits.append(seconds)
            first.set("lease", "made", ttl=1000)

        self.assertEqual(second.get_or_lease("lease", policy, lease_wait_fn=wait), "made")
        self.assertEqual(len(waits), 1)

    def test_a_stale_value_is_shown_while_one_renews_it(self):
        first, second = self.connect(), self.connect()
        first.set("stale", "old", ttl=1000)
        self.assertTrue(first.delete("stale", stale_policy=StalePolicy(mark_stale_on_deletion_ttl=30)))
        policy = RecachePolicy(ttl=10)
        # One wins, and is told nothing is there; others see the old value.
        self.assertIsNone(first.get("stale", recache_policy=policy))
        self.assertEqual(second.get("stale", recache_policy=policy), "old")
        first.set("stale", "new", ttl=1000)
        self.assertEqual(second.get("stale", recache_policy=policy), "new")

    def test_large_values(self):
        value = bytes(range(256)) * 4000
        self.assertTrue(self.client.set("large", value, ttl=1000))
        self.assertEqual(self.client.get("large"), value)


class MetaOnOneLane(Meta, unittest.TestCase):
    lanes = 1


class MetaOnFourLanes(Meta, unittest.TestCase):
    lanes = 4
