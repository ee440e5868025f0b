#!/usr/bin/env python3
"""How often each branch of the release programs is taken under load: written down for the compiler, which puts what is seldom
taken out of the way of what is often taken (`make profile`, docs/profile.md).

The programs must have been built to count (`-Cprofile-generate`). They are run as users run them: a server under every kind of
client, backend and protocol it has, each with so many requests that none outweighs all the others; the load itself; and the
programs whose instructions bench/instructions.py counts. A function that hardly ran is left out, so that it is compiled as if
nothing were known of it, not as one that nobody needs.

    bench/pgo.py FILE
"""

import contextlib
import os
import pathlib
import random
import socket
import subprocess
import sys
import tempfile

import loading
from servers import Server, Unavailable, built, expresslane_command, free_port, request, tool

KEYS_COUNT = 10_000
# GET above all, as in most uses.
MIX = "get:8,set:4,mget10:1,del:1"
# Connections, requests that each sends at once, and requests in all: turns of one command, of a few, and of hundreds.
LOADS = [(1, 1, 40_000), (4, 1, 80_000), (50, 1, 100_000), (50, 16, 400_000)]
# No part of a function that is left out ran so often.
TAKEN_MIN = 1000
# What is seldom asked for is carried out so often that it is not left out.
ROUNDS = 2 * TAKEN_MIN


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    try:
        merge = profdata()
        with tempfile.TemporaryDirectory(prefix="bench-pgo-") as folder:
            os.environ["LLVM_PROFILE_FILE"] = folder + "/%m-%p.profraw"
            servers()
            examples()
            counts = sorted(pathlib.Path(folder).iterdir())
            if not counts:
                raise Unavailable("the programs count nothing: `make profile` builds them so that they do")
            text = folder + "/text"
            subprocess.run([merge, "merge", "--text", "--output", text, *counts], check=True)
            pathlib.Path(text).write_text(known(pathlib.Path(text).read_text()))
            subprocess.run([merge, "merge", "--output", sys.argv[1], text], check=True)
    except (Unavailable, loading.Failed) as problem:
        sys.exit(f"profile: {problem}")
    print(f"{sys.argv[1]}: {pathlib.Path(sys.argv[1]).stat().st_size:,} bytes, of {len(counts)} runs")


def profdata():
    """The program that merges counts; it must be the compiler's own, whose format it reads."""
    root = pathlib.Path(printed(tool("rustc", "rustup"), "--print", "sysroot").strip())
    found = sorted(root.glob("lib/rustlib/*/bin/llvm-profdata"))
    if not found:
        raise Unavailable("llvm-profdata is missing: rustup component add llvm-tools")
    return found[0]


def known(profile):
    """The functions of a profile that ran. Each is its name, a hash, a count of counters, and those, line by line among comments."""
    kept = [":ir"]
    for function in profile.split("\n\n"):
        lines = [line for line in function.splitlines() if line and line[0] not in "#:"]
        if lines and max(map(int, lines[3:3 + int(lines[2])])) >= TAKEN_MIN:
            kept += [*lines, ""]
    return "\n".join(kept)


