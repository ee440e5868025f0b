#!/usr/bin/env python3
"""What a load costs: `expresslane bench run`, redis-benchmark and a bare client, against one server, interleaved.

The server is the floor (crates/load), which answers constants: nobody measured here waits for a database. Each load is pinned
to one core and the floor to another. What is compared is the CPU time of the load's process per request (rusage). The bare
client (crates/load, `bare`) sends a constant and counts bytes; below it no load over kernel sockets can go.

Then `bench run` keeps to a rate, and what it says of its own lateness and of its use of a core is printed.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import machine
from machine import spread
from servers import Server, Unavailable, built, floor_command, tool

CONNECTIONS_COUNT = 50
VALUE_SIZE = 100
# (name, pipeline, requests of a run at scale 1)
CELLS = [("P1", 1, 300_000), ("P16", 16, 3_000_000)]
# What the load promises: the largest ratio of its CPU time per request to another's.
BOUNDS = {"bare": 1.15, "redis-benchmark": 0.75}
# And at this rate: send lag (p99) and share of a core.
RATE = 50_000
LAG_US_MAX = 20
CORE_SHARE_MAX = 0.5


def main():
    options = arguments()
    facts = machine.describe()
    try:
        with Server("floor", floor_command(VALUE_SIZE), options.server_cpu) as server:
            rounds = [one(name, cell, server, number, options)
                      for number in range(options.rounds) for cell in CELLS for name in turned(number)]
            rates = [at_rate(server, options) for _ in range(options.rounds)]
    except Unavailable as problem:
        sys.exit(f"bench-load: {problem}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"machine": facts, "rounds": rounds, "rates": rates}, file, indent=1)
    over = show(facts, rounds, rates)
    if over and options.gate:
        sys.exit(1)


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=machine.NOISE, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10, help="interleaved rounds (default 10)")
    parser.add_argument("--scale", type=float, default=1.0, help="requests of a run, relative to the default")
    parser.add_argument("--seconds", type=float, default=3.0, help="length of a run at a rate (default 3)")
    parser.add_argument("--server-cpu", type=int, default=0)
    parser.add_argument("--load-cpu", type=int, default=1)
    parser.add_argument("--json", metavar="FILE", help="also write every figure of every round to FILE")
    parser.add_argument("--gate", action="store_true", help="end with 1 when a promise is not kept")
    return parser.parse_args()


def turned(number):
    """Each comes first, in the middle and last equally often."""
    names = ["bare", "redis-benchmark", "bench run"]
    turn = number % len(names)
    return names[turn:] + names[:turn]


def command(name, pipeline, count, port):
    if name == "bare":
        return [built("bare"), "--address", f"127.0.0.1:{port}", "--connections", str(CONNECTIONS_COUNT),
                "--pipeline", str(pipeline), "--value-size", str(VALUE_SIZE), "--requests", str(count)]
    if name == "redis-benchmark":
        return [tool("redis-benchmark", "redis-tools"), "-h", "127.0.0.1", "-p", str(port), "-c",
                str(CONNECTIONS_COUNT), "-P", str(pipeline), "-n", str(count), "-r", "10000", "--csv",
                "GET", "key:__rand_int__"]
    return bench(port, ["--pipeline", str(pipeline), "--requests", str(count), "--duration", "1h"])


def bench(port, flags):
    return [built("expresslane"), "bench", "run", f"127.0.0.1:{port}", "--connections", str(CONNECTIONS_COUNT),
            "--quiet", "--noisy", *flags]


def one(name, cell, server, number, options):
    cell_name, pipeline, requests = cell
    count = max(int(requests * options.scale), CONNECTIONS_COUNT * pipeline)
    words = [tool("taskset", "util-linux"), "-c", str(options.load_cpu), *command(name, pipeline, count, server.port)]
    before, span = server.cpu_ns(), machine.Span()
    child = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    problem = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    cpu = usage.ru_utime + usage.ru_stime
    around = span.end((server.cpu_ns() - before) / 1e9 + cpu)
    # Exit code 3 is done, with doubts: the load is the limit here, and says so.
    if child.returncode not in ((0, 3) if name == "bench run" else (0,)):
        raise SystemExit(f"{name} failed: {' '.join(words)}\n{problem}")
    return {"round": number, "cell": cell_name, "load": name, "cpu_us_per_request": cpu * 1e6 / count,
            "user_us_per_request": usage.ru_utime * 1e6 / count, **around}


def at_rate(server, options):
    """A run at a rate; its own account of itself."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        words = bench(server.port, ["--rate", str(RATE), "--duration", f"{options.seconds}s", "--warm-up", "0",
                                    "--cpus", str(options.load_cpu), "--json"])
        subprocess.run(words, stdout=file, stderr=subprocess.DEVNULL, check=False)
        file.seek(0)
        return json.load(file)


def show(facts, rounds, rates):
    """Prints the tables. Returns the promises that were not kept."""
    print(machine.headline(facts, f"{CONNECTIONS_COUNT} connections", f"{VALUE_SIZE} B values"))
    print("\n".join(machine.quietness(facts, rounds)))
    print(f"\n{'cell':<5} {'load':<16} {'CPU µs/request':<24} {'user µs':>8}  {'÷ bare':<22} {'÷ redis-benchmark':<22}")
    over = []
    for cell, _, _ in CELLS:
        costs = {}
        for row in (r for r in rounds if r["cell"] == cell):
            costs.setdefault(row["load"], []).append(row)
        for name in ("bare", "redis-benchmark", "bench run"):
            rows = costs[name]
            ratios = {peer: [a["cpu_us_per_request"] / b["cpu_us_per_request"] for a, b in zip(rows, costs[peer])]
                      for peer in BOUNDS if peer != name}
            user = statistics.median(row["user_us_per_request"] for row in rows)
            print(f"{cell:<5} {name:<16} {spread([r['cpu_us_per_request'] for r in rows]):<24} {user:>8.2f}  "
                  f"{spread(ratios.get('bare')):<22} {spread(ratios.get('redis-benchmark')):<22}".rstrip())
            for peer, bound in BOUNDS.items() if name == "bench run" else ():
                got = statistics.median(ratios[peer])
                if got > bound:
                    over.append(f"{cell}: {got:.2f} × {peer}, promised {bound:.2f}")
    lags = [rate["runs"][0]["send_lag_p99_ns"] / 1000 for rate in rates]
    shares = [max(rate["runs"][0]["thread_use"]) for rate in rates]
    print(f"\nat {RATE:,}/s: send lag p99 {spread(lags)} µs, share of a core {spread(shares)}")
    if statistics.median(lags) > LAG_US_MAX:
        over.append(f"send lag {statistics.median(lags):.0f} µs, promised {LAG_US_MAX}")
    if statistics.median(shares) > CORE_SHARE_MAX:
        over.append(f"{statistics.median(shares):.2f} of a core, promised {CORE_SHARE_MAX}")
    for line in over:
        print(f"over: {line}")
    return over


if __name__ == "__main__":
    main()
