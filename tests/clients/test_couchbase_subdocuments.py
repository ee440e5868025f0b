"""couchbase's lookup_in and mutate_in: parts of documents, through the SDK, on one lane and on four."""

import datetime
import unittest

import couchbase.subdocument as SD
from couchbase.exceptions import (
    CasMismatchException, DocumentExistsException, DocumentNotFoundException, DocumentNotJsonException, InvalidArgumentException,
    PathExistsException, PathMismatchException, PathNotFoundException)
from couchbase.options import GetOptions, MutateInOptions, UpsertOptions
from couchbase.transcoder import RawBinaryTranscoder

from restartable import Nodes
from test_couchbase import connect

SECONDS = datetime.timedelta(seconds=1)


class Inside:
    """The classes below."""

    @classmethod
    def setUpClass(cls):
        cls.server = Nodes(cls.lanes)
        cls.cluster = connect(cls.server)
        cls.documents = cls.cluster.bucket("default").default_collection()

    @classmethod
    def tearDownClass(cls):
        cls.cluster.close()
        cls.server.end()

    def setUp(self):
        self.server.flush()

    def whole(self, key):
        return self.documents.get(key).content_as[dict]

    def test_look(self):
        # Keys of all lanes.
        for number in range(40):
            key = f"key-{number}"
            self.documents.upsert(key, {"name": "one", "list": [1, {"deep": True}], "number": number})
            got = self.documents.lookup_in(
                key, [SD.get("name"), SD.get("list[-1].deep"), SD.exists("nothing"), SD.count("list"), SD.get("number")])
            self.assertEqual(got.content_as[str](0), "one")
            self.assertIs(got.content_as[bool](1), True)
            self.assertFalse(got.exists(2))
            self.assertEqual((got.content_as[int](3), got.content_as[int](4)), (2, number))
            self.assertEqual(got.cas, self.documents.get(key).cas)
        with self.assertRaises(PathNotFoundException):
            self.documents.lookup_in("key-0", [SD.get("name"), SD.get("none")]).content_as[str](1)
        with self.assertRaises(PathMismatchException):
            self.documents.lookup_in("key-0", [SD.get("name.more")]).content_as[str](0)
        with self.assertRaises(DocumentNotFoundException):
            self.documents.lookup_in("missing", [SD.get("name")])
        self.documents.upsert("raw", b"bytes", UpsertOptions(transcoder=RawBinaryTranscoder()))
        with self.assertRaises(DocumentNotJsonException):
            self.documents.lookup_in("raw", [SD.get("name")]).content_as[str](0)

    def test_change(self):
        documents = self.documents
        documents.upsert("a", {"list": [2], "n": 5, "gone": None})
        result = documents.mutate_in("a", [
            SD.upsert("new.deep", {"x": [1]}, create_parents=True),
            SD.array_append("list", 3, 4),
            SD.array_prepend("list", 1),
            SD.array_insert("list[0]", 0),
            SD.array_addunique("list", 9),
            SD.increment("n", 37),
            SD.decrement("n", 2),
            SD.replace("new.deep.x[0]", "one"),
            SD.remove("gone"),
        ])
        self.assertEqual((result.content_as[int](5), result.content_as[int](6)), (42, 40))
        self.assertEqual(
            self.whole("a"), {"list": [0, 1, 2, 3, 4, 9], "n": 40, "new": {"deep": {"x": ["one"]}}})
        # All of it or nothing.
        with self.assertRaises(PathExistsException):
            documents.mutate_in("a", [SD.increment("n", 1), SD.insert("n", 7)])
        self.assertEqual(self.whole("a")["n"], 40)
        with self.assertRaises(PathNotFoundException):
            documents.mutate_in("a", [SD.replace("none", 1)])
        with self.assertRaises(CasMismatchException):
            documents.mutate_in("a", [SD.increment("n", 1)], MutateInOptions(cas=result.cas + 1))
        documents.mutate_in("a", [SD.increment("n", 1)], MutateInOptions(cas=result.cas))
        self.assertEqual(self.whole("a")["n"], 41)

    def test_documents_are_made(self):
        documents = self.documents
        with self.assertRaises(DocumentNotFoundException):
            documents.mutate_in("a", [SD.upsert("x", 1)])
        documents.mutate_in("a", [SD.upsert("x.y", 1)], MutateInOptions(store_semantics=SD.StoreSemantics.UPSERT))
        self.assertEqual(self.whole("a"), {"x": {"y": 1}})
        insert = MutateInOptions(store_semantics=SD.StoreSemantics.INSERT)
        with self.assertRaises(DocumentExistsException):
            documents.mutate_in("a", [SD.upsert("x", 1)], insert)
        documents.mutate_in("b", [SD.array_append("", 1, 2)], insert)
        self.assertEqual(documents.get("b").content_as[list], [1, 2])

    def test_ends(self):
        documents = self.documents
        documents.upsert("a", {"x": 1}, UpsertOptions(expiry=500 * SECONDS))
        got = documents.get("a", GetOptions(with_expiry=True))
        self.assertEqual(got.content_as[dict], {"x": 1})
        left = got.expiryTime - datetime.datetime.now()
        self.assertTrue(400 * SECONDS < left < 600 * SECONDS, left)
        documents.mutate_in("a", [SD.upsert("x", 2)], MutateInOptions(preserve_expiry=True))
        self.assertIsNotNone(documents.get("a", GetOptions(with_expiry=True)).expiryTime)
        documents.mutate_in("a", [SD.upsert("x", 3)])
        self.assertIsNone(documents.get("a", GetOptions(with_expiry=True)).expiryTime)
        documents.mutate_in("a", [SD.upsert("x", 4)], MutateInOptions(expiry=300 * SECONDS))
        self.assertIsNotNone(documents.get("a", GetOptions(with_expiry=True)).expiryTime)

    def test_projections(self):
        self.documents.upsert("a", {"name": "one", "list": [1, 2], "more": {"x": 1, "y": 2}})
        got = self.documents.get("a", GetOptions(project=["name", "more.y"]))
        self.assertEqual(got.content_as[dict], {"name": "one", "more": {"y": 2}})

    def test_large_documents(self):
        rows = [{"id": number, "text": "v" * 100} for number in range(20_000)]
        self.documents.upsert("a", {"rows": rows, "n": 1})
        got = self.documents.lookup_in("a", [SD.get("rows[19999].id"), SD.count("rows"), SD.get("rows[7]"), SD.get("n")])
        self.assertEqual((got.content_as[int](0), got.content_as[int](1)), (19_999, 20_000))
        self.assertEqual(got.content_as[dict](2), rows[7])
        self.documents.mutate_in("a", [
            SD.remove("rows[0]"), SD.upsert("rows[-1].text", "new"), SD.array_append("rows", {"id": -1}), SD.increment("n", 1)])
        rows = rows[1:-1] + [{"id": 19_999, "text": "new"}, {"id": -1}]
        self.assertEqual(self.whole("a"), {"rows": rows, "n": 2})

    def test_too_many_paths(self):
        self.documents.upsert("a", {"n": 1})
        self.documents.lookup_in("a", [SD.get("n")] * 16)
        with self.assertRaises(InvalidArgumentException):
            self.documents.lookup_in("a", [SD.get("n")] * 17)


class OnOneLane(Inside, unittest.TestCase):
    lanes = 1


class OnFourLanes(Inside, unittest.TestCase):
    lanes = 4
