#!/usr/bin/env python3
"""What forwarding costs: a request for another lane's key beside one for the key of the connection's own lane.

One server of two lanes, each pinned to a core; half of the connections on either lane, so that both are busy and each
forwards to the other. Three loads, interleaved: on the lanes' own ports (what a cluster client does), on the shared port
with only keys of the connection's lane, and on the shared port with only keys of the other lane. What is compared is the
CPU time of all the server's threads per request (schedstat), both lanes together. The load needs a core too; on a machine
of two it takes its time from the lanes' cores, which changes requests per second and not what a request costs.

Then a single connection sends one batch at a time to lanes that are otherwise asleep: it may cost at most one bell each
way. Counters of the lanes (INFO) prove for every run that requests took the way they were meant to.
"""

import argparse
import json
import os
import statistics
import sys

import machine
from driving import Failed, drive, fill, lanes, since
from machine import spread
from servers import Server, Unavailable, expresslane_command

LANES_COUNT = 2
CONNECTIONS_COUNT = 50
PIPELINE = 16
KEYS_COUNT = 10_000
REQUESTS_COUNT = 1_500_000
IDLE_BATCHES_COUNT = 2_000
# What this server promises.
COST_RATIO_MAX = 2.0
BELLS_PER_100_ASKS_MAX = 1.0
IDLE_BELLS_PER_BATCH_MAX = 1.0
# Share of requests that may go another way than meant, for INFO and PING are commands too.
STRAYS_SHARE_MAX = 0.001
# What the idle lanes may ring besides: each look at INFO wakes the control thread once or twice.
BELLS_OF_INFO_MAX = 10

DIRECT, HERE, FORWARDED = "lane ports", "shared, own", "shared, next"


def main():
    options = arguments()
    if len(set(options.cpus)) != LANES_COUNT:
        sys.exit(f"bench-forward: {LANES_COUNT} lanes need {LANES_COUNT} cpus: choose them with --cpus")
    facts = machine.describe()
    spare = sorted(set(os.sched_getaffinity(0)) - set(options.cpus))
    command = expresslane_command(LANES_COUNT, ["--cpus", ",".join(map(str, options.cpus))])
    try:
        with Server("expresslane", command) as server:
            fill(server.port, KEYS_COUNT)
            report = {"machine": facts, "spare_cpus": spare, "rounds": rounds(server, spare, options),
                      "idle": idle(server, spare, options)}
    except (Unavailable, Failed) as problem:
        sys.exit(f"bench-forward: {problem}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)
    over = show(report, options)
    if over and options.gate:
        sys.exit(1)


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=machine.NOISE, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10, help="interleaved rounds (default 10)")
    parser.add_argument("--scale", type=float, default=1.0, help="requests per run, relative to the default")
    parser.add_argument("--command", choices=["get", "set"], default="get")
    parser.add_argument("--cpus", type=lambda text: [int(cpu) for cpu in text.split(",")],
                        default=sorted(os.sched_getaffinity(0))[:LANES_COUNT], help="the two lanes' (default: the first two)")
    parser.add_argument("--json", metavar="FILE", help="also write every figure of every round to FILE")
    parser.add_argument("--gate", action="store_true", help="end with 1 when a promised figure is exceeded")
    return parser.parse_args()


def rounds(server, spare, options):
    kinds = [DIRECT, HERE, FORWARDED]
    found = []
    for number in range(options.rounds):
        turn = number % len(kinds)
        for kind in kinds[turn:] + kinds[:turn]:
            found.append({"round": number, "kind": kind, **one(server, kind, spare, options)})
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
    return found


def one(server, kind, spare, options):
    """One load. Returns its figures; `Failed` if requests went another way than meant."""
    count = max(int(REQUESTS_COUNT * options.scale), CONNECTIONS_COUNT * PIPELINE)
    first_lane_port = int(_argument(server, "--lane-ports"))
    ports = [first_lane_port + lane for lane in range(LANES_COUNT)] if kind == DIRECT else [server.port]
    before, cpu_ns, wakes, span = lanes(server.port), server.cpu_ns(), server.wakes(), machine.Span()
    load = drive(ports, _cpus(spare), command=options.command, requests=count, connections=CONNECTIONS_COUNT,
                 pipeline=PIPELINE, keys=KEYS_COUNT, lanes=LANES_COUNT, owner="next" if kind == FORWARDED else "own")
    cpu_ns, wakes = server.cpu_ns() - cpu_ns, server.wakes() - wakes
    around = span.end(cpu_ns / 1e9 + load["cpu_seconds"])
    after = lanes(server.port)
    forwarded, asks, bells = (since(before, after, name) for name in ("forwarded", "asks_served", "bells"))
    meant = count if kind == FORWARDED else 0
    if abs(sum(forwarded) - meant) > count * STRAYS_SHARE_MAX or sum(since(before, after, "moved")):
        raise Failed(f"{kind}: {sum(forwarded)} of {count} requests were forwarded, meant were {meant}")
    return {
        "requests": count,
        "errors": load["errors"] + load["nulls"],
        "cpu_us_per_request": cpu_ns / 1000 / count,
        "client_cpu_us_per_request": load["cpu_seconds"] * 1e6 / count,
        "requests_per_second": count / load["elapsed_ns"] * 1e9,
        "requests_per_wake": count / max(wakes, 1),
        "cores_busy": cpu_ns / load["elapsed_ns"],
        "asks_by_lane": asks,
        "bells_per_100_asks": sum(bells) * 100 / max(sum(asks), 1),
        **around,
    }


