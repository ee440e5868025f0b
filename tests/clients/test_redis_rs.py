"""redis-rs: the program in rust/redis/."""

import unittest

from restartable import converse, rust_program


class RedisRs(unittest.TestCase):
    def test_all(self):
        converse([rust_program("redis-rs-client")], [
            *(f"{what} RESP{protocol}" for protocol in (2, 3) for what in ("values", "pipeline", "transaction", "script")),
            "cluster", "restart survived",
        ])
