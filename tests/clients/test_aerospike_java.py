"""Aerospike's client for Java, java/AerospikeProgram.java: on one lane and, with a password, on four, and on another number after a restart."""

import unittest

from restartable import Records, converse, java_program

PASSWORD = "a long secret"


class AerospikeForJava(unittest.TestCase):
    def check(self, lanes, lanes_then, password=None):
        converse(java_program("AerospikeProgram"), [
            "values", "policies", "ends", "operations", "batches", "scans", "asynchronous", "limits", "many", "other lanes",
        ], Records(lanes, lanes_max=4, password=password), [lanes_then])

    def test_on_one_lane(self):
        self.check(1, 4)

    def test_on_four_lanes(self):
        self.check(4, 3, PASSWORD)
