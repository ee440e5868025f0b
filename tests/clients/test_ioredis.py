"""ioredis: the program node/redis.js."""

import unittest

from restartable import converse, node_program


class Ioredis(unittest.TestCase):
    def test_all(self):
        converse(node_program("redis"), ["values", "pipeline", "transaction", "script", "pubsub", "cluster", "restart survived"])
