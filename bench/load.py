#!/usr/bin/env python3
"""What a load costs: `expresslane bench run`, redis-benchmark, memtier_benchmark and a bare client, interleaved.

The server is the floor (crates/load), which answers constants: nobody measured here waits for a database. Each load is pinned
to one core and the floor to another. What is compared is the CPU time of the load's process per request (rusage). The bare
client (crates/load, `bare`) sends a constant and counts bytes; below it no load over kernel sockets can go. memtier_benchmark, which
Debian does not package, is measured if it is in the path or named by --memtier, with one thread and GETs alone.

Then `bench run` keeps to a rate, and what it says of its own lateness and of its use of a core is printed.
"""

import argparse
import json
import os
import shutil
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
BOUNDS = {"bare": 1.15, "redis-benchmark": 0.75, "memtier": 0.6}
OURS = "bench run"
# And at this rate: send lag (p99) and share of a core.
RATE = 50_000
LAG_US_MAX = 20
CORE_SHARE_MAX = 0.5


def main():
    options = arguments()
    facts = machine.describe()
    names = [name for name in (*BOUNDS, OURS) if name != "memtier" or options.memtier]
    try:
        facts["memtier"] = memtier_version(options.memtier)
        with Server("floor", floor_command(VALUE_SIZE), options.server_cpu) as server:
            rounds = [one(name, cell, server, number, options)
                      for number in range(options.rounds) for cell in CELLS for name in turned(names, number)]
            rates = [at_rate(server, options) for _ in range(options.rounds)]
    except Unavailable as problem:
        sys.exit(f"bench-load: {problem}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"machine": facts, "rounds": rounds, "rates": rates}, file, indent=1)
    over = show(facts, names, rounds, rates)
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
    parser.add_argument("--memtier", metavar="PROGRAM", default=shutil.which("memtier_benchmark"),
                        help="memtier_benchmark, where it is not in the path")
    parser.add_argument("--json", metavar="FILE", help="also write every figure of every round to FILE")
    parser.add_argument("--gate", action="store_true", help="end with 1 when a promise is not kept")
    return parser.parse_args()


def memtier_version(program):
    """Its first line, as `memtier_benchmark 2.3.0`. None: there is none."""
    if program is None:
        return None
    try:
        output = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    except OSError as problem:
        raise Unavailable(f"--memtier {program}: {problem.strerror}") from problem
    words = output.split()
    if words[:1] != ["memtier_benchmark"]:
        raise Unavailable(f"--memtier {program}: it does not say that it is memtier_benchmark")
    return " ".join(words[:2]).replace("v=", "")


def turned(names, number):
    """Each comes first, in the middle and last equally often."""
    turn = number % len(names)
    return names[turn:] + names[:turn]


def command(name, pipeline, count, port, memtier):
    if name == "bare":
        return [built("bare"), "--address", f"127.0.0.1:{port}", "--connections", str(CONNECTIONS_COUNT),
                "--pipeline", str(pipeline), "--value-size", str(VALUE_SIZE), "--requests", str(count)]
    if name == "redis-benchmark":
        return [tool("redis-benchmark", "redis-tools"), "-h", "127.0.0.1", "-p", str(port), "-c",
                str(CONNECTIONS_COUNT), "-P", str(pipeline), "-n", str(count), "-r", "10000", "--csv",
                "GET", "key:__rand_int__"]
    if name == "memtier":
        # Requests are told by connection. Nothing is printed but the totals: its histogram is a thousand lines.
        return [memtier, "--server", "127.0.0.1", "--port", str(port), "--threads", "1", "--clients",
                str(CONNECTIONS_COUNT), "--pipeline", str(pipeline), "--requests", str(count // CONNECTIONS_COUNT),
                "--ratio", "0:1", "--data-size", str(VALUE_SIZE), "--key-prefix", "key:", "--key-minimum", "1",
                "--key-maximum", "10000", "--hide-histogram"]
    return bench(port, ["--pipeline", str(pipeline), "--requests", str(count), "--duration", "1h"])


def bench(port, flags):
    return [built("expresslane"), "bench", "run", f"127.0.0.1:{port}", "--connections", str(CONNECTIONS_COUNT),
            "--quiet", "--noisy", *flags]


def one(name, cell, server, number, options):
    cell_name, pipeline, requests = cell
    # All connections send as many, in whole pipelines.
    step = CONNECTIONS_COUNT * pipeline
    count = max(int(requests * options.scale) // step, 1) * step
    words = [tool("taskset", "util-linux"), "-c", str(options.load_cpu),
             *command(name, pipeline, count, server.port, options.memtier)]
    before, span = server.cpu_ns(), machine.Span()
    child = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    problem = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    cpu = usage.ru_utime + usage.ru_stime
    around = span.end((server.cpu_ns() - before) / 1e9 + cpu)
    # Exit code 3 is done, with doubts: the load is the limit here, and says so.
    if child.returncode not in ((0, 3) if name == OURS else (0,)):
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


def show(facts, names, rounds, rates):
    """Prints the tables. Returns the promises that were not kept."""
    print(machine.headline(facts, f"{CONNECTIONS_COUNT} connections", f"{VALUE_SIZE} B values"))
    print("\n".join(machine.quietness(facts, rounds)))
    print(facts["memtier"] or "memtier_benchmark is neither in the path nor named by --memtier: at most "
          f"{BOUNDS['memtier']:.2f} of it is promised, and not measured here")
    peers = [name for name in names if name != OURS]
    heads = " ".join(f"{'÷ ' + peer:<22}" for peer in peers)
    print(f"\n{'cell':<5} {'load':<16} {'CPU µs/request':<24} {'user µs':>8}  {heads}".rstrip())
    over, promises = [], []
    for cell, _, _ in CELLS:
        costs = {}
        for row in (r for r in rounds if r["cell"] == cell):
            costs.setdefault(row["load"], []).append(row)
        for name in names:
            rows = costs[name]
            ratios = {peer: [a["cpu_us_per_request"] / b["cpu_us_per_request"] for a, b in zip(rows, costs[peer])]
                      for peer in peers if peer != name}
            user = statistics.median(row["user_us_per_request"] for row in rows)
            shown = " ".join(f"{spread(ratios.get(peer)):<22}" for peer in peers)
            cost = spread([row["cpu_us_per_request"] for row in rows])
            print(f"{cell:<5} {name:<16} {cost:<24} {user:>8.2f}  {shown}".rstrip())
            for peer in peers if name == OURS else ():
                got, bound = statistics.median(ratios[peer]), BOUNDS[peer]
                promises.append(f"{cell}: {got:.2f} × {peer}, promised at most {bound:.2f}")
                if got > bound:
                    over.append(promises[-1])
    print("\n" + "\n".join(promises))
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
