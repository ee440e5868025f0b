#!/usr/bin/env python3
"""What forwarding costs: a request for another lane's key beside one for the key of the connection's own lane.

One server of two lanes, each pinned to a core, half of the connections on either lane, so that both are busy. Two loads,
interleaved: on the lanes' own ports, as a cluster client does it, so that nothing is forwarded, and on the shared port with
keys of one lane (a hash tag), so that whole batches are forwarded from the one half of the connections and none from the
other. Which lane owns the keys changes from round to round. What is compared is the CPU time of all the server's threads per
request (schedstat), both lanes together; what a forwarded request costs is what the second load costs more, divided by the
share of requests that were forwarded, as the lanes count them. The load needs a core too; on a machine of two it takes its
time from the lanes' cores, which changes requests per second and not what a request costs.

Bells are for lanes that sleep, and on a machine of two cores a load that takes its turns sees them half asleep. So the second
load comes once more in each round, before the lanes wherever both want a core (a niceness of -19, for which it needs to be
allowed to): they then have work whenever they run, as lanes have whose clients are on other machines. Its bells are the promised ones.

Then a single connection sends one batch at a time to lanes that are otherwise asleep, with keys of the one lane and then of
the other: a batch may cost at most one bell each way. Counters of the lanes (INFO) prove for every run that requests took
the way they were meant to.
"""

import argparse
import json
import os
import statistics
import sys

import machine
from loading import Failed, ask, fill, lanes, load, may_go_first, since
from machine import spread
from servers import Server, Unavailable, expresslane_command

LANES_COUNT = 2
CONNECTIONS_COUNT = 50
PIPELINE = 16
KEYS_COUNT = 10_000
SLOTS_COUNT = 16_384
REQUESTS_COUNT = 1_500_000
IDLE_BATCHES_COUNT = 2_000
# What this server promises.
COST_RATIO_MAX = 2.0
BELLS_PER_100_ASKS_MAX = 1.0
IDLE_BELLS_PER_BATCH_MAX = 1.0
# Connections that are tried until one is on another lane than its keys.
IDLE_RUNS_MAX = 8
# What the idle lanes may ring besides: each look at INFO wakes the control thread once or twice.
BELLS_OF_INFO_MAX = 10

DIRECT, SHARED, BUSY = "lane ports", "shared port", "lanes busy"
# The least and the largest share of requests that may be forwarded. Of the direct ones few, for INFO and PING are commands too. Of the
# shared port's those of about half of the connections, who get their answers later; where the load goes before the lanes, a short run can
# be over before one of them has had much of its cpu.
FORWARDED_SHARES = {DIRECT: (0, 0.001), SHARED: (0.05, 0.95), BUSY: (0.001, 0.999)}


def main():
    options = arguments()
    if len(set(options.cpus)) != LANES_COUNT:
        sys.exit(f"bench-forward: {LANES_COUNT} lanes need {LANES_COUNT} cpus: choose them with --cpus")
    facts = machine.describe()
    spare = sorted(set(os.sched_getaffinity(0)) - set(options.cpus))
    command = expresslane_command(LANES_COUNT, ["--cpus", ",".join(map(str, options.cpus))])
    try:
        with Server("expresslane", command) as server:
            prefixes = [prefix_of(server, lane) for lane in range(LANES_COUNT)]
            for prefix in ["key:", *prefixes]:
                fill(server.port, KEYS_COUNT, key_prefix=prefix)
            report = {"machine": facts, "spare_cpus": spare, "rounds": rounds(server, prefixes, spare, options),
                      "idle": idle(server, prefixes, spare, options)}
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


def prefix_of(server, lane):
    """What keys begin with that belong to a lane: a hash tag in its part of the slots."""
    for number in range(1000):
        prefix = f"{{{number}}}"
        if int(ask(server.port, "CLUSTER", "KEYSLOT", prefix)[1:]) * LANES_COUNT // SLOTS_COUNT == lane:
            return prefix
    raise Failed(f"no hash tag belongs to lane {lane}")


def rounds(server, prefixes, spare, options):
    kinds, goes_first = [DIRECT, SHARED], may_go_first()
    found = []
    for number in range(options.rounds):
        turn = number % len(kinds)
        for kind in kinds[turn:] + kinds[:turn]:
            found.append({"round": number, "kind": kind,
                          **one(server, kind, prefixes[number % LANES_COUNT], spare, options)})
        if goes_first:
            found.append({"round": number, "kind": BUSY,
                          **one(server, BUSY, prefixes[number % LANES_COUNT], spare, options)})
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
    return found


