"""A server of its own for a test that restarts it or reads its counters, and programs of other languages that are
clients of it. Such a program gets the shared port and a lane's port, and says what it needs on its standard output:

    restart          the server is ended and started again on the same ports, then the program reads a line
    begin, end       between these two its requests must have gone straight to the lanes that own their keys
    any other line   what it has checked
"""

import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import threading
import unittest

import redis
from pymemcache.client.base import Client as TextClient

from servers import Server, expresslane_command, free_port

LANES_COUNT = 2
DIRECT_PERMILLE_MIN = 999
PROGRAM_SECONDS_MAX = 60
BUILD_SECONDS_MAX = 300
HERE = pathlib.Path(__file__).resolve().parent


class Restartable:
    def __init__(self, lanes=LANES_COUNT, extra=()):
        self.port = free_port()
        self.arguments = expresslane_command(lanes=lanes, extra=extra)(self.port, None)
        self.server = self._start()

    def _start(self):
        return Server("expresslane", lambda *_: self.arguments, port=self.port)

    def restart(self):
        """Ends the server, its data with it, and starts it on the same ports."""
        self.end()
        self.server = self._start()

    def end(self):
        code = self.server.end()
        if code != 0:
            raise AssertionError(f"the server ended with {code} when it was asked to end; it must be 0")

    def lane_ports(self):
        with contextlib.closing(redis.Redis(port=self.port)) as client:
            return sorted(part[2][1] for part in client.execute_command("CLUSTER SLOTS"))

    def counters(self):
        """Commands by how they reached their lane, summed over the lanes."""
        with contextlib.closing(redis.Redis(port=self.port)) as client:
            lanes = [lane for name, lane in client.info("lanes").items() if name.startswith("lane")]
        if len(lanes) != LANES_COUNT:
            raise AssertionError(f"INFO lanes on the shared port shows {len(lanes)} of {LANES_COUNT} lanes")
        return {name: sum(lane[name] for lane in lanes) for name in ("direct", "forwarded", "moved")}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()


class Documents(Restartable):
    """One that serves memcached's clients too."""

    def __init__(self, lanes, extra=()):
        self.memcached_port = free_port()
        super().__init__(lanes, ("--memcached", str(self.memcached_port), *extra))


class Nodes(Restartable):
    """One that serves Couchbase's clients, each lane as a node, and memcached's."""

    def __init__(self, lanes, extra=(), lanes_max=None, password=None):
        self.lanes, self.password = lanes, password
        self.kv_port, self.management_port = free_port(lanes_max or lanes), free_port(lanes_max or lanes)
        self.memcached_port = free_port()
        super().__init__(lanes, (
            "--couchbase", str(self.kv_port), "--couchbase-management", str(self.management_port),
            "--memcached", str(self.memcached_port), *extra))

    def restart(self, lanes=None):
        """With so many lanes from now on; on the same ports, as far as they have them."""
        if lanes is not None:
            self.lanes = lanes
            for flag, value in (("--lanes", lanes), ("--lane-ports", free_port(lanes))):
                self.arguments[self.arguments.index(flag) + 1] = str(value)
        super().restart()

    def redis(self):
        return contextlib.closing(redis.Redis(port=self.port, password=self.password))

    def counters(self):
        """Commands of Couchbase's clients by how they reached their lane, summed over the lanes."""
        with self.redis() as client:
            dialects, lanes = client.info("dialects"), client.info("lanes")
        of_lanes = [dialects[f"couchbase_lane{lane}"] for lane in range(self.lanes)]
        counters = {name: sum(lane[name] for lane in of_lanes) for name in ("direct", "forwarded")}
        return {**counters, "moved": sum(lanes[f"lane{lane}"]["moved"] for lane in range(self.lanes))}

    def errors(self):
        """The errors of Couchbase's clients, of all lanes: CODE:count;CODE:count …"""
        with self.redis() as client:
            dialects = client.info("dialects")
        return ";".join(str(dialects[f"couchbase_lane{lane}"]["errors"]) for lane in range(self.lanes))

    def text_client(self):
        return TextClient(("127.0.0.1", self.memcached_port), default_noreply=False, timeout=10)

    def flush(self):
        """Without documents from now on."""
        with contextlib.closing(self.text_client()) as client:
            client.flush_all()


class Records(Restartable):
    """One that serves Aerospike's clients too, each lane at a port of its own."""

    def __init__(self, lanes, extra=()):
        self.aerospike_port = free_port(lanes)
        super().__init__(lanes, ("--aerospike", str(self.aerospike_port), *extra))

    def dialect_counters(self, dialect):
        """Commands of a dialect by how they reached their lane, summed over the lanes."""
        with contextlib.closing(redis.Redis(port=self.port)) as client:
            lanes = [lane for name, lane in client.info("dialects").items() if name.startswith(f"{dialect}_lane")]
        return {name: sum(lane[name] for lane in lanes) for name in ("direct", "forwarded")}


def check_direct(before, after, requests_count_min=1000):
    """The requests between two counts went to the lanes that own their keys, and none was sent on."""
    direct, forwarded, moved = (after[name] - before[name] for name in ("direct", "forwarded", "moved"))
    total = direct + forwarded + moved
    if moved != 0 or total < requests_count_min or direct * 1000 < total * DIRECT_PERMILLE_MIN:
        raise AssertionError(f"{direct} requests were direct, {forwarded} forwarded, {moved} moved")


def toolchain(name, version_min=None):
    """The path of a compiler or interpreter; without it, or with one below `version_min`, the test is skipped."""
    path = shutil.which(name)
    if path is None:
        raise unittest.SkipTest(f"{name} is not installed: run 'make setup'")
    if version_min is not None:
        said = subprocess.run([path, "version" if name == "go" else "--version"], capture_output=True, text=True).stdout
        version = re.search(r"(\d+)\.(\d+)", said)
        if version is None or tuple(map(int, version.groups())) < version_min:
            wanted = ".".join(map(str, version_min))
            raise unittest.SkipTest(f"{name} {version[0] if version else 'of no known version'} is older than {wanted}")
    return path


def made(name):
    """Where a client program is made: below cargo's target directory, beside redis-py's environment."""
    directory = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent.parent / "target")).resolve() / "clients"
    directory.mkdir(parents=True, exist_ok=True)
    return directory / name


def build(command, directory, **environment):
    """Runs a step that makes a client program, and shows what it said when it fails."""
    done = subprocess.run(
        command, cwd=directory, env={**os.environ, **environment}, capture_output=True, text=True, timeout=BUILD_SECONDS_MAX)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")


def converse(command, wanted):
    """Runs a client program against a server of its own. It must end well and have checked all that is `wanted`."""
    with Restartable() as server:
        ports = [server.port, server.lane_ports()[-1]]
        program = subprocess.Popen(
            [*map(str, command), *map(str, ports)], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        # A program that hangs is ended by this, and then its output ends too.
        guard = threading.Timer(PROGRAM_SECONDS_MAX, program.kill)
        guard.start()
        checked, before = [], None
        try:
            for line in program.stdout:
                line = line.strip()
                if line == "restart":
                    server.restart()
                elif line == "begin":
                    before = server.counters()
                elif line == "end":
                    check_direct(before, server.counters())
                else:
                    checked.append(line)
                    continue
                program.stdin.write("\n")
                program.stdin.flush()
            code = program.wait()
        finally:
            guard.cancel()
            program.kill()
            program.wait()
            program.stdin.close()
            program.stdout.close()
        if code != 0 or checked != wanted:
            raise AssertionError(f"the program ended with {code}, and has checked {checked} of {wanted}")