def idle(server, spare, options):
    """Batches to sleeping lanes, from one connection. Returns bells a batch, of either lane."""
    count = max(int(IDLE_BATCHES_COUNT * options.scale), 100)
    before = lanes(server.port)
    drive([server.port], _cpus(spare), command=options.command, requests=count * PIPELINE, connections=1,
          pipeline=PIPELINE, keys=KEYS_COUNT, lanes=LANES_COUNT, owner="next")
    after = lanes(server.port)
    return {"batches": count, "bells": since(before, after, "bells"), "asks": since(before, after, "asks_served")}


def show(report, options):
    """Prints the table. Returns the promises that were not kept."""
    facts, runs, still = report["machine"], report["rounds"], report["idle"]
    print(machine.headline(facts, f"{LANES_COUNT} lanes on cpus {options.cpus}", f"{CONNECTIONS_COUNT} connections",
                           f"pipeline {PIPELINE}", options.command.upper()))
    print("\n".join(machine.quietness(facts, runs)))
    if not report["spare_cpus"]:
        print("The load had no core of its own: requests per second are the machine's, CPU per request is the server's.")
    by_kind = {kind: [run for run in runs if run["kind"] == kind] for kind in (DIRECT, HERE, FORWARDED)}
    print(f"\n{'load':<13} {'CPU µs/request':<22} {'÷ lane ports':<19} {'requests/s':>10} {'req/wake':>9} "
          f"{'cores busy':>10}  bells/100 asks")
    for kind, rows in by_kind.items():
        costs = [run["cpu_us_per_request"] for run in rows]
        bells = spread([run["bells_per_100_asks"] for run in rows], 3) if kind == FORWARDED else ""
        print(f"{kind:<13} {spread(costs, 3):<22} {spread(ratios(rows, by_kind[DIRECT])):<19} "
              f"{middle(rows, 'requests_per_second'):>10,.0f} {middle(rows, 'requests_per_wake'):>9.1f} "
              f"{middle(rows, 'cores_busy'):>10.2f}  {bells}".rstrip())
    per_batch = [bells / still["batches"] for bells in still["bells"]]
    print(f"idle lanes: {still['batches']:,} batches of {PIPELINE} from one connection; bells a batch, by lane: "
          + ", ".join(f"{bells:.3f}" for bells in per_batch))
    over = list(broken(by_kind, still))
    for line in over:
        print(f"over: {line}")
    if not over:
        print("ok: within what is promised")
    return over


def broken(by_kind, still):
    cost = statistics.median(ratios(by_kind[FORWARDED], by_kind[DIRECT]))
    if cost > COST_RATIO_MAX:
        yield f"forwarded {cost:.2f} × direct, promised {COST_RATIO_MAX:.2f}"
    bells = middle(by_kind[FORWARDED], "bells_per_100_asks")
    if bells >= BELLS_PER_100_ASKS_MAX:
        yield f"{bells:.2f} bells per 100 asks, promised fewer than {BELLS_PER_100_ASKS_MAX:.0f}"
    for lane, bells in enumerate(still["bells"]):
        if bells > still["batches"] * IDLE_BELLS_PER_BATCH_MAX + BELLS_OF_INFO_MAX:
            yield f"idle: lane {lane} rang {bells} times for {still['batches']} batches, promised one each"
    wrong = sum(run["errors"] for rows in by_kind.values() for run in rows)
    if wrong:
        yield f"{wrong} replies were errors or misses"


def ratios(rows, others):
    """CPU time per request relative to another load's, round by round."""
    return [a["cpu_us_per_request"] / b["cpu_us_per_request"] for a, b in zip(rows, others)]


def middle(rows, field):
    return statistics.median(row[field] for row in rows)


def _cpus(spare):
    return ",".join(map(str, spare)) if spare else None


def _argument(server, flag):
    arguments = server.process.args
    return arguments[arguments.index(flag) + 1]


if __name__ == "__main__":
    main()
