#!/usr/bin/env python3
"""Clients that others wrote, against the built server: each file test_*.py here is one client or tool.

Files run beside each other, each in a process of its own. A test reaches the server under test, one for each file, through
`server()`. It runs on a free port of 127.0.0.1 with two lanes, so that commands cross lanes, and is ended by its pid whatever
happens. A test that restarts its server or counts what arrives has one of its own (restartable.py). A client whose compiler or interpreter is missing or too old is skipped, and so is memtier_benchmark where it is missing: the last
lines say so with the reason and the count, and so does the end of `make test`. redis-cli, redis-server, memcached, libmemcached's tools and the packages of requirements.txt must be there. Run
by `make test-clients`; one file alone with `run.py redis_py`. With `--io uring` in front all servers are over io_uring (`make
test-clients-uring`); where the kernel has none, the server says so and nothing is tested.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "bench")]

from servers import PORT_END, PORT_MIN, Server, Unavailable, expresslane_command  # noqa: E402

LANES_COUNT = 2
# Files at a time: most of them wait most of the time. Those that take longest begin first.
JOBS_COUNT = 4
LONGEST = ("pubsub", "persistence", "following_bad_primaries", "replication", "migrate", "following", "couchbase")
_running = []


def server():
    """The server under test, started at the first call."""
    if not _running:
        _running.append(Server("expresslane", expresslane_command(lanes=LANES_COUNT)))
    return _running[0]


def note_skipped(lines):
    """Leaves what was skipped where `make test` looks for it at its end."""
    directory = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent.parent / "target")) / "skipped"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "clients").write_text("".join(f"{line}\n" for line in lines))


def arguments():
    parser = argparse.ArgumentParser(description="Clients that others wrote, against the built server.")
    parser.add_argument("--io", choices=("epoll", "uring"), help="how bytes reach the servers")
    parser.add_argument("name", nargs="?", help="one file alone: redis_py is test_redis_py.py")
    return parser.parse_args()


def run_file(name, ports):
    """Runs one file in a process of its own, and gives its exit code and what it said."""
    done = subprocess.run(
        [sys.executable, __file__, name], env={**os.environ, "TEST_PORTS": f"{ports.start}-{ports.stop}"}, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout


def run_all():
    """Runs all files, says what each has come to, and all that a file said that failed. Gives what was skipped, and whether all is well."""
    names = {path.stem.removeprefix("test_") for path in HERE.glob("test_*.py")}
    ordered = [*LONGEST, *sorted(names.difference(LONGEST))]
    share = (PORT_END - PORT_MIN) // len(ordered)
    counts, skipped, is_well = {"passed": 0, "failed": 0, "skipped": 0}, [], True
    with concurrent.futures.ThreadPoolExecutor(JOBS_COUNT) as pool:
        ports = (range(first, first + share) for first in range(PORT_MIN, PORT_END - share + 1, share))
        runs = {pool.submit(run_file, name, own): name for name, own in zip(ordered, ports)}
        for run in concurrent.futures.as_completed(runs):
            name, (code, said) = runs[run], run.result()
            said_last = re.search(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", said, re.M)
            if code != 0 or said_last is None:
                is_well = False
                print(f"-- {name} ended with {code}:\n{said}")
            else:
                print(f"{name}: {said_last[0]}", flush=True)
            for key, count in zip(counts, said_last.groups() if said_last else ()):
                counts[key] += int(count)
            skipped += re.findall(r"^skipped: (.*)$", said, re.M)
    print(", ".join(f"{count} {key}" for key, count in counts.items()))
    return skipped, is_well


def main():
    asked = arguments()
    if asked.io is not None:
        # Each server is started with it, whichever test does that.
        os.environ["EXPRESSLANE_IO"] = asked.io
    # The tests import this file as a module; they must see the server that this run starts.
    sys.modules["run"] = sys.modules["__main__"]
    try:
        server()
    except Unavailable as problem:
        sys.exit(f"test-clients: {problem}")
    if asked.name is None:
        # It can be had, and each file starts its own.
        server().end()
        skipped, is_well = run_all()
        if asked.io is None:
            note_skipped(skipped)
        sys.exit(0 if is_well else 1)
    tests = unittest.defaultTestLoader.discover(str(HERE), pattern=f"test_{asked.name}.py")
    try:
        result = unittest.TextTestRunner(verbosity=1).run(tests)
        if not result.wasSuccessful():
            print(f"what the server said:\n{server().tail()}", file=sys.stderr)
    finally:
        code = server().end()
    failed = len(result.failures) + len(result.errors)
    skipped = [f"{test.id().partition('.')[0]}: {reason}" for test, reason in result.skipped]
    for line in skipped:
        print(f"skipped: {line}")
    print(f"{result.testsRun - failed - len(skipped)} passed, {failed} failed, {len(skipped)} skipped")
    if code != 0:
        print(f"the server ended with {code} when it was asked to end; it must be 0", file=sys.stderr)
    sys.exit(0 if result.wasSuccessful() and result.testsRun > 0 and code == 0 else 1)


if __name__ == "__main__":
    main()
