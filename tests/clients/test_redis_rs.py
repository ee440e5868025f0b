"""redis-rs: the program in rust/, built with what its Cargo.lock names."""

import unittest

from restartable import HERE, build, converse, made, toolchain


class RedisRs(unittest.TestCase):
    def test_all(self):
        target = made("rust")
        build([toolchain("cargo"), "build", "--quiet", "--locked", "--target-dir", target], HERE / "rust")
        converse([target / "debug/redis-rs-client"], [
            *(f"{what} RESP{protocol}" for protocol in (2, 3) for what in ("values", "pipeline", "transaction")),
            "cluster", "restart survived",
        ])
