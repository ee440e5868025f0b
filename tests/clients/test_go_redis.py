"""go-redis: the program in go/, built with what go.sum names."""

import unittest

from restartable import HERE, build, converse, made, toolchain


class GoRedis(unittest.TestCase):
    def test_all(self):
        program = made("go-redis")
        build([toolchain("go"), "build", "-o", program, "."], HERE / "go")
        converse([program], [
            *(f"{what} RESP{protocol}" for protocol in (2, 3) for what in ("values", "pipeline", "transaction")),
            "cluster", "restart survived",
        ])
