"""Aerospike's client for Python, on one lane and on four: each lane is a node to it."""

import contextlib
import random
import re
import threading
import time
import unittest

import aerospike
from aerospike import exception
from aerospike_helpers.batch import records as batch
from aerospike_helpers.operations import list_operations, operations

from restartable import Records, check_direct, settings_file

PASSWORD = "a long secret"
NAMESPACE = "test"
SET = "demo"


def connect(server, **config):
    return aerospike.client({"hosts": [("127.0.0.1", server.aerospike_port)], **config}).connect()


def key(name, of=SET):
    return (NAMESPACE, of, name)


class Data:
    """On one lane and on four: the classes below."""

    @classmethod
    def setUpClass(cls):
        cls.server = Records(cls.lanes)
        cls.client = connect(cls.server)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.server.end()

    def setUp(self):
        self.client.truncate(NAMESPACE, None, 0)

    def bins(self, name):
        return self.client.get(key(name))[2]

    def objects(self, of):
        """How many records the nodes say that a set has."""
        answers = self.client.info_all(f"sets/{NAMESPACE}/{of}").values()
        counts = [re.search(r"objects=(\d+):", text) for _, text in answers]
        return sum(int(count[1]) for count in counts if count)

    def test_lanes_are_nodes(self):
        self.assertEqual(len(self.client.get_node_names()), self.lanes)

    def test_bins_of_every_type(self):
        bins = {"i": -7, "f": 2.5, "s": "text", "b": b"\0bytes", "t": True, "l": [1, "two", [3.0]],
                "m": {"a": 1, "b": [2]}, "e": ""}
        self.client.put(key("k"), bins)
        self.assertEqual(self.bins("k"), bins)
        self.assertEqual(self.client.select(key("k"), ["s", "nothing", "l"])[2], {"s": "text", "l": [1, "two", [3.0]]})
        self.assertEqual(self.client.exists(key("k"))[1]["gen"], 1)
        self.assertIsNone(self.client.exists(key("other"))[1])
        with self.assertRaises(exception.RecordNotFound):
            self.client.get(key("other"))
        # A bin that becomes nothing is gone, and with the last one the record.
        self.client.put(key("k"), dict.fromkeys(bins, aerospike.null()))
        self.assertIsNone(self.client.exists(key("k"))[1])

    def test_keys_of_every_type(self):
        for name in ("text", 77, b"bytes", bytearray(b"array")):
            self.client.put(key(name), {"a": 1}, policy={"key": aerospike.POLICY_KEY_SEND})
            self.assertEqual(self.client.get(key(name), policy={"key": aerospike.POLICY_KEY_SEND})[2], {"a": 1})

    def test_policies(self):
        client = self.client
        create = {"exists": aerospike.POLICY_EXISTS_CREATE}
        client.put(key("k"), {"a": 1}, policy=create)
        with self.assertRaises(exception.RecordExistsError):
            client.put(key("k"), {"a": 2}, policy=create)
        with self.assertRaises(exception.RecordNotFound):
            client.put(key("other"), {"a": 2}, policy={"exists": aerospike.POLICY_EXISTS_UPDATE})
        client.put(key("k"), {"b": 2}, policy={"exists": aerospike.POLICY_EXISTS_UPDATE})
        self.assertEqual(self.bins("k"), {"a": 1, "b": 2})
        client.put(key("k"), {"c": 3}, policy={"exists": aerospike.POLICY_EXISTS_REPLACE})
        self.assertEqual(self.bins("k"), {"c": 3})
        with self.assertRaises(exception.RecordNotFound):
            client.put(key("other"), {"c": 3}, policy={"exists": aerospike.POLICY_EXISTS_REPLACE})
        client.put(key("other"), {"c": 3}, policy={"exists": aerospike.POLICY_EXISTS_CREATE_OR_REPLACE})
        equal = {"gen": aerospike.POLICY_GEN_EQ}
        with self.assertRaises(exception.RecordGenerationError):
            client.put(key("k"), {"d": 4}, meta={"gen": 2}, policy=equal)
        client.put(key("k"), {"d": 4}, meta={"gen": 3}, policy=equal)
        self.assertEqual(client.get(key("k"))[1]["gen"], 4)
        with self.assertRaises(exception.RecordGenerationError):
            client.remove(key("k"), meta={"gen": 1}, policy=equal)
        client.remove(key("k"), meta={"gen": 4}, policy=equal)
        with self.assertRaises(exception.RecordNotFound):
            client.remove(key("k"))

    def test_ends(self):
        client = self.client
        client.put(key("k"), {"a": 1}, meta={"ttl": 100})
        self.assertIn(client.get(key("k"))[1]["ttl"], (99, 100))
        client.touch(key("k"), 1000)
        self.assertIn(client.get(key("k"))[1]["ttl"], (999, 1000))
        client.put(key("k"), {"a": 2}, meta={"ttl": aerospike.TTL_DONT_UPDATE})
        self.assertIn(client.get(key("k"))[1]["ttl"], (999, 1000))
        client.touch(key("k"), aerospike.TTL_NEVER_EXPIRE)
        self.assertEqual(client.get(key("k"))[1]["ttl"], 0xFFFFFFFF)
        with self.assertRaises(exception.RecordNotFound):
            client.touch(key("other"), 5)

    def test_operations(self):
        client = self.client
        client.increment(key("k"), "n", 5)
        client.append(key("k"), "s", "b")
        client.prepend(key("k"), "s", "a")
        _, meta, bins = client.operate(key("k"), [
            operations.increment("n", -2), operations.append("s", "c"), operations.read("n"), operations.read("s")])
        self.assertEqual((meta["gen"], bins), (4, {"n": 3, "s": "abc"}))
        _, _, ordered = client.operate_ordered(key("k"), [
            operations.read("n"), operations.write("n", 10), operations.read("n")])
        self.assertEqual([value for name, value in ordered if value is not None], [3, 10])
        with self.assertRaises(exception.AerospikeError) as refused:
            client.append(key("k"), "n", "text")
        self.assertEqual(refused.exception.code, 12)
        with self.assertRaises(exception.AerospikeError) as refused:
            client.operate(key("k"), [list_operations.list_append("l", 1)])
        self.assertEqual(refused.exception.code, 16)
        client.operate(key("k"), [operations.delete()])
        self.assertIsNone(client.exists(key("k"))[1])

    def test_batches(self):
        client = self.client
        keys = [key(number) for number in range(100)]
        writes = batch.BatchRecords([batch.Write(one, [operations.write("n", one[2])]) for one in keys])
        client.batch_write(writes)
        self.assertEqual([row.result for row in writes.batch_records], [0] * 100)
        found = client.batch_read(keys + [key("other")]).batch_records
        self.assertEqual([row.result for row in found], [0] * 100 + [2])
        self.assertEqual([row.record[2]["n"] for row in found[:100]], list(range(100)))
        some = client.batch_read(keys, ["n", "nothing"]).batch_records
        self.assertEqual([row.record[2] for row in some], [{"n": number} for number in range(100)])
        heads = client.batch_read(keys, []).batch_records
        self.assertEqual([row.record[1]["gen"] for row in heads], [1] * 100)
        changed = client.batch_operate(keys, [operations.increment("n", 1), operations.read("n")]).batch_records
        self.assertEqual([row.record[2]["n"] for row in changed], list(range(1, 101)))
        removed = client.batch_remove(keys[:50]).batch_records
        self.assertEqual([row.result for row in removed], [0] * 50)
        self.assertEqual([row.result for row in client.batch_read(keys).batch_records], [2] * 50 + [0] * 50)

    def test_scans_and_truncation(self):
        client = self.client
        for number in range(200):
            of = "even" if number % 2 == 0 else "odd"
            client.put(key(number, of), {"n": number}, policy={"key": aerospike.POLICY_KEY_SEND})
        everything = client.query(NAMESPACE).results()
        self.assertEqual(sorted(bins["n"] for _, _, bins in everything), list(range(200)))
        self.assertEqual(sorted(found[2] for found, _, _ in everything), list(range(200)))
        self.assertEqual(len(client.query(NAMESPACE, "odd").results()), 100)
        self.assertEqual(client.query(NAMESPACE, "none").results(), [])
        self.assertEqual([self.objects("odd"), self.objects("even"), self.objects("none")], [100, 100, 0])
        client.truncate(NAMESPACE, "even", 0)
        self.assertEqual([self.objects("odd"), self.objects("even")], [100, 0])
        self.assertEqual(len(client.query(NAMESPACE).results()), 100)
        client.truncate(NAMESPACE, None, 0)
        self.assertEqual(client.query(NAMESPACE).results(), [])

    def test_scans_by_pages(self):
        """Each page goes on behind the last one, while records come that it may have or not."""
        client = self.client
        for number in range(1000):
            client.put(key(number), {"n": number})
        for page_size in (90, 400):
            found, pages = [], 0
            query = client.query(NAMESPACE, SET)
            query.max_records = page_size
            query.paginate()
            while not query.is_done():
                page = query.results()
                self.assertLessEqual(len(page), page_size)
                found += [bins["n"] for _, _, bins in page if "n" in bins]
                client.put(key(f"{page_size}-{pages}"), {"new": 1})
                pages += 1
            self.assertEqual(sorted(found), list(range(1000)))
            self.assertGreaterEqual(pages, 1000 // page_size)

    def test_pages_that_go_on_in_every_partition(self):
        """With each page the client names every partition by its number, or by the last record of it that it has: 20 bytes for each."""
        count, page_size = 10_000, 3000
        for first in range(0, count, 1000):
            rows = [batch.Write(key(number), [operations.write("n", number)]) for number in range(first, first + 1000)]
            self.client.batch_write(batch.BatchRecords(rows))
        found, query = [], self.client.query(NAMESPACE, SET)
        query.max_records = page_size
        query.paginate()
        while not query.is_done():
            found += query.results()
        self.assertEqual(sorted(bins["n"] for _, _, bins in found), list(range(count)))
        # What is left where the client has records of nearly all partitions is nothing, without a limit too.
        rest = self.client.query(NAMESPACE, SET)
        rest.max_records = 0
        status = {"begin": 0, "count": 4096, "partition_status": query.get_partitions_status()}
        self.assertEqual(rest.results({"partition_filter": status}), [])

    def test_limits(self):
        client = self.client
        long = "x" * 900_000
        client.put(key("k"), {"a": long})
        self.assertEqual(self.bins("k"), {"a": long})
        client.append(key("k"), "a", "y" * 100_000)
        self.assertEqual(len(self.bins("k")["a"]), 1_000_000)
        with self.assertRaises(exception.RecordTooBig):
            client.put(key("k"), {"b": "x" * 200_000})
        with self.assertRaises(exception.AerospikeError) as refused:
            client.put(("other", SET, "k"), {"a": 1})
        self.assertEqual(refused.exception.code, 20)

    def test_compressed_requests(self):
        policy = {"compression_threshold": 1}
        long, noise = "x" * 900_000, random.Random(1).randbytes(900_000)
        before = self.server.bytes_received()
        for name, value in (("short", "x"), ("long", long)):
            self.client.put(key(name), {"a": value}, policy=policy)
        self.assertLess(self.server.bytes_received() - before, 100_000)
        self.client.put(key("noise"), {"a": noise}, policy=policy)
        self.client.append(key("long"), "a", "y" * 90_000, policy={"compression_threshold": 1})
        self.assertEqual(self.bins("short"), {"a": "x"})
        self.assertEqual(self.bins("long"), {"a": long + "y" * 90_000})
        self.assertEqual(self.bins("noise"), {"a": noise})
        with self.assertRaises(exception.RecordTooBig):
            self.client.put(key("more"), {"a": "x" * 50_000_000}, policy=policy)

    def test_nodes_say_what_they_are(self):
        answers = self.client.info_all("build")
        self.assertEqual(len(answers), self.lanes)
        for error, text in answers.values():
            self.assertIsNone(error)
            self.assertIn("7.0.0.0", text)

    def test_requests_go_to_the_lane_that_owns_the_record(self):
        keys = [key(f"direct {number}") for number in range(1200)]
        before = self.server.counters()
        for one in keys:
            self.client.put(one, {"a": 1})
            self.client.get(one)
        check_direct(before, self.server.counters(), 2400)


class OneLane(Data, unittest.TestCase):
    lanes = 1


class FourLanes(Data, unittest.TestCase):
    lanes = 4


class Namespaces(unittest.TestCase):
    """Several of them on four lanes; the client keeps a map of partitions for each."""

    FILE = """
        [[namespace]]
        name = "test"
        function = "aerospike"
        [[namespace]]
        name = "users"
        function = "aerospike"
        default-ttl = 600
    """

    def test_a_key_is_another_record_in_each(self):
        names, keys_count = ("test", "users"), 200
        with settings_file(self.FILE) as file, Records(4, ("--config", file.name)) as server, \
                contextlib.closing(connect(server)) as client:
            for name in names:
                for number in range(keys_count):
                    client.put((name, SET, number), {"of": name})
            before = server.counters()
            for name in names:
                for number in range(keys_count):
                    self.assertEqual(client.get((name, SET, number))[2], {"of": name})
            after = server.counters()
            self.assertEqual(after["forwarded"], before["forwarded"], "every request went to its lane")
            rows = client.batch_read([(name, SET, 7) for name in names]).batch_records
            self.assertEqual([row.record[2] for row in rows], [{"of": name} for name in names])
            self.assertEqual(client.get(("test", SET, 1))[1]["ttl"], aerospike.TTL_NEVER_EXPIRE)
            self.assertTrue(0 < client.get(("users", SET, 1))[1]["ttl"] <= 600)
            self.assertEqual(len(client.scan("users", SET).results()), keys_count)
            client.truncate("users", None, 0)
            self.assertEqual(client.scan("users", SET).results(), [])
            self.assertEqual(len(client.scan("test", SET).results()), keys_count)
            with self.assertRaises(exception.NamespaceNotFound):
                client.put(("other", SET, 1), {"a": 1})

    def test_a_share_of_memory_is_all_there_is(self):
        file = self.FILE + "memory-share = 1\n"
        with settings_file(file) as file, Records(2, ("--config", file.name, "--maxmemory", "64mb")) as server, \
                contextlib.closing(connect(server)) as client:
            value, stored = "x" * 10_000, 0
            with self.assertRaises(exception.ServerFull):
                for number in range(100):
                    client.put(("users", SET, number), {"a": value})
                    stored += 1
            self.assertGreater(stored, 40)
            for number in range(100):
                client.put(("test", SET, number), {"a": value})
            client.truncate("users", None, 0)
            client.put(("users", SET, 1), {"a": value})


class Strangers(unittest.TestCase):
    def test_the_password_is_said_first(self):
        with Records(2, password=PASSWORD) as server:
            with contextlib.closing(connect(server, user="any", password=PASSWORD)) as client:
                client.put(key("k"), {"a": 1})
                self.assertEqual(client.get(key("k"))[2], {"a": 1})
            with self.assertRaises(exception.AerospikeError):
                connect(server, user="any", password="another")
            with self.assertRaises(exception.AerospikeError):
                connect(server)

    def test_a_user_without_need(self):
        with Records(1) as server, contextlib.closing(connect(server, user="any", password="x")) as client:
            client.put(key("k"), {"a": 1})


class Restarts(unittest.TestCase):
    """Under traffic of four threads the server comes back with other lanes."""

    PATIENT = {"total_timeout": 60_000, "socket_timeout": 1000, "max_retries": 10_000, "sleep_between_retries": 10}

    def check(self, lanes, lanes_then, may_lack=()):
        """No request fails but as `may_lack` says, and soon all of them go to the lane that owns the record."""
        with Records(lanes, lanes_max=4) as server, contextlib.closing(
                connect(server, policies={"read": self.PATIENT, "write": self.PATIENT}, tend_interval=250)) as client:
            stop, done, failed = threading.Event(), [0] * 4, []

            def load(thread):
                try:
                    while not stop.is_set():
                        one = key(f"{thread}:{done[thread] % 500}")
                        with contextlib.suppress(*may_lack):
                            client.put(one, {"n": done[thread]})
                            with contextlib.suppress(exception.RecordNotFound):
                                client.get(one)
                            done[thread] += 1
                except exception.AerospikeError as error:
                    failed.append(error)

            threads = [threading.Thread(target=load, args=(number,)) for number in range(4)]
            for thread in threads:
                thread.start()
            try:
                server.restart(lanes_then)
                deadline = time.monotonic() + 60
                while True:
                    before, count = server.counters(), sum(done)
                    while sum(done) < count + 2000 and not failed and time.monotonic() < deadline:
                        time.sleep(0.01)
                    after = server.counters()
                    if failed or after["forwarded"] == before["forwarded"] and after["direct"] > before["direct"]:
                        break
                    self.assertLess(time.monotonic(), deadline, f"requests go on being forwarded: {after}")
            finally:
                stop.set()
                for thread in threads:
                    thread.join()
            self.assertEqual(failed, [])
            self.assertEqual(len(client.get_node_names()), lanes_then)

    def test_the_same_lanes(self):
        self.check(2, 2)

    def test_more_lanes(self):
        self.check(1, 4)

    def test_fewer_lanes(self):
        # Now and then the client looks for a lane that has gone before it has heard of that, and does not try again.
        self.check(4, 3, may_lack=[exception.InvalidNodeError])


if __name__ == "__main__":
    unittest.main()
