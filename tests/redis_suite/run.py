#!/usr/bin/env python3
"""Redis' own test suite, in external mode, against the built server with two lanes. Run by `make test-redis-suite`.

Only the files whose commands are served are run (FILES), each in a process of its own against a server of its own. Every
test that fails must be listed in expected.txt with its reason, and every listed test must still fail, so that the list
is always what is missing. `run.py unit/expire` runs one file alone. The suite's output is kept in target/redis-suite/logs.
"""

import collections
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), str(ROOT / "bench")]

import source  # noqa: E402
import servers  # noqa: E402

LANES_COUNT = 2
FILE_SECONDS_MAX = 300
FILES = tuple(f"unit/{name}" for name in (
    "type/string", "type/incr", "bitops", "bitfield", "keyspace", "scan", "expire", "multi", "protocol", "info", "info-command",
    "introspection", "introspection-2", "slowlog", "latency-monitor", "pause", "limits", "quit", "other", "pubsub", "pubsubshard",
    "tracking", "acl", "acl-v2", "functions"))
# The suite keeps these for servers that it starts itself. All they need is a server of their own that obeys CONFIG SET,
# and every file has that here, so the mark is taken off.
UNMARKED = frozenset(("unit/info", "unit/limits", "unit/pubsubshard", "unit/acl", "unit/acl-v2"))
MARK = "external:skip"
# But where they start it with what no CONFIG SET changes: users of its own, in a file or among the settings.
OWN_START = ('"aclfile"', "overrides {user")
# Tests that need gigabytes are left out, and encodings are an inner matter.
TAGS = "-large-memory"
# One has a second server follow the first, and here they are one. The others wait for what is never said: of keys what a script
# declares and does not read, and what is one table in Redis and a share of it on each lane here. One sets maxmemory so closely that what clients hold decides.
SKIPPED = ("/^(Keyspace notifications|Tracking only occurs for scripts|Server is able to evacuate enough keys|"
           "setup replication for following tests|Tracking invalidation message of eviction keys should be before response)")

# Those about strings, keys and what goes around them; the others came later.
FIRST = tuple(f"unit/{name}" for name in ("type/string", "type/incr", "keyspace", "scan", "expire", "multi", "protocol", "info", "introspection"))

# What a listed test may wait for: other data types.
TYPES = frozenset(f"needs {name}" for name in (
    "lists", "sets", "hashes", "sorted sets", "streams", "hyperloglogs"))
# Any other difference is said in words behind this.
DIFFERS = "differs: "
# A test that fails only in the wake of a listed one. It is run again without that one, and must pass.
ALONE = "alone: "

Outcome = collections.namedtuple("Outcome", "file name passed")