def servers():
    """Lanes under load: alone, beside others that own some of the keys, over io_uring, short of memory, in every protocol."""
    for io in ("epoll", "uring"):
        with serving("--io", io) as server:
            redis(server.port)
            redis(server.port, protocol="resp3")
            # Some thousand bytes, and what no single receive takes.
            load(server.port, 8, 1, 10_000, keys=1000, preload=True, operations="get,set", value_size=5000)
            load(server.port, 8, 1, 1_000, keys=100, preload=True, operations="get,set", value_size=200_000)
            commands(server.port)
    with serving(lanes=2) as server:
        redis(server.port)
        commands(server.port)
    with serving("--maxmemory", "24mb", "--maxmemory-policy", "allkeys-lru") as server:
        load(server.port, 50, 16, 400_000, keys=200_000, operations="set:4,get:1")
    with serving("--appendonly", "yes") as server:
        load(server.port, 50, 1, 40_000, operations="set:4,get:1")
    protocols = {"memcached": "--memcached", "memcached-binary": "--memcached", "couchbase": "--couchbase",
                 "aerospike": "--aerospike"}
    for protocol, flag in protocols.items():
        port = free_port(2)
        with serving(flag, str(port)):
            for connections, pipeline, count in LOADS:
                # Aerospike's clients have one request under way on a connection.
                if protocol != "aerospike" or pipeline == 1:
                    load(port, connections, pipeline, count // 2, protocol=protocol, operations="get:2,set:1", preload=True)


@contextlib.contextmanager
def serving(*flags, lanes=1):
    """A server with these flags; it must end well, for only then it writes down what it has counted."""
    with Server("expresslane", expresslane_command(lanes, extra=flags)) as server:
        yield server
        code = server.end()
    if code != 0:
        raise loading.Failed(f"the server with {' '.join(flags)} ended with {code}")


def redis(port, **options):
    for connections, pipeline, count in LOADS:
        load(port, connections, pipeline, count, operations=MIX, preload=True, **options)
        load(port, connections, pipeline, count // 8, operations="incr", key_prefix="counter:")


def load(port, connections, pipeline, count, keys=KEYS_COUNT, **options):
    run = loading.load(port, connections=connections, pipeline=pipeline, requests=count, keys=keys, **options)
    if run["whole"]["errors"]:
        raise loading.Failed(f"{run['whole']['errors']} requests were answered with errors: {options}")


def commands(port):
    """What `bench run` does not send: each round of these on keys of its own, in one pipeline."""
    chance = random.Random(1)
    with socket.create_connection(("127.0.0.1", port)) as client, client.makefile("rb") as replies:
        for number in range(ROUNDS):
            key, other = f"p:{chance.randrange(1000)}", f"q:{chance.randrange(1000)}"
            lines = [
                ["SET", key, number, "EX", 100], ["GETEX", key, "PERSIST"], ["APPEND", key, "text"], ["STRLEN", key],
                ["SETRANGE", key, 3, "more"], ["GETRANGE", key, 0, -1], ["EXPIRE", key, 50], ["TTL", key], ["TYPE", key],
                ["SET", key, "v", "NX"], ["SETNX", other, 1], ["INCRBY", f"n:{number % 50}", 3], ["DECR", f"n:{number % 50}"],
                ["INCRBYFLOAT", f"f:{number % 50}", "0.5"], ["MSET", key, 1, other, 2], ["EXISTS", key, other], ["MGET", key, other],
                ["RENAME", key, other], ["COPY", other, key], ["TOUCH", key], ["GETSET", key, "w"], ["GETDEL", other],
                ["SETBIT", "bits", number, 1], ["BITCOUNT", "bits"], ["SCAN", 0], ["PING"], ["ECHO", "hello"],
                ["MULTI"], ["SET", key, 1], ["GET", key], ["INCR", key], ["EXEC"],
                ["EVAL", "return redis.call('get', KEYS[1])", 1, key], ["PSETEX", other, 1, "gone"], ["UNLINK", key],
                ["GET", "nothing"], ["OBJECT", "ENCODING", other],
            ]
            client.sendall(b"".join(request(*line) for line in lines))
            for line in lines:
                reply(replies, line)


def reply(replies, line):
    """Reads one reply to its end; none of these commands may be answered with an error."""
    head = replies.readline()
    kind, rest = head[:1], head[1:].strip()
    if kind in b"-" or not head:
        raise loading.Failed(f"{line} was answered with {head!r}")
    if kind == b"$" and int(rest) >= 0:
        replies.read(int(rest) + 2)
    if kind == b"*":
        for _ in range(int(rest)):
            reply(replies, line)


def examples():
    """What bench/instructions.py counts, laid out as what it stands for."""
    dialects = ["", "memcached-", "memcached-binary-", "aerospike-"]
    for kind in [dialect + verb for dialect in dialects for verb in ("get", "set")] + ["single-get", "incr"]:
        printed(built("examples/instructions"), kind, "100000")
    for kind in ("direct", "forwarded"):
        printed(built("examples/instructions"), kind, "100")
    printed(built("examples/cost"), "engine", "16", "100000")
    printed(built("examples/cost"), "recording", "single", "100000")


def printed(*command):
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise loading.Failed(f"{' '.join(command)}\n{run.stderr.strip()}")
    return run.stdout


if __name__ == "__main__":
    main()
