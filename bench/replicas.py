#!/usr/bin/env python3
"""What a replica and files cost those who are served: redis-server and this server, each as the primary of a redis-server that follows it.

In each round a server is filled with keys. A client says GET once a millisecond and waits for each answer: while nothing else happens, then while a
replica gets its snapshot (a backup by `redis-cli --rdb`, which stores it and loads nothing, so that the replica's own work is small), then while
BGSAVE writes one. Then redis-benchmark says SET with a pipeline, without a replica, with a log (appendonly), and with a replica that follows, and the
CPU time of all the server's threads for each SET is taken. At last the server itself follows a redis-server with as many keys: how long it takes to
be in step, and its CPU time for each SET that it is told. Servers take turns and are started anew for each round.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time

import machine
import servers
from servers import Server, Unavailable

KEYS_COUNT, VALUE_SIZE, SETS_COUNT = 1_000_000, 100, 500_000
PAUSE_S, QUIET_S = 0.001, 3.0
QUANTILES = {"p50": 0.5, "p99": 0.99}
SECONDS_MAX = 120


def main():
    options = arguments()
    facts = machine.describe()
    commands = {"redis": servers.redis_command, "expresslane": servers.expresslane_command(1, ["--cpus", "0"])}
    rounds = []
    try:
        for number in range(options.rounds):
            for name in commands if number % 2 == 0 else reversed(commands):
                with Server(name, commands[name], 0 if name == "redis" else None) as server:
                    rounds.append({"round": number, "server": name, **measure(server, options)})
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
    except Unavailable as problem:
        sys.exit(f"bench-replicas: {problem}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"machine": facts, "rounds": rounds}, file, indent=1)
    show(facts, rounds, options)


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=machine.NOISE, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=4, help="interleaved rounds (default 4)")
    parser.add_argument("--keys", type=int, default=KEYS_COUNT, help=f"in the snapshot, of {VALUE_SIZE} bytes each (default {KEYS_COUNT:,})")
    parser.add_argument("--sets", type=int, default=SETS_COUNT, help=f"SETs of a run (default {SETS_COUNT:,})")
    parser.add_argument("--json", metavar="FILE", help="also write every figure of every round to FILE")
    return parser.parse_args()


def measure(server, options):
    ask(server.port, "CONFIG", "SET", "repl-diskless-sync-delay", "0")
    ask(server.port, "CONFIG", "SET", "client-output-buffer-limit", "replica 0 0 0")
    servers.load(server.port, servers.set_batches(0, options.keys, VALUE_SIZE))
    span, own = machine.Span(), sum(os.times()[:4])
    cpu_ns = server.cpu_ns()
    with tempfile.TemporaryDirectory() as directory:
        ends = time.monotonic() + QUIET_S
        found = {"alone": waits(server, lambda: time.monotonic() > ends)}
        command = [servers.tool("redis-cli", "redis-tools"), "-p", str(server.port), "--rdb", f"{directory}/backup.rdb"]
        began = time.monotonic()
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as backup:
            found["snapshot"] = waits(server, lambda: backup.poll() is not None)
        if backup.returncode != 0:
            raise Unavailable(f"redis-cli --rdb ended with {backup.returncode} against {server.name}")
        found["snapshot"]["took_s"] = time.monotonic() - began
        found["bgsave"] = waits(server, background_save(server))
        found["us_alone"] = microseconds_a_set(server, options)
        ask(server.port, "CONFIG", "SET", "appendonly", "yes")
        wait_until(lambda: b"aof_rewrite_in_progress:0" in ask(server.port, "INFO", "persistence"), "a log that has begun")
        found["us_logged"] = microseconds_a_set(server, options)
        ask(server.port, "CONFIG", "SET", "appendonly", "no")
        with Server("redis", servers.redis_command, None) as replica:
            ask(replica.port, "REPLICAOF", "127.0.0.1", str(server.port))
            wait_until(lambda: b"master_link_status:up" in ask(replica.port, "INFO", "replication"), "a replica that follows")
            found["us_followed"] = microseconds_a_set(server, options)
            wait_until_told(replica, offset(server, "master_repl_offset"))
            found["is_same"] = ask(server.port, "DBSIZE") == ask(replica.port, "DBSIZE")
        with Server("redis", servers.redis_command, None) as primary:
            found |= follow(server, primary, options)
    if not found["is_same"]:
        raise Unavailable(f"{server.name} and its replica do not hold the same number of keys")
    return found | span.end((server.cpu_ns() - cpu_ns) / 1e9 + server.reaped_seconds() + sum(os.times()[:4]) - own)


def follow(server, primary, options):
    """How long the server takes to be in step with a primary, in seconds, and what each SET costs it then, in microseconds."""
    ask(primary.port, "CONFIG", "SET", "repl-diskless-sync-delay", "0")
    ask(primary.port, "CONFIG", "SET", "client-output-buffer-limit", "replica 0 0 0")
    servers.load(primary.port, servers.set_batches(0, options.keys, VALUE_SIZE))
    began = time.monotonic()
    ask(server.port, "REPLICAOF", "127.0.0.1", str(primary.port))
    wait_until(lambda: b"master_link_status:up" in ask(server.port, "INFO", "replication"), "a replica that follows")
    took_s, cpu_ns = time.monotonic() - began, server.cpu_ns()
    say_sets(primary.port, options)
    wait_until_told(server, offset(primary, "master_repl_offset"))
    spent_us = (server.cpu_ns() - cpu_ns) / 1000
    if ask(server.port, "DBSIZE") != ask(primary.port, "DBSIZE"):
        raise Unavailable(f"{server.name} and its primary do not hold the same number of keys")
    return {"sync_s": took_s, "us_told": spent_us / options.sets}


def wait_until_told(replica, end):
    """Not by WAIT: it waits for what its own client has written, and the writes were another's."""
    wait_until(lambda: offset(replica, "slave_repl_offset") >= end, "a replica that has all")