def expected():
    """expected.txt as {(file, name): reason}."""
    listed = {}
    for number, line in enumerate((HERE / "expected.txt").read_text().splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        file, rest = line.split(" | ", 1)
        name, reason = rest.rsplit(" | ", 1)
        known = reason in TYPES or reason.startswith((DIFFERS, ALONE))
        if not known or file not in FILES or (file, name) in listed:
            sys.exit(f"expected.txt:{number}: an unknown reason, an unknown file, or a test listed twice: {line}")
        listed[file, name] = reason
    return listed


def free_base():
    """A port with free ones below and above it, outside the range from which the kernel takes ports for clients."""
    for base in range(21111, 32000, 211):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", base - 32))
                return base
            except OSError:
                continue
    sys.exit("test-redis-suite: no free port between 21079 and 32000")


class Broken(Exception):
    """A file of the suite that did not come to its end."""


def play(suite, file, logs, only=()):
    """Runs one file, or only some of its tests, against a fresh server. Returns an Outcome for each test."""
    log = logs / (file.replace("/", "-") + ("-alone" if only else "") + ".log")
    if file in UNMARKED:
        tests = suite / "tests" / f"{file}.tcl"
        lines = tests.read_text().splitlines(keepends=True)
        tests.write_text("".join(line if any(word in line for word in OWN_START) else line.replace(MARK, "") for line in lines))
    served = servers.expresslane_command(lanes=LANES_COUNT, extra=("--enable-debug-command", "yes"))
    with servers.Server("expresslane", served) as server, open(log, "w+b") as output:
        command = [
            *("./runtest", "--host", "127.0.0.1", "--port", str(server.port), "--single", file, "--durable"),
            *("--ignore-encoding", "--tags", TAGS, "--skiptest", SKIPPED, "--baseport", str(free_base())),
            *(part for name in only for part in ("--only", name)),
        ]
        try:
            subprocess.run(command, cwd=suite, stdin=subprocess.DEVNULL, stdout=output, stderr=output, timeout=FILE_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            raise Broken(f"{file} was not done after {FILE_SECONDS_MAX} s: see {log}") from None
        if server.process.poll() is not None:
            raise Broken(f"the server ended with {server.process.returncode} during {file}:\n{server.tail()}")
        output.seek(0)
        text = re.sub(r"\x1b\[[0-9;]*m", "", output.read().decode(errors="replace"))
        if f"done]: {file} " not in text or "[exception]" in text:
            raise Broken(f"{file} did not come to its end: see {log}")
    # The suite repeats its failures behind three stars at the end; those lines do not begin with a bracket.
    passed = [Outcome(file, name, True) for name in re.findall(r"^\[ok\]: (.*) \(\d+ ms\)$", text, re.M)]
    failed = [Outcome(file, name, False) for name in re.findall(rf"^\[err\]: (.*) in tests/{file}\.tcl$", text, re.M)]
    return passed + failed


def share(title, outcomes):
    """Prints how many there are and how many passed, and returns both and the percentage."""
    passed = sum(outcome.passed for outcome in outcomes)
    percent = f"{100 * passed / len(outcomes) if outcomes else 100:.1f} %"
    print(f"{title}: {len(outcomes)}, passed: {passed} ({percent})")
    return len(outcomes), passed, percent


def main():
    listed = expected()
    files = tuple(sys.argv[1:]) or FILES
    if unknown := set(files) - set(FILES):
        sys.exit(f"test-redis-suite: {' '.join(sorted(unknown))} is not among: {' '.join(FILES)}")
    if shutil.which("tclsh") is None:
        sys.exit("test-redis-suite: tclsh is missing: run 'make setup', or apt-get install tcl")
    directory = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve() / "redis-suite"
    logs = directory / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    outcomes, wrong = [], []
    try:
        suite = source.suite(directory)
        for file in files:
            played = play(suite, file, logs)
            again = {o.name for o in played if not o.passed and listed.get((file, o.name), "").startswith(ALONE)}
            if again:
                played = [o for o in played if o.name not in again] + play(suite, file, logs, sorted(again))
                wrong += [f"{file}: {name!r} is to be run alone, and did not run" for name in again - {o.name for o in played}]
            print(f"  {file:20} {len(played):4} tests, {sum(o.passed for o in played):4} passed", flush=True)
            outcomes += played
    except (source.Unavailable, servers.Unavailable, Broken) as problem:
        sys.exit(f"test-redis-suite: {problem}")

    failed = {(o.file, o.name) for o in outcomes if not o.passed}
    seen = {(o.file, o.name) for o in outcomes}
    for file, name in sorted(failed):
        if listed.get((file, name), ALONE).startswith(ALONE):
            wrong.append(f"{file}: {name!r} fails: mend it, or list it with its reason")
    for (file, name), reason in listed.items():
        if file in files and (file, name) not in seen:
            wrong.append(f"{file}: {name!r} is listed and did not run: strike it out")
        elif file in files and (file, name) not in failed and not reason.startswith(ALONE):
            wrong.append(f"{file}: {name!r} is listed and passes now: strike it out")

    print("failures that are expected, by reason:")
    counts = collections.Counter(listed[key].partition(":")[0] for key in failed & listed.keys())
    manual = (ROOT / "docs/compatibility.md").read_text()
    for reason, count in counts.most_common():
        print(f"  {count:4} {reason}")
        if files == FILES and f"| {reason} | {count} |" not in manual:
            wrong.append(f"docs/compatibility.md has another number for: {reason}, {count}")
    served = [o for o in outcomes if o.passed or listed.get((o.file, o.name)) not in TYPES]
    total, passed, _ = share("all tests", outcomes)
    sentences = [f"Of {total} tests {passed} pass."]
    total, passed, percent = share("tests that need no other data type", served)
    sentences.append(f"{total} need no other data type: {passed} of them pass, {percent}.")
    total, passed, percent = share("of these in the first files alone", [o for o in served if o.file in FIRST])
    sentences.append(f"{total} of these are in the first nine: {passed} of them pass, {percent}.")
    if files == FILES:
        text = " ".join(manual.split())
        wrong += [f"docs/compatibility.md does not say: {sentence}" for sentence in sentences if sentence not in text]
    for line in wrong:
        print(line, file=sys.stderr)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
