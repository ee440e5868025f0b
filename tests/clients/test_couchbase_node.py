"""couchbase, the SDK of Couchbase for Node, the program node/couchbase.js: on one lane and on four, and on another number after a restart."""

import unittest

from restartable import Nodes, converse, node_program


class CouchbaseForNode(unittest.TestCase):
    def check(self, lanes, lanes_then):
        converse(node_program("couchbase"), [
            "values", "numbers and bytes", "ends", "locks", "inside", "together", "limits", "many", "other lanes",
        ], Nodes(lanes, lanes_max=4), [lanes_then])

    def test_on_one_lane(self):
        self.check(1, 4)

    def test_on_four_lanes(self):
        self.check(4, 3)
