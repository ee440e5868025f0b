"""A server of its own for a test that restarts it or reads its counters, and programs of other languages that are
clients of it. Such a program is told where the server is (`addresses`), and says what it needs on its standard output:

    restart          the server is ended and started again on the same ports, then the program reads a line
    restart LANES    the same, with so many lanes from now on
    begin, end       between these two its requests must have gone straight to the lanes that own their keys
    direct?          whether they have since `begin`: the line that it reads is yes or no
    any other line   what it has checked
"""

import contextlib
import fcntl
import functools
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import threading
import unittest

import redis
from pymemcache.client.base import Client as TextClient

from servers import Server, expresslane_command, free_port

LANES_COUNT = 2
DIRECT_PERMILLE_MIN = 999
PROGRAM_SECONDS_MAX = 120
BUILD_SECONDS_MAX = 300
# From this version on Go fetches the version that go.mod names.
GO_VERSION_MIN = (1, 21)
# What ioredis 6 asks for.
NODE_VERSION_MIN = (20, 0)
# The language of the program in java/.
JAVA_VERSION_MIN = (17, 0)
HERE = pathlib.Path(__file__).resolve().parent


class Restartable:
    def __init__(self, lanes=LANES_COUNT, extra=()):
        self.lanes, self.port = lanes, free_port()
        self.arguments = expresslane_command(lanes=lanes, extra=extra)(self.port, None)
        self.server = self._start()

    def _start(self):
        return Server("expresslane", lambda *_: self.arguments, port=self.port)

    def restart(self, lanes=None):
        """Ends the server, its data with it, and starts it on the same ports; with so many lanes, if that is said."""
        if lanes is not None:
            self.lanes = lanes
            for flag, value in (("--lanes", lanes), ("--lane-ports", free_port(lanes))):
                self.arguments[self.arguments.index(flag) + 1] = str(value)
        self.end()
        self.server = self._start()

    def end(self):
        code = self.server.end()
        if code != 0:
            raise AssertionError(f"the server ended with {code} when it was asked to end; it must be 0")

    def addresses(self):
        """What a client program is told: the shared port and a lane's port."""
        return [self.port, self.lane_ports()[-1]]

    def lane_ports(self):
        with contextlib.closing(redis.Redis(port=self.port)) as client:
            return sorted(part[2][1] for part in client.execute_command("CLUSTER SLOTS"))

    def counters(self):
        """Commands by how they reached their lane, summed over the lanes."""
        with contextlib.closing(redis.Redis(port=self.port)) as client:
            lanes = [lane for name, lane in client.info("lanes").items() if name.startswith("lane")]
        if len(lanes) != self.lanes:
            raise AssertionError(f"INFO lanes on the shared port shows {len(lanes)} of {self.lanes} lanes")
        return {name: sum(lane[name] for lane in lanes) for name in ("direct", "forwarded", "moved")}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()


def settings_file(text):
    """A configuration file, until the test ends that holds it."""
    file = tempfile.NamedTemporaryFile("w", suffix=".toml")
    file.write(text)
    file.flush()
    return file


class Documents(Restartable):
    """One that serves memcached's clients too."""

    def __init__(self, lanes, extra=()):
        self.memcached_port = free_port()
        super().__init__(lanes, ("--memcached", str(self.memcached_port), *extra))


class Nodes(Restartable):
    """One that serves Couchbase's clients, each lane as a node, and memcached's."""

    def __init__(self, lanes, extra=(), lanes_max=None, password=None):
        self.password = password
        self.kv_port, self.management_port = free_port(lanes_max or lanes), free_port(lanes_max or lanes)
        self.memcached_port = free_port()
        super().__init__(lanes, (
            "--couchbase", str(self.kv_port), "--couchbase-management", str(self.management_port),
            "--memcached", str(self.memcached_port), *(("--requirepass", password) if password else ()), *extra))

    def addresses(self):
        return [self.kv_port, self.password or "any"]

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

    def __init__(self, lanes, extra=(), lanes_max=None, password=None):
        self.password = password
        self.aerospike_port = free_port(lanes_max or lanes)
        super().__init__(lanes, (
            "--aerospike", str(self.aerospike_port), *(("--requirepass", password) if password else ()), *extra))

    def addresses(self):
        return [self.aerospike_port, self.password or ""]

    def bytes_received(self):
        """Bytes that the lanes have received from all clients."""
        with contextlib.closing(redis.Redis(port=self.port, password=self.password)) as client:
            return client.info("stats")["total_net_input_bytes"]

    def counters(self):
        """Commands of Aerospike's clients by how they reached their lane, summed over the lanes."""
        with contextlib.closing(redis.Redis(port=self.port, password=self.password)) as client:
            dialects = client.info("dialects")
        lanes = [dialects[f"aerospike_lane{lane}"] for lane in range(self.lanes)]
        return {"moved": 0, **{name: sum(lane[name] for lane in lanes) for name in ("direct", "forwarded")}}


