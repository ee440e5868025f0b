#!/usr/bin/env python3
"""Tails at a rate that both servers can serve: this server and Debian's redis-server, one lane, in one interleaved run.

First the most that redis-server answers is found, one request at a time on each of 50 connections; then requests arrive
at shares of that rate, independent of one another, whatever the server does. Each counts from when it was due, not from
when it was sent, so that those who wait behind a slow one are seen (no coordinated omission). The load has a core of its own
and never sleeps on it; how late its own sending was stands beside the result, and so does what the floor responder, which
only echoes constants, shows at the same rate: the part of the times that is the kernel's and the load's.
"""

import argparse
import contextlib
import json
import statistics
import sys

import machine
import servers
import loading
from loading import Failed, fill, microseconds, time_of
from servers import Server, Unavailable

CONNECTIONS_COUNT = 50
KEYS_COUNT = 10_000
VALUE_SIZE = 100
SHARES = [0.3, 0.6]
QUANTILES = ["p50", "p99", "p99.9", "p99.99", "max"]
SATURATION_SECONDS = 3.0


def main():
    options = arguments()
    facts = machine.describe()
    try:
        with contextlib.ExitStack() as stack:
            pool = start(stack, options)
            limits = {name: saturation(server, options) for name, server in pool.items()}
            report = {"machine": facts, "saturation": limits, "rounds": measure(pool, limits["redis"]["rate"], options)}
    except (Unavailable, Failed) as problem:
        sys.exit(f"bench-tail: {problem}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)
    show(report, options)


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=machine.NOISE, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=6, help="interleaved rounds (default 6)")
    parser.add_argument("--seconds", type=float, default=10, help="of each run (default 10)")
    parser.add_argument("--warm-up", type=int, default=1, metavar="SECONDS", help="of these, not recorded (default 1)")
    parser.add_argument("--saturation-seconds", type=float, default=SATURATION_SECONDS, metavar="SECONDS",
                        help=f"for finding the saturation (default {SATURATION_SECONDS:g})")
    parser.add_argument("--shares", type=lambda text: [float(share) for share in text.split(",")], default=SHARES,
                        help="of redis-server's saturation (default 0.3,0.6)")
    parser.add_argument("--command", choices=["get", "set"], default="get")
    parser.add_argument("--arrivals", choices=["poisson", "even"], default="poisson")
    parser.add_argument("--sched", metavar="fifo:N|rr:N",
                        help="this server a second time, with lanes that are scheduled so (serve --sched; takes CAP_SYS_NICE)")
    parser.add_argument("--server-cpu", type=int, default=0)
    parser.add_argument("--load-cpu", type=int, default=1)
    parser.add_argument("--json", metavar="FILE", help="also write every figure of every round to FILE")
    return parser.parse_args()


def start(stack, options):
    commands = {
        "floor": servers.floor_command(VALUE_SIZE if options.command == "get" else 0),
        "redis": servers.redis_command,
        "expresslane": servers.expresslane_command(1, ["--cpus", str(options.server_cpu)]),
    }
    if options.sched:
        extra = ["--cpus", str(options.server_cpu), "--sched", options.sched]
        commands[f"expresslane {options.sched}"] = servers.expresslane_command(1, extra)
    pool = {}
    for name, command in commands.items():
        pool[name] = stack.enter_context(Server(name, command, options.server_cpu))
        fill(pool[name].port, KEYS_COUNT, VALUE_SIZE)
        pool[name].pause()
    return pool


def load(server, options, **more):
    """One run against a server that is stopped before and after."""
    server.resume()
    cpu_ns, span = server.cpu_ns(), machine.Span()
    run = loading.load(server.port, options.load_cpu, operations=options.command, keys=KEYS_COUNT, value_size=VALUE_SIZE,
                       connections=CONNECTIONS_COUNT, **more)
    cpu_ns, whole = server.cpu_ns() - cpu_ns, run["whole"]
    around = span.end(cpu_ns / 1e9 + run["cpu_seconds"])
    server.pause()
    if whole["errors"] or whole["misses"]:
        raise Failed(f"{server.name}: {whole['errors']} errors and {whole['misses']} misses")
    return run | around | {"server_cores": cpu_ns / whole["elapsed_ns"]}


