"""Aerospike's client for Go, the program in go/aerospike/: on one lane and, with a password, on four, and on another number after a restart."""

import unittest

from restartable import Records, converse, go_program

PASSWORD = "a long secret"


class AerospikeForGo(unittest.TestCase):
    def check(self, lanes, lanes_then, password=None):
        converse([go_program("aerospike")], [
            "values", "policies", "ends", "operations", "batches", "scans", "limits", "many", "other lanes",
        ], Records(lanes, lanes_max=4, password=password), [lanes_then])

    def test_on_one_lane(self):
        self.check(1, 4)

    def test_on_four_lanes(self):
        self.check(4, 3, PASSWORD)
