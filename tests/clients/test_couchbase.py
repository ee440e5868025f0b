"""couchbase, the SDK of Couchbase for Python (over its C++ core): every lane is a node, the lanes' map decides which one it asks."""

import contextlib
import datetime
import http.client
import json
import subprocess
import threading
import time
import unittest

from couchbase.auth import PasswordAuthenticator
from couchbase.cluster import Cluster
from couchbase.durability import DurabilityLevel, ServerDurability
from couchbase.exceptions import (
    AmbiguousTimeoutException, AuthenticationException, CasMismatchException, CouchbaseException, DeltaInvalidException,
    DocumentExistsException, DocumentLockedException, DocumentNotFoundException, DocumentNotLockedException, DurabilityInvalidLevelException,
    ScopeNotFoundException, UnAmbiguousTimeoutException)
from couchbase.options import (
    ClusterOptions, ClusterTimeoutOptions, DecrementOptions, DeltaValue, GetOptions, IncrementOptions, InsertOptions, RemoveOptions,
    ReplaceOptions, SignedInt64, UpsertOptions)
from couchbase.transcoder import RawBinaryTranscoder
from pymemcache.exceptions import MemcacheServerError

from restartable import Nodes, check_direct, settings_file
from servers import tool

SECONDS = datetime.timedelta(seconds=1)
KEYS_COUNT = 2000
PASSWORD = "a long secret"
# `errc::key_value::value_too_large` of the C++ core.
VALUE_TOO_LARGE = 104


def connect(server, password="any"):
    timeouts = ClusterTimeoutOptions(kv_timeout=60 * SECONDS, bootstrap_timeout=60 * SECONDS)
    options = ClusterOptions(PasswordAuthenticator("any", password), timeout_options=timeouts)
    cluster = Cluster(f"couchbase://127.0.0.1:{server.kv_port}", options)
    cluster.wait_until_ready(60 * SECONDS)
    return cluster


