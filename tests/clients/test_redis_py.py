"""redis-py: connections, pipelines, transactions, both protocols, and the cluster client."""

import unittest

import redis

from run import server


class RedisPy(unittest.TestCase):
    protocol = 2

    def setUp(self):
        self.client = redis.Redis(port=server().port, protocol=self.protocol, decode_responses=True)
        self.client.flushall()

    def tearDown(self):
        self.client.close()

    def test_values_and_counters(self):
        self.assertTrue(self.client.set("a", "1"))
        self.assertEqual(self.client.get("a"), "1")
        self.assertEqual(self.client.incrby("a", 41), 42)
        self.assertIsNone(self.client.get("missing"))
        self.assertEqual(self.client.delete("a", "missing"), 1)

    def test_a_pipeline_keeps_its_order(self):
        pipeline = self.client.pipeline(transaction=False)
        for n in range(2000):
            pipeline.set(f"p:{n}", n)
            pipeline.get(f"p:{n}")
        got = pipeline.execute()
        self.assertEqual(got[1::2], [str(n) for n in range(2000)])

    def test_a_transaction_is_one(self):
        pipeline = self.client.pipeline(transaction=True)
        pipeline.mset({f"t:{n}": n for n in range(50)}).mget([f"t:{n}" for n in range(50)])
        pipeline.rename("t:0", "t:renamed").get("t:renamed")
        self.assertEqual(pipeline.execute(), [True, [str(n) for n in range(50)], True, "0"])

    def test_a_watched_key_that_changed_stops_exec(self):
        with self.client.pipeline() as pipeline:
            pipeline.watch("w")
            self.client.set("w", "other")
            pipeline.multi()
            pipeline.set("w", "mine")
            with self.assertRaises(redis.WatchError):
                pipeline.execute()
        self.assertEqual(self.client.get("w"), "other")

    def test_a_large_value(self):
        value = "0123456789" * 1_000_000
        self.client.set("large", value)
        self.assertEqual(self.client.get("large"), value)

    def test_binary_keys_and_values(self):
        raw = redis.Redis(port=server().port, protocol=self.protocol)
        key, value = bytes(range(256)), b"\r\n$-1\r\n\0"
        raw.set(key, value)
        self.assertEqual(raw.get(key), value)
        raw.close()

    def test_an_error_leaves_the_connection_usable(self):
        with self.assertRaises(redis.ResponseError):
            self.client.execute_command("GET")
        self.client.set("text", "x")
        with self.assertRaises(redis.ResponseError):
            self.client.incr("text")
        self.assertTrue(self.client.ping())

    def test_many_connections(self):
        clients = [redis.Redis(port=server().port, protocol=self.protocol) for _ in range(200)]
        for number, client in enumerate(clients):
            client.set(f"c:{number}", number)
        self.assertEqual([int(client.get(f"c:{n}")) for n, client in enumerate(clients)], list(range(200)))
        for client in clients:
            client.close()


class RedisPy3(RedisPy):
    protocol = 3
