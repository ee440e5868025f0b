"""go-redis: the program in go/redis/."""

import unittest

from restartable import converse, go_program


class GoRedis(unittest.TestCase):
    def test_all(self):
        converse([go_program("redis")], [
            *(f"{what} RESP{protocol}" for protocol in (2, 3) for what in ("values", "pipeline", "transaction", "script", "pubsub")),
            "cluster", "restart survived",
        ])
