"""memtier_benchmark (2.3.0) in both of its memcached protocols. Debian does not package it: without it the tests are skipped."""

import contextlib
import json
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from pymemcache.client.base import Client

from restartable import Documents

CLIENTS, REQUESTS, KEYS = 8, 500, 400
PASSWORD = "a long secret"


def statistics(client):
    return {name.decode(): value for name, value in client.stats().items()}


class Memtier(unittest.TestCase):
    def setUp(self):
        self.program = shutil.which("memtier_benchmark")
        if self.program is None:
            self.skipTest("memtier_benchmark is not in the path; Debian does not package it")

    def run_load(self, server, protocol, *arguments):
        """What it has counted, by `Sets` and `Gets`; it must have met no error."""
        with tempfile.TemporaryDirectory(prefix="memtier-") as directory:
            report = pathlib.Path(directory, "report.json")
            command = [
                self.program, "--protocol", protocol, "--port", str(server.memcached_port), "--threads", "2",
                "--clients", str(CLIENTS // 2), "--requests", str(REQUESTS), "--key-minimum", "1",
                "--key-maximum", str(KEYS), "--data-size-range", "1-4000", "--json-out-file", report, *arguments]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=directory)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertNotIn("error", done.stderr.lower())
            counted = json.loads(report.read_text())["ALL STATS"]
        self.assertEqual(counted["Totals"]["Connection Errors"], 0)
        return {kind: counted[kind] for kind in ("Sets", "Gets")}

    def check(self, lanes, protocol, keys_per_line=1):
        """Writes each key, then reads and writes them: it finds all, and has counted what the server has."""
        with Documents(lanes) as server, contextlib.closing(Client(("127.0.0.1", server.memcached_port))) as client:
            counted = self.run_load(server, protocol, "--ratio", "1:0", "--key-pattern", "P:P")
            self.assertEqual(counted["Sets"]["Count"], CLIENTS * REQUESTS)
            written = statistics(client)
            self.assertEqual((written["cmd_set"], written["curr_items"]), (CLIENTS * REQUESTS, KEYS))
            several = ("--multi-key-get", str(keys_per_line)) if keys_per_line > 1 else ()
            counted = self.run_load(server, protocol, "--ratio", "1:9", "--pipeline", "16", *several)
            sets, gets = counted["Sets"]["Count"], counted["Gets"]["Count"]
            self.assertEqual(sets + gets, CLIENTS * REQUESTS)
            self.assertEqual(counted["Gets"]["Misses/sec"], 0)
            read = statistics(client)
            self.assertEqual(read["cmd_set"] - written["cmd_set"], sets)
            self.assertEqual(read["get_misses"], 0)
            if keys_per_line == 1:
                self.assertEqual(read["get_hits"], gets)
            else:
                # Nine keys in a row are lines of five and of four.
                self.assertGreater(read["get_hits"], 4 * gets)

    def test_text(self):
        self.check(1, "memcache_text")
        self.check(4, "memcache_text")
        self.check(4, "memcache_text", keys_per_line=5)

    def test_binary(self):
        self.check(1, "memcache_binary")
        self.check(4, "memcache_binary")
        with Documents(4, ("--requirepass", PASSWORD)) as server:
            counted = self.run_load(server, "memcache_binary", "--authenticate", f"any:{PASSWORD}")
            self.assertEqual(counted["Sets"]["Count"] + counted["Gets"]["Count"], CLIENTS * REQUESTS)
