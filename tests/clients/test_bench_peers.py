"""The other way round: `bench run` against servers that others wrote. What was set must come back, from each, every time."""

import json
import subprocess
import unittest

from servers import Server, built, memcached_command, redis_command

COUNT = 20_000
LOAD = ["--connections", "10", "--keys", "500", "--requests", str(COUNT), "--duration", "1h", "--value-size", "10-3000",
        "--preload", "--verify", "--noisy", "--quiet", "--json"]


def bench(port, *flags):
    """What `bench run` counted over the whole run."""
    command = [built("expresslane"), "bench", "run", f"127.0.0.1:{port}", *LOAD, *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    # 3: done, with doubts about the machine.
    if done.returncode not in (0, 3):
        raise AssertionError(f"exit code {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)["runs"][0]["whole"]


class Peers(unittest.TestCase):
    def check(self, port, *flags):
        whole = bench(port, *flags)
        self.assertGreater(whole.pop("elapsed_ns"), 0)
        self.assertEqual(whole, {"answered": COUNT, "unanswered": 0, "errors": 0, "misses": 0, "wrong": 0}, flags)

    def test_redis(self):
        with Server("redis", redis_command) as server:
            for protocol in ("resp2", "resp3"):
                for pace in (["--pipeline", "16"], ["--rate", "20000"]):
                    self.check(server.port, "--protocol", protocol, "--operations", "get:3,set:2,mget5:1,ping:1", *pace)

    def test_memcached(self):
        with Server("memcached", memcached_command) as server:
            for pace in (["--pipeline", "16"], ["--rate", "20000"]):
                self.check(server.port, "--protocol", "memcached", "--operations", "get:3,set:2,mget5:1,ping:1", *pace)
            # What is deleted is missed by whoever asks next, and nobody is told a lie.
            whole = bench(server.port, "--protocol", "memcached", "--operations", "get:3,set:1,del:1")
            self.assertEqual((whole["answered"], whole["errors"], whole["wrong"]), (COUNT, 0, 0))
            self.assertGreater(whole["misses"], 0)
