#!/usr/bin/env python3
"""What a new client waits for its first answer while thousands connect, one after the other, and stay: this server and redis-server.

Each client connects, says PING and is answered before the next one comes. A server whose table of open files has no room left waits
for the kernel to make a larger one when the next client is let in, and so do all who are connected: that shows as a longest time of
many milliseconds, and at which client (docs/serving.md). Servers take turns and are started anew for each round.
"""

import argparse
import json
import os
import resource
import socket
import sys
import time

import machine
import servers
from servers import Server, Unavailable

CLIENTS_COUNT = 9_000
QUANTILES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}


def main():
    options = arguments()
    facts = machine.describe()
    commands = {
        "redis": servers.redis_command,
        "expresslane": servers.expresslane_command(1, ["--cpus", str(options.server_cpu)]),
    }
    rounds = []
    try:
        allow_files(options.clients)
        os.sched_setaffinity(0, {options.load_cpu})
        for number in range(options.rounds):
            names = list(commands) if number % 2 == 0 else list(reversed(commands))
            for name in names:
                with Server(name, commands[name], options.server_cpu) as server:
                    rounds.append({"round": number, "server": name, **connected(server, options)})
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
    except Unavailable as problem:
        sys.exit(f"bench-connect: {problem}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"machine": facts, "rounds": rounds}, file, indent=1)
    show(facts, rounds, options)


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=machine.NOISE, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=6, help="interleaved rounds (default 6)")
    parser.add_argument("--clients", type=int, default=CLIENTS_COUNT, help=f"default {CLIENTS_COUNT:,}")
    parser.add_argument("--server-cpu", type=int, default=0)
    parser.add_argument("--load-cpu", type=int, default=1)
    parser.add_argument("--json", metavar="FILE", help="also write every figure of every round to FILE")
    return parser.parse_args()


def allow_files(clients_count):
    """This process has one file open for each client. The servers inherit what it is allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = clients_count + 1100
    if soft < wanted:
        if hard != resource.RLIM_INFINITY and hard < wanted:
            raise Unavailable(f"{clients_count} clients need {wanted} open files and {hard} are allowed: "
                              f"say --clients {hard - 1100}")
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def connected(server, options):
    """Times to the first answer in microseconds: quantiles, and the longest with its client's number."""
    span, clients, times = machine.Span(), [], []
    cpu_ns, own = server.cpu_ns(), time.process_time()
    try:
        for _ in range(options.clients):
            began = time.perf_counter()
            client = socket.create_connection(("127.0.0.1", server.port), 10)
            clients.append(client)
            client.sendall(b"PING\r\n")
            answer = client.recv(64)
            times.append((time.perf_counter() - began) * 1e6)
            if answer != b"+PONG\r\n":
                raise Unavailable(f"{server.name} answered {answer!r} to client {len(clients)}")
    finally:
        for client in clients:
            client.close()
    around = span.end((server.cpu_ns() - cpu_ns) / 1e9 + time.process_time() - own)
    ordered = sorted(times)
    found = {name: ordered[int(share * len(ordered))] for name, share in QUANTILES.items()}
    return found | {"max": ordered[-1], "slowest": 1 + times.index(ordered[-1])} | around


def show(facts, rounds, options):
    print(machine.headline(facts, f"{options.clients:,} clients", f"{options.rounds} rounds"))
    print("\n".join(machine.quietness(facts, rounds)))
    print("\nto the first answer; µs, median of the rounds (range)")
    names = [*QUANTILES, "max"]
    print(f"{'':<13}" + "".join(f"{name:<28}" for name in names) + "slowest client")
    for name in ("redis", "expresslane"):
        runs = [run for run in rounds if run["server"] == name]
        line = f"{name:<13}" + "".join(f"{machine.spread([run[q] for run in runs], 0):<28}" for q in names)
        print(line + ", ".join(str(run["slowest"]) for run in runs))


if __name__ == "__main__":
    main()
