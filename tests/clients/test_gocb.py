"""gocb, the SDK of Couchbase for Go, the program in go/couchbase/: on one lane and on four, and on another number after a restart."""

import unittest

from restartable import Nodes, converse, go_program

PASSWORD = "a long secret"


class Gocb(unittest.TestCase):
    def check(self, lanes, lanes_then):
        converse([go_program("couchbase")], [
            "password", "values", "numbers and bytes", "ends", "locks", "inside", "together", "limits", "many", "other lanes",
        ], Nodes(lanes, lanes_max=4, password=PASSWORD), [lanes_then])

    def test_on_one_lane(self):
        self.check(1, 4)

    def test_on_four_lanes(self):
        self.check(4, 3)
