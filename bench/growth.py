#!/usr/bin/env python3
"""What growing costs those who ask meanwhile: response times while a server of one lane goes from 0 to 10 million keys.

SETs of new keys arrive at a fixed rate, each counted from when it was due; then as many arrive for keys that are there
already, so that what is left is what growth adds. A table that is rebuilt in one go shows as a longest time that doubles
with every doubling of the keys. Before and after, a thread that only reads the clock runs on the same core: what the
machine takes from it, it takes from any server. (Beside a busy server it would see the server itself.)

How much work a turn may do is counted in units and asserted by the tests (crates/sim/tests/servers/growth.rs); nanoseconds are only
reported here, and promise nothing.
"""

import argparse
import json
import sys

import machine
import servers
from loading import Failed, ask, lanes, load, microseconds, spin, time_of
from servers import Server, Unavailable

KEYS_COUNT = 10_000_000
RATE = 40_000
CONNECTIONS_COUNT = 50
VALUE_SIZE = 32
SPIN_SECONDS = 20
QUANTILES = ["p50", "p90", "p99", "p99.9", "p99.99", "max"]


def main():
    options = arguments()
    facts = machine.describe()
    commands = {"expresslane": servers.expresslane_command(1, ["--cpus", str(options.server_cpu)])}
    if options.redis:
        commands["redis"] = servers.redis_command
    rows = []
    try:
        for name, command in commands.items():
            rows.append(stolen(f"before {name}", options))
            rows += grown(name, command, options)
        rows.append(stolen("after", options))
    except (Unavailable, Failed) as problem:
        sys.exit(f"bench-growth: {problem}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"machine": facts, "rows": rows}, file, indent=1)
    show(facts, rows, options)


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=machine.NOISE, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=KEYS_COUNT, help=f"default {KEYS_COUNT:,}")
    parser.add_argument("--rate", type=float, default=RATE, help=f"requests a second (default {RATE:,})")
    parser.add_argument("--closed", action="store_true",
                        help="as fast as they are answered instead, one at a time on each connection")
    parser.add_argument("--redis", action="store_true", help="Debian's redis-server as well")
    parser.add_argument("--spin-seconds", type=int, default=SPIN_SECONDS)
    parser.add_argument("--server-cpu", type=int, default=0)
    parser.add_argument("--load-cpu", type=int, default=1)
    parser.add_argument("--json", metavar="FILE", help="also write every figure to FILE")
    return parser.parse_args()


def stolen(when, options):
    """What the machine takes from a thread that does nothing on the server's core."""
    span = machine.Span()
    gaps = spin(options.spin_seconds, options.server_cpu)
    times = {**gaps["ns"], "max": gaps["max_ns"]}
    return {"row": f"clock {when}", "kind": "clock", "times_ns": times, "count": gaps["count"], "doubts": [],
            **span.end(gaps["cpu_seconds"])}


def grown(name, command, options):
    """Fills one server, then asks again for what it has."""
    rows = []
    with Server(name, command, options.server_cpu) as server:
        empty = server.rss_bytes()
        for kind in ("growth", "steady"):
            ask(server.port, "CONFIG", "RESETSTAT")
            cpu_ns, preempted, span = server.cpu_ns(), server.preemptions(), machine.Span()
            run = load(server.port, options.load_cpu, operations="set", keys=options.keys, key_distribution="sequential",
                       requests=options.keys, connections=CONNECTIONS_COUNT, value_size=VALUE_SIZE,
                       rate=None if options.closed else options.rate)
            whole = run["whole"]
            cpu_ns, preempted = server.cpu_ns() - cpu_ns, server.preemptions() - preempted
            # The load never sleeps at a rate; what it used is its own all the same.
            around = span.end(cpu_ns / 1e9 + run["cpu_seconds"])
            if whole["errors"]:
                raise Failed(f"{name}: {whole['errors']} of {whole['answered']} SETs failed")
            rows.append({
                "row": f"{name} {kind}", "kind": kind, **around,
                "times_ns": {quantile: time_of(run, quantile) for quantile in QUANTILES}, "count": run["replies"],
                "doubts": run["doubts"],
                "cpu_us_per_request": cpu_ns / 1000 / whole["answered"],
                "preemptions": preempted,
                "turn_us_max": lanes(server.port)[0]["turn_max_us"] if name == "expresslane" else None,
                "bytes_per_key": (server.rss_bytes() - empty) / options.keys,
            })
    return rows


def show(facts, rows, options):
    pace = "as fast as answered" if options.closed else f"{options.rate:,.0f} requests/s"
    print(machine.headline(facts, f"0 to {options.keys:,} keys", f"{VALUE_SIZE} B values",
                           f"{CONNECTIONS_COUNT} connections", pace))
    print("\n".join(machine.quietness(facts, rows)))
    print(f"\n{'µs':<25}" + "".join(f"{name:>12}" for name in QUANTILES)
          + f"{'count':>13}{'longest turn':>14}{'preempted':>11}{'CPU µs/request':>16}")
    for row in rows:
        line = f"{row['row']:<25}" + "".join(f"{microseconds(row['times_ns'][name]):>12}" for name in QUANTILES)
        line += f"{row['count']:>13,}"
        if row["kind"] != "clock":
            turn = row["turn_us_max"]
            line += f"{'' if turn is None else f'{turn:,.0f} µs':>14}{row['preemptions']:>11,}"
            line += f"{row['cpu_us_per_request']:>16.2f}"
        print(line.rstrip())
    print("clock: gaps of 1 µs and more of a thread that only reads the clock; preempted: times that the kernel took the "
          "core from the server")
    for row in rows:
        for problem in row["doubts"]:
            print(f"DOUBTFUL: {row['row']}: {problem}")
    print("reported, not judged: the bound of a turn is in work units, and asserted by the tests")


if __name__ == "__main__":
    main()