class Documents:
    """On one lane and on four: the classes below."""

    @classmethod
    def setUpClass(cls):
        cls.server = Nodes(cls.lanes)
        cls.cluster = connect(cls.server)
        cls.bucket = cls.cluster.bucket("default")
        cls.documents = cls.bucket.default_collection()

    @classmethod
    def tearDownClass(cls):
        cls.cluster.close()
        cls.server.end()

    def setUp(self):
        self.server.flush()

    def test_store_and_read(self):
        documents = self.documents
        first = documents.upsert("a", {"name": "one", "list": [1, 2]})
        self.assertEqual(documents.get("a").content_as[dict], {"name": "one", "list": [1, 2]})
        self.assertEqual(documents.get("a").cas, first.cas)
        with self.assertRaises(DocumentNotFoundException):
            documents.get("b")
        with self.assertRaises(DocumentExistsException):
            documents.insert("a", 1)
        self.assertGreater(documents.insert("b", "two").cas, 0)
        with self.assertRaises(DocumentNotFoundException):
            documents.replace("c", 1)
        second = documents.replace("a", [1], ReplaceOptions(cas=first.cas))
        self.assertNotEqual(second.cas, first.cas)
        with self.assertRaises(CasMismatchException):
            documents.replace("a", [2], ReplaceOptions(cas=first.cas))
        with self.assertRaises(CasMismatchException):
            documents.remove("a", RemoveOptions(cas=first.cas))
        self.assertTrue(documents.exists("a").exists)
        documents.remove("a")
        self.assertFalse(documents.exists("a").exists)
        with self.assertRaises(DocumentNotFoundException):
            documents.remove("a")

    def test_a_change_has_a_token(self):
        first = self.documents.upsert("a", 1).mutation_token()
        second = self.documents.upsert("a", 2).mutation_token()
        self.assertEqual((first.partition_id, first.partition_uuid), (second.partition_id, second.partition_uuid))
        self.assertLess(first.sequence_number, second.sequence_number)

    def test_numbers(self):
        binary = self.documents.binary()
        self.assertEqual(binary.increment("n", IncrementOptions(initial=SignedInt64(5))).content, 5)
        self.assertEqual(binary.increment("n").content, 6)
        self.assertEqual(binary.decrement("n", DecrementOptions(delta=DeltaValue(100))).content, 0)
        self.assertEqual(self.documents.get("n").content_as[int], 0)
        with self.assertRaises(DocumentNotFoundException):
            binary.increment("m", IncrementOptions(initial=SignedInt64(-1)))
        self.documents.upsert("t", "text")
        with self.assertRaises(DeltaInvalidException):
            binary.increment("t")

    def test_bytes_before_and_behind(self):
        raw = RawBinaryTranscoder()
        self.documents.upsert("a", b"two", UpsertOptions(transcoder=raw))
        binary = self.documents.binary()
        binary.append("a", b" three")
        binary.prepend("a", b"one ")
        self.assertEqual(self.documents.get("a", GetOptions(transcoder=raw)).value, b"one two three")
        with self.assertRaises(DocumentNotFoundException):
            binary.append("missing", b"x")

    def test_expiry(self):
        documents = self.documents
        documents.upsert("a", 1, UpsertOptions(expiry=100 * SECONDS))
        cas = documents.get("a").cas
        self.assertNotEqual(documents.touch("a", 200 * SECONDS).cas, cas)
        self.assertEqual(documents.get_and_touch("a", 300 * SECONDS).content_as[int], 1)
        with self.assertRaises(DocumentNotFoundException):
            documents.touch("missing", 10 * SECONDS)
        # An instant that is past.
        documents.upsert("b", 1, UpsertOptions(expiry=1 * SECONDS))
        for _ in range(300):
            if not documents.exists("b").exists:
                break
            time.sleep(0.02)
        with self.assertRaises(DocumentNotFoundException):
            documents.get("b")

    def test_an_expiry_may_be_kept(self):
        self.documents.upsert("a", 1, UpsertOptions(expiry=100 * SECONDS))
        ends = self.server.text_client().raw_command(b"mg a t", b"\r\n")
        self.documents.upsert("a", 2, UpsertOptions(preserve_expiry=True))
        self.assertNotEqual(self.server.text_client().raw_command(b"mg a t", b"\r\n"), b"HD t-1")
        self.documents.upsert("a", 3)
        self.assertEqual(self.server.text_client().raw_command(b"mg a t", b"\r\n"), b"HD t-1")
        self.assertNotEqual(ends, b"HD t-1")

    def test_locks_hold_for_everybody(self):
        documents = self.documents
        documents.upsert("a", 1)
        locked = documents.get_and_lock("a", 30 * SECONDS)
        self.assertEqual(locked.content_as[int], 1)
        # Who finds it locked tries again until its own time is over.
        for attempt in (
                lambda: documents.upsert("a", 2, UpsertOptions(timeout=SECONDS)),
                lambda: documents.remove("a", RemoveOptions(timeout=SECONDS))):
            with self.assertRaises((DocumentLockedException, AmbiguousTimeoutException)):
                attempt()
        with self.assertRaises(CasMismatchException):
            documents.unlock("a", locked.cas + 1)
        text = self.server.text_client()
        with self.assertRaises(MemcacheServerError):
            text.set("a", b"3", noreply=False)
        self.assertEqual(text.get("a"), b"1")
        documents.unlock("a", locked.cas)
        with self.assertRaises(DocumentNotLockedException):
            documents.unlock("a", locked.cas)
        documents.upsert("a", 2)
        locked = documents.get_and_lock("a", 30 * SECONDS)
        documents.replace("a", 3, ReplaceOptions(cas=locked.cas))
        self.assertEqual(documents.get("a").content_as[int], 3)

    def test_one_copy_is_the_majority_of_one(self):
        majority = ServerDurability(DurabilityLevel.MAJORITY)
        self.documents.upsert("a", 1, UpsertOptions(durability=majority))
        self.documents.insert("b", 1, InsertOptions(durability=majority))
        persisted = ServerDurability(DurabilityLevel.PERSIST_TO_MAJORITY)
        with self.assertRaises(DurabilityInvalidLevelException):
            self.documents.upsert("a", 2, UpsertOptions(durability=persisted))
        self.assertEqual(self.documents.get("a").content_as[int], 1)
        self.assertIn("DURABILITY_INVALID_LEVEL:", self.server.errors())

    def test_there_is_one_collection(self):
        same = self.bucket.scope("_default").collection("_default")
        same.upsert("a", 1)
        self.assertEqual(self.documents.get("a").content_as[int], 1)
        # It may come yet, for all that the SDK knows: it asks again until its time is over.
        with self.assertRaises(UnAmbiguousTimeoutException):
            self.bucket.scope("_default").collection("other").get("a", GetOptions(timeout=SECONDS))
        with self.assertRaises(ScopeNotFoundException):
            self.bucket.scope("shop").collection("other").get("a")

    def test_large_documents(self):
        raw = RawBinaryTranscoder()
        for size in (100_000, 20 * 1024 * 1024):
            value = bytes(range(256)) * (size // 256)
            self.documents.upsert("large", value, UpsertOptions(transcoder=raw))
            self.assertEqual(self.documents.get("large", GetOptions(transcoder=raw)).value, value)
        with self.assertRaises(CouchbaseException) as refused:
            self.documents.upsert("large", bytes(20 * 1024 * 1024 + 1), UpsertOptions(transcoder=raw))
        self.assertEqual(refused.exception.error_code, VALUE_TOO_LARGE)
        self.assertTrue(self.documents.exists("large").exists)

    def test_each_key_goes_to_its_lane(self):
        values = {f"many:{number}": {"number": number} for number in range(KEYS_COUNT)}
        before = self.server.counters()
        self.assertTrue(self.documents.upsert_multi(values).all_ok)
        got = self.documents.get_multi(list(values))
        self.assertTrue(got.all_ok)
        self.assertEqual({key: result.content_as[dict] for key, result in got.results.items()}, values)
        self.assertTrue(self.documents.remove_multi(list(values)).all_ok)
        check_direct(before, self.server.counters(), 3 * KEYS_COUNT)


class DocumentsOnOneLane(Documents, unittest.TestCase):
    lanes = 1


class DocumentsOnFourLanes(Documents, unittest.TestCase):
    lanes = 4


class Buckets(unittest.TestCase):
    """Several of them on four lanes; a client opens each."""

    FILE = """
        [[namespace]]
        name = "default"
        function = "couchbase"
        [[namespace]]
        name = "users"
        function = "couchbase"
        default-ttl = 600
    """

    def test_a_key_is_another_document_in_each(self):
        with settings_file(self.FILE) as file, Nodes(4, ("--config", file.name)) as server:
            cluster = connect(server)
            try:
                one, two = (cluster.bucket(name).default_collection() for name in ("default", "users"))
                keys = [f"key-{number}" for number in range(200)]
                for key in keys:
                    one.upsert(key, 1)
                    two.insert(key, 2)
                before = server.counters()
                for key in keys:
                    self.assertEqual((one.get(key).content_as[int], two.get(key).content_as[int]), (1, 2))
                check_direct(before, server.counters(), 2 * len(keys))
                with contextlib.closing(server.text_client()) as text:
                    self.assertEqual(text.get("key-3"), b"1")
                two.remove("key-3")
                self.assertTrue(one.exists("key-3").exists)
                with_end = GetOptions(with_expiry=True)
                self.assertIsNone(one.get("key-4", with_end).expiry_time)
                self.assertIsNotNone(two.get("key-4", with_end).expiry_time)
                server.flush()
                self.assertFalse(one.exists("key-4").exists)
                self.assertTrue(two.exists("key-4").exists)
            finally:
                cluster.close()

    def test_pages_list_them_all(self):
        with settings_file(self.FILE) as file, Nodes(2, ("--config", file.name)) as server:
            with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.management_port)) as connection:
                connection.request("GET", "/pools/default/buckets")
                buckets = json.loads(connection.getresponse().read())
        self.assertEqual([bucket["name"] for bucket in buckets], ["default", "users"])
        self.assertEqual(len({bucket["uuid"] for bucket in buckets}), 2)