def check_direct(before, after, requests_count_min=1000):
    """The requests between two counts went to the lanes that own their keys, and none was sent on."""
    direct, forwarded, moved = (after[name] - before[name] for name in ("direct", "forwarded", "moved"))
    total = direct + forwarded + moved
    if moved != 0 or total < requests_count_min or direct * 1000 < total * DIRECT_PERMILLE_MIN:
        raise AssertionError(f"{direct} requests were direct, {forwarded} forwarded, {moved} moved")


def are_direct(before, after):
    """Whether none of the requests between two counts was sent on."""
    return all(after[name] == before[name] for name in ("forwarded", "moved"))


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


def one_at_a_time(make):
    """Whoever else makes the same, in a process beside this one, waits until it is made."""
    @functools.wraps(make)
    def alone(*arguments):
        with open(made(f"{make.__name__}.lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return make(*arguments)
    return alone


def build(command, directory, **environment):
    """Runs a step that makes a client program, and shows what it said when it fails."""
    done = subprocess.run(
        command, cwd=directory, env={**os.environ, **environment}, capture_output=True, text=True, timeout=BUILD_SECONDS_MAX)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")


def go_program(name):
    """Builds the program go/NAME with what go.sum names, and gives its path."""
    program = made(f"go-{name}")
    build([toolchain("go", GO_VERSION_MIN), "build", "-o", program, f"./{name}"], HERE / "go", GOTOOLCHAIN="auto")
    return program


def rust_program(name):
    """Builds the program of this package in rust/ with what Cargo.lock names, and gives its path."""
    target = made("rust")
    build([toolchain("cargo"), "build", "--quiet", "--locked", "--package", name, "--target-dir", target], HERE / "rust")
    return target / "debug" / name


@one_at_a_time
def jars():
    """Fetches what java/pom.xml names, and gives the directory where it is."""
    maven, directory, pom = toolchain("mvn"), made("jars"), HERE / "java/pom.xml"
    fetched = directory / "pom.xml"
    if not fetched.exists() or fetched.read_text() != pom.read_text():
        shutil.rmtree(directory, ignore_errors=True)
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={directory}"]
        build([maven, "--quiet", "--batch-mode", "--file", pom, *goal], HERE)
        shutil.copy(pom, fetched)
    return directory


def java_program(name):
    """Compiles java/NAME.java below the target directory, and gives the command that runs it."""
    java, javac, classes = toolchain("java"), toolchain("javac", JAVA_VERSION_MIN), made("classes")
    build([javac, "-cp", f"{jars()}/*", "-d", classes, HERE / f"java/{name}.java"], HERE)
    return [java, "-cp", f"{classes}:{jars()}/*", name]


@one_at_a_time
def node_program(name):
    """Installs what node/package-lock.json names below the target directory, and gives the command that runs node/NAME.js there."""
    node, npm = toolchain("node", NODE_VERSION_MIN), toolchain("npm")
    directory, lock = made("node"), HERE / "node/package-lock.json"
    installed = directory / "installed"
    shutil.copytree(HERE / "node", directory, dirs_exist_ok=True)
    if not installed.exists() or installed.read_text() != lock.read_text():
        build([npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], directory)
        installed.write_text(lock.read_text())
    return [node, directory / f"{name}.js"]


def converse(command, wanted, server=None, arguments=()):
    """Runs a client program against a server of its own, which ends with it; `arguments` stand behind the addresses. The program must
    end well and have checked all that is `wanted`."""
    with server or Restartable() as server:
        program = subprocess.Popen(
            [*map(str, command), *map(str, server.addresses()), *map(str, arguments)], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        # A program that hangs is ended by this, and then its output ends too.
        guard = threading.Timer(PROGRAM_SECONDS_MAX, program.kill)
        guard.start()
        checked, before = [], None
        try:
            for line in program.stdout:
                line, answer = line.strip(), ""
                if re.fullmatch(r"restart( \d+)?", line):
                    server.restart(*map(int, line.split()[1:]))
                elif line == "begin":
                    before = server.counters()
                elif line == "end":
                    check_direct(before, server.counters())
                elif line == "direct?":
                    answer = "yes" if are_direct(before, server.counters()) else "no"
                else:
                    checked.append(line)
                    continue
                program.stdin.write(f"{answer}\n")
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


class RecordsProgram:
    """The tests of a program of Aerospike's client in some language: on one lane and, with a password, on four, and on another number after a
    restart. Whoever is one gives `program()`, its command."""

    checks = ("values", "policies", "ends", "operations", "compression", "batches", "scans", "limits", "many", "other lanes")

    def check(self, lanes, lanes_then, password=None):
        server = Records(lanes, lanes_max=4, password=password)
        converse(self.program(), list(self.checks), server, [lanes_then])

    def test_on_one_lane(self):
        self.check(1, 4)

    def test_on_four_lanes(self):
        self.check(4, 3, "a long secret")
