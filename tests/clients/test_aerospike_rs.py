"""Aerospike's client for Rust, the program in rust/aerospike/: on one lane and, with a password, on four, and on another number after a restart."""

import unittest

from restartable import Records, converse, rust_program

PASSWORD = "a long secret"


class AerospikeForRust(unittest.TestCase):
    def check(self, lanes, lanes_then, password=None):
        converse([rust_program("aerospike-client")], [
            "values", "policies", "ends", "operations", "batches", "scans", "limits", "many", "other lanes",
        ], Records(lanes, lanes_max=4, password=password), [lanes_then])

    def test_on_one_lane(self):
        self.check(1, 4)

    def test_on_four_lanes(self):
        self.check(4, 3, PASSWORD)