def one(server, kind, prefix, spare, options):
    """One load. Returns its figures; `Failed` if requests went another way than meant."""
    count = max(int(REQUESTS_COUNT * options.scale), CONNECTIONS_COUNT * PIPELINE)
    port = int(_argument(server, "--lane-ports")) if kind == DIRECT else server.port
    before, cpu_ns, wakes, span = lanes(server.port), server.cpu_ns(), server.wakes(), machine.Span()
    run = load(port, _cpus(spare), operations=options.command, requests=count, connections=CONNECTIONS_COUNT,
               pipeline=PIPELINE, keys=KEYS_COUNT, niceness=-19 if kind == BUSY else 0,
               **({"cluster": True} if kind == DIRECT else {"key_prefix": prefix}))
    cpu_ns, wakes, whole = server.cpu_ns() - cpu_ns, server.wakes() - wakes, run["whole"]
    around = span.end(cpu_ns / 1e9 + run["cpu_seconds"])
    after = lanes(server.port)
    forwarded, asks, bells = (since(before, after, name) for name in ("forwarded", "asks_served", "bells"))
    share = sum(forwarded) / count
    least, most = FORWARDED_SHARES[kind]
    if not least <= share <= most or sum(since(before, after, "moved")):
        raise Failed(f"{kind}: {sum(forwarded)} of {count} requests were forwarded, meant were {least:.1%} to {most:.1%}")
    return {
        "requests": count,
        "forwarded_share": share,
        "errors": whole["errors"] + whole["misses"],
        "cpu_us_per_request": cpu_ns / 1000 / count,
        "client_cpu_us_per_request": run["cpu_seconds"] * 1e6 / count,
        "requests_per_second": count / whole["elapsed_ns"] * 1e9,
        "requests_per_wake": count / max(wakes, 1),
        "cores_busy": cpu_ns / whole["elapsed_ns"],
        "asks_by_lane": asks,
        "bells_per_100_asks": sum(bells) * 100 / max(sum(asks), 1),
        **around,
    }


def idle(server, prefixes, spare, options):
    """Batches to sleeping lanes, from one connection. Returns how many were forwarded, and the bells of either lane."""
    count = max(int(IDLE_BATCHES_COUNT * options.scale), 100)
    before, asks = lanes(server.port), 0
    # Connections are dealt out by turns: of two runs with the same keys one is on their owner's lane, and forwards nothing.
    # Each run is counted by itself, for looking at INFO rings, too.
    for number in range(IDLE_RUNS_MAX):
        load(server.port, _cpus(spare), operations=options.command, requests=count * PIPELINE, connections=1,
             pipeline=PIPELINE, keys=KEYS_COUNT, key_prefix=prefixes[number // 2 % LANES_COUNT])
        after = lanes(server.port)
        asks = sum(since(before, after, "asks_served"))
        if asks >= count * PIPELINE:
            return {"batches": asks / PIPELINE, "bells": since(before, after, "bells"), "asks": asks}
        before = after
    raise Failed(f"{asks} requests of an idle connection were forwarded, meant were {count * PIPELINE}")


def show(report, options):
    """Prints the table. Returns the promises that were not kept."""
    facts, runs, still = report["machine"], report["rounds"], report["idle"]
    print(machine.headline(facts, f"{LANES_COUNT} lanes on cpus {options.cpus}", f"{CONNECTIONS_COUNT} connections",
                           f"pipeline {PIPELINE}", options.command.upper()))
    print("\n".join(machine.quietness(facts, runs)))
    if not report["spare_cpus"]:
        print("The load had no core of its own: requests per second are the machine's, CPU per request is the server's.")
    by_kind = {kind: [run for run in runs if run["kind"] == kind] for kind in dict.fromkeys(run["kind"] for run in runs)}
    if BUSY not in by_kind:
        print("The load may not go before the lanes here (root may): bells are not judged, for lanes sleep at times.")
    print(f"\n{'load':<13} {'CPU µs/request':<22} {'÷ lane ports':<19} {'requests/s':>10} {'req/wake':>9} "
          f"{'cores busy':>10}  bells/100 asks")
    for kind, rows in by_kind.items():
        costs = [run["cpu_us_per_request"] for run in rows]
        bells = "" if kind == DIRECT else spread([run["bells_per_100_asks"] for run in rows], 3)
        print(f"{kind:<13} {spread(costs, 3):<22} {spread(ratios(rows, by_kind[DIRECT])):<19} "
              f"{middle(rows, 'requests_per_second'):>10,.0f} {middle(rows, 'requests_per_wake'):>9.1f} "
              f"{middle(rows, 'cores_busy'):>10.2f}  {bells}".rstrip())
    print(f"forwarded: {spread(forwarded(by_kind))} × a direct request, from the "
          f"{middle(by_kind[SHARED], 'forwarded_share'):.1%} of the shared port's that are")
    per_batch = [bells / still["batches"] for bells in still["bells"]]
    print(f"idle lanes: {still['batches']:,.0f} batches of {PIPELINE} from one connection; bells a batch, by lane: "
          + ", ".join(f"{bells:.3f}" for bells in per_batch))
    over = list(broken(by_kind, still))
    for line in over:
        print(f"over: {line}")
    if not over:
        print("ok: within what is promised")
    return over


def broken(by_kind, still):
    cost = statistics.median(forwarded(by_kind))
    if cost > COST_RATIO_MAX:
        yield f"forwarded {cost:.2f} × direct, promised {COST_RATIO_MAX:.2f}"
    if BUSY in by_kind and (bells := middle(by_kind[BUSY], "bells_per_100_asks")) >= BELLS_PER_100_ASKS_MAX:
        yield f"{bells:.2f} bells per 100 asks, promised fewer than {BELLS_PER_100_ASKS_MAX:.0f}"
    for lane, bells in enumerate(still["bells"]):
        if bells > still["batches"] * IDLE_BELLS_PER_BATCH_MAX + BELLS_OF_INFO_MAX:
            yield f"idle: lane {lane} rang {bells} times for {still['batches']:.0f} batches, promised one each"
    wrong = sum(run["errors"] for rows in by_kind.values() for run in rows)
    if wrong:
        yield f"{wrong} replies were errors or misses"


def forwarded(by_kind):
    """CPU time of a forwarded request relative to a direct one, round by round."""
    return [1 + (ratio - 1) / run["forwarded_share"]
            for run, ratio in zip(by_kind[SHARED], ratios(by_kind[SHARED], by_kind[DIRECT]))]


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
