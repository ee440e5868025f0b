"""redis-py's cluster client, which finds the lanes by itself, and redis-py over a restart of the server."""

import unittest

import redis

from restartable import Restartable, check_direct

KEYS_COUNT = 2000


class Cluster(unittest.TestCase):
    def check(self, port_of):
        with Restartable() as server:
            client = redis.RedisCluster(host="127.0.0.1", port=port_of(server), decode_responses=True)
            self.assertEqual(sorted(node.port for node in client.get_nodes()), server.lane_ports())
            before = server.counters()
            for number in range(KEYS_COUNT):
                client.set(f"key:{number}", number)
            self.assertEqual([client.get(f"key:{n}") for n in range(KEYS_COUNT)], [str(n) for n in range(KEYS_COUNT)])
            with client.pipeline() as pipeline:
                for number in range(KEYS_COUNT):
                    pipeline.incr(f"key:{number}")
                self.assertEqual(pipeline.execute(), [n + 1 for n in range(KEYS_COUNT)])
            client.mset({"{one}a": 1, "{one}b": 2})
            self.assertEqual(client.mget("{one}a", "{one}b"), ["1", "2"])
            check_direct(before, server.counters(), requests_count_min=3 * KEYS_COUNT)
            self.assertEqual(client.dbsize(target_nodes=redis.RedisCluster.PRIMARIES), KEYS_COUNT + 2)
            client.close()

    def test_from_the_first_lanes_port(self):
        self.check(lambda server: server.lane_ports()[0])

    def test_from_the_last_lanes_port(self):
        self.check(lambda server: server.lane_ports()[-1])

    def test_from_the_shared_port(self):
        self.check(lambda server: server.port)


class Restart(unittest.TestCase):
    def check(self, client, server):
        client.set("before", 1)
        server.restart()
        self.assertTrue(client.set("after", 2))
        self.assertEqual((client.get("before"), client.get("after")), (None, b"2"))
        client.close()

    def test_a_client_goes_on(self):
        with Restartable() as server:
            self.check(redis.Redis(port=server.port), server)

    def test_a_cluster_client_goes_on(self):
        with Restartable() as server:
            self.check(redis.RedisCluster(host="127.0.0.1", port=server.lane_ports()[0]), server)
