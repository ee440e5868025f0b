#!/usr/bin/env python3
"""What a key costs in memory: resident bytes per key of this server and of Debian's redis-server.

Keys of 16 bytes and values of 32 are loaded by the same pipelined SETs into each server; what counts is the growth of
its resident set since it was empty, which is the median of five starts. Tables grow in steps, so one point proves nothing: the worst of 1.0 … 2.0 million
keys in steps of 100,000 is the figure, and 10 million with --large. Then every value goes from 32 to 100 bytes and
back, which shows what fragmentation keeps. Resident sets are exact and do not mind who else is working.

    bench/memory.py                                       all of it but 10 million keys, with 1 and 4 lanes
    bench/memory.py --large --no-redis --lanes 4          and these, with 4 lanes
    bench/memory.py --points 10000000 --no-churn          only these
"""

import argparse
import json
import statistics
import sys
import time

import machine
import servers
from servers import Server, Unavailable, load, set_batches

VALUE_SIZE = 32
CHURN_SIZE = 100
POINTS = range(1_000_000, 2_000_001, 100_000)
LARGE_COUNT = 10_000_000
# Lets paced work (table growth, freeing) finish before the resident set is read.
SETTLE_SECONDS = 1.0
# What an empty server holds is the median of so many.
EMPTY_STARTS = 5
# What this server promises, in bytes a key, and the factor allowed after the churn.
BYTES_MAX = {"plain": 72, "ttl": 92}
CHURN_FACTOR_MAX = 1.15
EMPTY_MIB_MAX, EMPTY_MIB_PER_LANE_MAX = 8, 4


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--large", action="store_true", help=f"also {LARGE_COUNT:,} keys (needs 2 GiB)")
    parser.add_argument("--points", type=lambda text: sorted(int(count) for count in text.split(",")), default=list(POINTS),
                        metavar="COUNTS", help="measured after so many keys (default 1.0 … 2.0 million)")
    parser.add_argument("--no-churn", action="store_true")
    parser.add_argument("--lanes", type=int, action="append", help="lanes of this server (default: 1 and 4)")
    parser.add_argument("--no-redis", action="store_true")
    parser.add_argument("--gate", action="store_true", help="end with 1 when a promised figure is exceeded")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    kinds = {} if options.no_redis else {"redis": (None, servers.redis_command)}
    kinds |= {f"expresslane, lanes {n}": (n, servers.expresslane_command(n)) for n in options.lanes or [1, 4]}
    facts = machine.describe()
    if options.large:
        options.points.append(LARGE_COUNT)
    before = "unknown" if facts["pressure_before"] is None else f"{facts['pressure_before']:.1f} %"
    print(machine.headline(facts, f"16 B keys, {VALUE_SIZE} B values; CPU pressure (PSI) {before}"))
    results, over, missing = [], [], False
    for name, (lanes, command) in kinds.items():
        for kind, seconds in (("plain", None), ("ttl", 1_000_000)):
            try:
                row = one(name, command, kind, seconds, options)
            except Unavailable as problem:
                print(f"left out: {problem}")
                missing = True
                break
            results.append(row)
            show(row)
            if lanes is not None:
                over += broken(row, lanes)
    for line in over:
        print(f"over: {line}")
    if not over and not missing:
        print("ok: within what is promised")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"machine": facts, "results": results}, file, indent=1)
    if missing or (over and options.gate):
        sys.exit(1)


def one(name, command, kind, seconds, options):
    """Fills one server point by point. Returns bytes per key at each point, and after the churn."""
    empties = []
    for _ in range(EMPTY_STARTS - 1):
        with Server(name.split(",")[0], command) as server:
            empties.append(server.rss_bytes())
    with Server(name.split(",")[0], command) as server:
        # How much of the program the kernel has mapped by then differs by megabytes from one start to the next.
        empty = statistics.median([*empties, server.rss_bytes()])

        def per_key(count):
            time.sleep(SETTLE_SECONDS)
            return (server.rss_bytes() - empty) / count

        points, loaded, churned = {}, 0, None
        for count in options.points:
            if churned is None and loaded and count == LARGE_COUNT:
                churned = churn(server, kind, loaded, per_key, options)
            load(server.port, set_batches(loaded, count, VALUE_SIZE, seconds))
            points[count] = per_key(loaded := count)
        if churned is None:
            churned = churn(server, kind, loaded, per_key, options)
    return {"server": name, "kind": kind, "empty_bytes": empty, "bytes_per_key": points, "churned_bytes_per_key": churned}


def churn(server, kind, loaded, per_key, options):
    """Bytes per key after every value was longer for a while. None: not asked for."""
    if options.no_churn or kind != "plain":
        return None
    for size in (CHURN_SIZE, VALUE_SIZE):
        load(server.port, set_batches(0, loaded, size))
    return per_key(loaded)


def show(row):
    points = row["bytes_per_key"]
    worst = max(points, key=points.get)
    text = f"{row['server']:<22} {row['kind']:<6} empty {row['empty_bytes'] / 2**20:6.1f} MiB   worst "
    text += f"{points[worst]:6.1f} B/key at {worst:,}   " + " ".join(f"{value:.0f}" for value in points.values())
    if row["churned_bytes_per_key"] is not None:
        text += f"   after churn {row['churned_bytes_per_key']:.1f}"
    print(text, flush=True)


def broken(row, lanes):
    """The promises this row does not keep."""
    points, name = row["bytes_per_key"], f"{row['server']} {row['kind']}"
    worst, bound = max(points.values()), BYTES_MAX[row["kind"]]
    empty_bound = (EMPTY_MIB_MAX + EMPTY_MIB_PER_LANE_MAX * lanes) * 2**20
    if worst > bound:
        yield f"{name}: {worst:.1f} B/key, promised {bound}"
    if row["churned_bytes_per_key"] and row["churned_bytes_per_key"] > bound * CHURN_FACTOR_MAX:
        yield f"{name}: {row['churned_bytes_per_key']:.1f} B/key after churn, promised {bound * CHURN_FACTOR_MAX:.1f}"
    if row["empty_bytes"] > empty_bound:
        yield f"{name}: {row['empty_bytes'] / 2**20:.1f} MiB empty, promised {empty_bound / 2**20:.0f}"


if __name__ == "__main__":
    main()
