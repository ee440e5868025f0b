"""go-redis: the program in go/, built with what go.sum names."""

import unittest

from restartable import HERE, build, converse, made, toolchain

# From this version on Go fetches the version that go.mod names.
FETCHES_ITSELF = (1, 21)


class GoRedis(unittest.TestCase):
    def test_all(self):
        program = made("go-redis")
        build([toolchain("go", FETCHES_ITSELF), "build", "-o", program, "."], HERE / "go", GOTOOLCHAIN="auto")
        converse([program], [
            *(f"{what} RESP{protocol}" for protocol in (2, 3) for what in ("values", "pipeline", "transaction")),
            "cluster", "restart survived",
        ])
