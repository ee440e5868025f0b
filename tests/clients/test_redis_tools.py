"""redis-cli and redis-benchmark, as Debian ships them (package redis-tools)."""

import csv
import subprocess
import unittest

from run import server
from servers import tool


def cli(*arguments, stdin=None):
    """What redis-cli prints for one command, or for the commands on stdin."""
    command = [tool("redis-cli", "redis-tools"), "-p", str(server().port), *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=True, timeout=30).stdout


class RedisCli(unittest.TestCase):
    def test_a_value_comes_back(self):
        self.assertEqual(cli("SET", "cli:a", "one two"), "OK\n")
        self.assertEqual(cli("GET", "cli:a"), "one two\n")
        self.assertEqual(cli("DEL", "cli:a"), "1\n")
        self.assertEqual(cli("GET", "cli:a"), "\n")

    def test_resp3(self):
        self.assertIn("proto", cli("-3", "HELLO", "3"))

    def test_a_transaction_over_lanes(self):
        got = cli(stdin="MULTI\nMSET cli:x 1 cli:y 2 cli:z 3\nMGET cli:x cli:y cli:z\nEXEC\n")
        self.assertEqual(got.split(), ["OK", "QUEUED", "QUEUED", "OK", "1", "2", "3"])

    def test_an_error_is_an_error(self):
        self.assertIn("ERR unknown command 'NOSUCH'", cli("NOSUCH"))
        self.assertIn("ERR wrong number of arguments for 'get' command", cli("GET"))

    def test_help_shows_arguments(self):
        """redis-cli makes them of COMMAND DOCS, and so the hints behind what is typed."""
        expiry = "EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds|KEEPTTL"
        self.assertIn(f"key value [NX|XX] [GET] [{expiry}]", cli("help", "set"))
        self.assertIn("key value [key value ...]", cli("help", "mset"))
        types = "TYPE NORMAL|MASTER|REPLICA|PUBSUB"
        self.assertIn(f"[{types}] [ID client-id [client-id ...]]", cli("help", "client", "list"))

    def test_mass_insertion(self):
        """`redis-cli --pipe` counts replies and waits for the echo of its last command."""
        commands = "".join(f"SET pipe:{n} {n}\r\n" for n in range(10_000))
        got = cli("--pipe", stdin=commands)
        self.assertIn("errors: 0, replies: 10000", got)


class RedisBenchmark(unittest.TestCase):
    def run_tests(self, *arguments):
        command = [tool("redis-benchmark", "redis-tools"), "-p", str(server().port), "--csv", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
        return {row[0]: float(row[1]) for row in list(csv.reader(done.stdout.splitlines()))[1:]}

    def test_the_string_commands(self):
        for pipeline in ("1", "16", "500"):
            rates = self.run_tests("-t", "ping,set,get,incr,mset", "-n", "5000", "-r", "1000", "-P", pipeline)
            self.assertEqual(len(rates), 6, rates)
            self.assertTrue(all(rate > 0 for rate in rates.values()), rates)

    def test_large_values(self):
        rates = self.run_tests("-t", "set,get", "-n", "200", "-d", "300000", "-P", "4")
        self.assertEqual(len(rates), 2, rates)
