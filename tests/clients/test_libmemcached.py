"""libmemcached's tools, as Debian ships them (package libmemcached-tools): memccapable's 54 checks, and a client in C."""

import pathlib
import subprocess
import tempfile
import unittest

from restartable import Documents
from servers import tool

CHECKS_COUNT = 54


class Tools:
    """On one lane and on four: the classes below."""

    @classmethod
    def setUpClass(cls):
        cls.server = Documents(cls.lanes)
        cls.directory = tempfile.TemporaryDirectory(prefix="libmemcached-")

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()
        cls.server.end()

    def run_tool(self, name, *arguments):
        command = [tool(name, "libmemcached-tools"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=self.directory.name)

    def ask(self, name, *arguments):
        """What a tool of the library prints, and whether it says that all went well."""
        done = self.run_tool(name, f"--servers=127.0.0.1:{self.server.memcached_port}", *arguments)
        return done.stdout.strip(), done.returncode == 0

    def test_memccapable(self):
        done = self.run_tool("memccapable", "-h", "127.0.0.1", "-p", str(self.server.memcached_port), "-v")
        self.assertEqual((done.stdout.count("[pass]"), done.returncode), (CHECKS_COUNT, 0), done.stdout + done.stderr)

    def test_files_go_and_come_back(self):
        small, large = pathlib.Path(self.directory.name, "small"), pathlib.Path(self.directory.name, "large")
        small.write_text("a line\n")
        large.write_text("0123456789" * 100_000)
        for protocol in ([], ["--binary"]):
            self.assertEqual(self.ask("memcflush", *protocol), ("", True))
            self.assertEqual(self.ask("memccp", *protocol, "small", "large"), ("", True))
            self.assertEqual(self.ask("memccat", *protocol, "small"), ("a line", True))
            self.assertEqual(self.ask("memccat", *protocol, "large"), (large.read_text(), True))
            self.assertEqual(self.ask("memcexist", *protocol, "small")[1], True)
            self.assertEqual(self.ask("memctouch", *protocol, "--expire=100", "small")[1], True)
            self.assertEqual(self.ask("memcrm", *protocol, "small")[1], True)
            self.assertEqual(self.ask("memcexist", *protocol, "small")[1], False)
            self.assertEqual(self.ask("memccat", *protocol, "small"), ("", False))

    def test_statistics(self):
        self.assertEqual(self.ask("memcping"), ("", True))
        for protocol in ([], ["--binary"]):
            said, is_well = self.ask("memcstat", *protocol)
            self.assertTrue(is_well)
            self.assertIn(f"threads: {self.lanes}", said)

    def test_load(self):
        """memcaslap sets, gets and compares what comes back."""
        for protocol in ([], ["--binary"]):
            done = self.run_tool("memcaslap", "-s", f"127.0.0.1:{self.server.memcached_port}", *protocol,
                                 "-T", "1", "-c", "4", "-x", "2000", "-v", "1")
            lines = [line.strip() for line in done.stdout.splitlines()]
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            for line in ("cmd_get: 1800", "cmd_set: 200", "get_misses: 0", "verify_misses: 0", "verify_failed: 0"):
                self.assertIn(line, lines)


class ToolsOnOneLane(Tools, unittest.TestCase):
    lanes = 1


class ToolsOnFourLanes(Tools, unittest.TestCase):
    lanes = 4