def saturation(server, options):
    """Requests a second when each connection asks again as soon as it is answered, and how busy both cores then are."""
    run = load(server, options, duration=f"{options.saturation_seconds}s")
    whole = run["whole"]
    return {"rate": whole["answered"] / whole["elapsed_ns"] * 1e9, "server_cores": run["server_cores"],
            "load_cores": run["cpu_seconds"] / whole["elapsed_ns"] * 1e9}


def measure(pool, limit, options):
    rounds, names = [], list(pool)
    for number in range(options.rounds):
        # Each server comes first, in the middle and last equally often.
        turn = number % len(names)
        for share in options.shares:
            for name in names[turn:] + names[:turn]:
                result = load(pool[name], options, rate=round(limit * share), duration=f"{options.seconds}s",
                              warm_up=options.warm_up, arrivals=options.arrivals, seed=number + 1)
                rounds.append({"round": number, "share": share, "server": name, "rate": round(limit * share), **result})
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
    return rounds


def show(report, options):
    facts, rounds = report["machine"], report["rounds"]
    print(machine.headline(facts, f"{options.command.upper()} {VALUE_SIZE} B", f"{CONNECTIONS_COUNT} connections",
                           f"{options.arrivals} arrivals", f"{options.rounds} rounds of {options.seconds:g} s"))
    print("\n".join(machine.quietness(facts, rounds)))
    for name, limit in report["saturation"].items():
        print(f"saturation of {name:<18} {limit['rate']:>9,.0f} requests/s in a closed loop; busy: server "
              f"{limit['server_cores'] * 100:.0f} %, load {limit['load_cores'] * 100:.0f} % of a core")
    for share in options.shares:
        rows = {name: [run for run in rounds if run["server"] == name and run["share"] == share]
                for name in report["saturation"]}
        rate = rows["redis"][0]["rate"]
        print(f"\n{share * 100:.0f} % of redis-server's saturation: {rate:,.0f} requests/s; µs, median of the rounds (range)")
        width = max(map(len, rows)) + 2
        print(f"{'':<{width}}" + "".join(f"{name:<31}" for name in QUANTILES) + "load late p99   server busy")
        for name, runs in rows.items():
            line = f"{name:<{width}}" + "".join(f"{times(runs, quantile):<31}" for quantile in QUANTILES)
            line += f"{microseconds(statistics.median(run['send_lag_p99_ns'] for run in runs)):<16}"
            print(line + f"{statistics.median(run['server_cores'] for run in runs) * 100:.0f} %")
        for name in rows:
            if name.startswith("expresslane"):
                line = f"{name.replace('expresslane', '÷ redis', 1):<{width}}"
                print((line + "".join(f"{ratios(rows[name], rows['redis'], quantile):<31}" for quantile in QUANTILES)).rstrip())
    doubtful = {}
    for run in rounds:
        for problem in run["doubts"]:
            doubtful.setdefault((run["server"], run["share"]), []).append(problem)
    for (name, share), problems in doubtful.items():
        print(f"DOUBTFUL: {name} at {share * 100:.0f} %: {len(problems)} times, such as: {problems[0]}")
    print("reported, not judged: what is promised of tails is the bound of a turn in work units, which the tests assert")


def times(runs, quantile):
    """A quantile over the rounds, in microseconds."""
    values = [time_of(run, quantile) for run in runs]
    return "few" if None in values else machine.spread([value / 1000 for value in values], 1)


def ratios(ours, theirs, quantile):
    """This server's quantile relative to redis-server's, round by round: below 1 it is shorter."""
    pairs = [(time_of(one, quantile), time_of(other, quantile)) for one, other in zip(ours, theirs)]
    return "" if any(None in pair for pair in pairs) else machine.spread([a / b for a, b in pairs])


if __name__ == "__main__":
    main()