class Passwords(unittest.TestCase):
    """SCRAM, as the SDK has it by default: it never sends the password."""

    def test_scram(self):
        with Nodes(2, password=PASSWORD) as server:
            cluster = connect(server, PASSWORD)
            documents = cluster.bucket("default").default_collection()
            documents.upsert("a", 1)
            self.assertEqual(documents.get("a").content_as[int], 1)
            cluster.close()
            with self.assertRaises(AuthenticationException):
                connect(server, "wrong")
            self.assertIn("AUTH_ERROR:", server.errors())


class Restarts(unittest.TestCase):
    """A server that comes back with other lanes has another map: clients find it, under traffic."""

    def test_another_number_of_lanes(self):
        with Nodes(2, lanes_max=4) as server:
            cluster = connect(server)
            documents = cluster.bucket("default").default_collection()
            for lanes in (4, 1, 3):
                stop = threading.Event()
                done = [0]

                def load():
                    while not stop.is_set():
                        with contextlib.suppress(CouchbaseException):
                            documents.upsert(f"key:{done[0] % 500}", done[0])
                            done[0] += 1

                thread = threading.Thread(target=load)
                thread.start()
                try:
                    server.restart(lanes)
                    deadline = time.monotonic() + 60
                    # The new map is known once keys of all lanes are asked for at their own.
                    while time.monotonic() < deadline:
                        before, count = server.counters(), done[0]
                        while done[0] < count + 500 and time.monotonic() < deadline:
                            time.sleep(0.01)
                        after = server.counters()
                        if after["moved"] == before["moved"] and after["forwarded"] == before["forwarded"]:
                            break
                    else:
                        self.fail(f"with {lanes} lanes the map was not found: {server.counters()}")
                finally:
                    stop.set()
                    thread.join()
                documents.upsert("a", lanes)
                self.assertEqual(documents.get("a").content_as[int], lanes)
            cluster.close()


class Pages(unittest.TestCase):
    """The management ports, by Python's own client of HTTP."""

    def test_every_lane_describes_itself(self):
        with Nodes(2) as server:
            for lane in range(2):
                connection = http.client.HTTPConnection("127.0.0.1", server.management_port + lane, timeout=10)
                for path, want in (("/nodes/self", f'"direct":{server.kv_port + lane}'), ("/pools/default/b/default", '"vBucketMap"'),
                                   ("/pools/default/buckets/default", '"itemCount":0')):
                    connection.request("GET", path)
                    reply = connection.getresponse()
                    self.assertEqual(reply.status, 200)
                    self.assertIn(want, reply.read().decode())
                connection.request("POST", "/pools")
                self.assertEqual(connection.getresponse().status, 405)
                connection.close()


class Tools(unittest.TestCase):
    """memccapable of libmemcached, whose clients do not greet: any lane serves them."""

    def test_memccapable(self):
        with Nodes(4) as server:
            command = [tool("memccapable", "libmemcached-tools"), "-h", "127.0.0.1", "-p", str(server.kv_port + 3), "-b"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60)
            self.assertEqual((done.stdout.count("[pass]"), done.returncode), (27, 0), done.stdout + done.stderr)
