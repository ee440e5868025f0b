"""Aerospike's client for Rust, the program in rust/aerospike/: on one lane and on four, and on another number after a restart."""

import unittest

from restartable import Records, converse, rust_program


class AerospikeForRust(unittest.TestCase):
    def check(self, lanes, lanes_then):
        converse([rust_program("aerospike-client")], [
            "values", "policies", "ends", "operations", "batches", "scans", "limits", "many", "other lanes",
        ], Records(lanes, lanes_max=4), [lanes_then])

    def test_on_one_lane(self):
        self.check(1, 4)

    def test_on_four_lanes(self):
        self.check(4, 3)