def offset(server, name):
    lines = ask(server.port, "INFO", "replication").decode().split("\r\n")
    return int(next(line.partition(":")[2] for line in lines if line.startswith(f"{name}:")))


def waits(server, is_over):
    """What a client waits for its answers, in microseconds, until that is so."""
    times = []
    with socket.create_connection(("127.0.0.1", server.port), SECONDS_MAX) as polite:
        while not is_over():
            sent = time.perf_counter()
            polite.sendall(b"GET absent\r\n")
            if polite.recv(64) != b"$-1\r\n":
                raise Unavailable(f"{server.name} did not answer as expected")
            times.append((time.perf_counter() - sent) * 1e6)
            time.sleep(PAUSE_S)
    ordered = sorted(times) or [0.0]
    return {name: ordered[int(share * len(ordered))] for name, share in QUANTILES.items()} | {"max": ordered[-1]}


def background_save(server):
    """Has BGSAVE said in a moment, by another client, and tells whether it is over: seldom, for asking is work, too."""
    threading.Timer(0.1, ask, (server.port, "BGSAVE")).start()
    look = [time.monotonic() + 0.3]

    def is_over():
        if time.monotonic() < look[0]:
            return False
        look[0] = time.monotonic() + 0.05
        return b"rdb_bgsave_in_progress:0" in ask(server.port, "INFO", "persistence")

    return is_over


def microseconds_a_set(server, options):
    before = server.cpu_ns()
    say_sets(server.port, options)
    return (server.cpu_ns() - before) / 1000 / options.sets


def say_sets(port, options):
    load = [servers.tool("redis-benchmark", "redis-tools"), "-p", str(port), "-t", "set", "-n", str(options.sets), "-r", "10000",
            "-d", str(VALUE_SIZE), "-P", "16", "-q"]
    subprocess.run(["taskset", "-c", "1", *load], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True, timeout=SECONDS_MAX)


def ask(port, *words):
    with socket.create_connection(("127.0.0.1", port), SECONDS_MAX) as client:
        client.sendall(servers.request(*words))
        return client.recv(1 << 16)


def wait_until(condition, what):
    ends = time.monotonic() + SECONDS_MAX
    while not condition():
        if time.monotonic() > ends:
            raise Unavailable(f"{what} was not there after {SECONDS_MAX} s")
        time.sleep(0.05)


def show(facts, rounds, options):
    print(machine.headline(facts, f"{options.keys:,} keys of {VALUE_SIZE} B", f"{options.rounds} rounds"))
    print("\n".join(machine.quietness(facts, rounds)))
    print("\nanswers to a client: ms; the snapshot: s; CPU time: µs a SET at pipeline 16; median of the rounds (range)")
    for name in ("redis", "expresslane"):
        runs = [run for run in rounds if run["server"] == name]
        for phase in ("alone", "snapshot", "bgsave"):
            cells = [f"{key} {machine.spread([run[phase][key] / 1000 for run in runs])}" for key in (*QUANTILES, "max")]
            print(f"{name:<12} {phase:<9} " + "  ".join(cells))
        print(f"{name:<12} the snapshot took {machine.spread([run['snapshot']['took_s'] for run in runs])} s; a SET "
              f"{machine.spread([run['us_alone'] for run in runs])} µs, with a log {machine.spread([run['us_logged'] for run in runs])} µs, "
              f"with a replica {machine.spread([run['us_followed'] for run in runs])} µs; as a replica it is in step after "
              f"{machine.spread([run['sync_s'] for run in runs])} s, and a SET costs {machine.spread([run['us_told'] for run in runs])} µs")


if __name__ == "__main__":
    main()
