#!/usr/bin/env python3
"""What a request costs: this server, Debian's redis-server and the floor under both, in one interleaved run.

Each server is pinned to one core and the load to another; servers that are not measured are stopped meanwhile. The load is
redis-benchmark, at which servers wait and sleep, or `bench run`, which costs half as much, so that they do not.
What is compared is the CPU time of all the server's threads per request (schedstat), because on loopback the client
is the limit for requests per second. In a round the loads of all servers are under way together and have the cores in turn,
a slice of --slice seconds each, and ratios are taken within a round: so what the machine does hits all alike. Where its pages happen to
lie makes a server some 5 % faster or slower as long as it runs, so they are started anew for each round; those with more keys than fit the
processor's caches are started once. The floor answers each request with a constant of the same number of bytes (crates/load).

Behind them come the cells of the other protocols that have a promise, as memcached.py and records.py measure them: by `bench
run`, beside memcached and beside the floor.
"""

import argparse
import contextlib
import json
import os
import signal
import statistics
import sys
import threading
import time

import loading
import machine
import memcached
import records
import servers
from loading import fill
from machine import spread
from servers import Server, Unavailable, floor_command, load, request, tool

CONNECTIONS_COUNT = 50
VALUE_SIZE = 100
KEYS_COUNT = 10_000
MGET_COUNT = 10


class Cell:
    """One kind of load: what redis-benchmark and `bench run` are told, and how large a constant the floor answers with."""

    def __init__(self, short, name, arguments, operation, pipeline, requests, reply_size, bounds):
        # What --only calls it.
        self.short = short
        self.name = name
        self.arguments = arguments
        # None: `bench run` has no such operation.
        self.operation = operation
        self.pipeline = pipeline
        self.requests = requests
        # Payload of the floor's bulk, so that its reply has as many bytes as the real one.
        self.reply_size = reply_size
        # What this server promises, by either load: {peer: largest ratio of CPU time per request}, with the default number of keys.
        self.bounds = bounds


KEY = "key:__rand_int__"
SCRIPT = "return redis.call('incr', KEYS[1])"
MGET_REPLY_SIZE = len(b"*10\r\n") + MGET_COUNT * len(b"$100\r\n" + b"x" * VALUE_SIZE + b"\r\n") - len(b"$1076\r\n\r\n")
CELLS = [
    Cell("get1", "GET", ["GET", KEY], "get", 1, 150_000, VALUE_SIZE, {"floor": 1.08}),
    Cell("get16", "GET P16", ["GET", KEY], "get", 16, 1_200_000, VALUE_SIZE, {"floor": 1.30, "redis": 0.80}),
    Cell("set16", "SET P16", ["SET", KEY, "x" * VALUE_SIZE], "set", 16, 1_000_000, 0, {"redis": 0.80}),
    Cell("incr16", "INCR P16", ["INCR", "counter:__rand_int__"], "incr", 16, 1_200_000, 0, {"redis": 0.80}),
    Cell("mget16", "MGET10 P16", ["MGET", *[KEY] * MGET_COUNT], f"mget{MGET_COUNT}", 16, 200_000, MGET_REPLY_SIZE, {"redis": 0.80}),
    Cell("eval1", "EVAL of INCR", ["EVAL", SCRIPT, "1", "counter:__rand_int__"], None, 1, 100_000, 0, {}),
    Cell("eval16", "EVAL of INCR P16", ["EVAL", SCRIPT, "1", "counter:__rand_int__"], None, 16, 300_000, 0, {}),
]
# The programs of the other protocols, and by what --only calls them the cells of theirs that are measured here.
OTHERS = [
    ("memcached's protocols", memcached, {"memcached16": "get P16", "memcached-binary16": "binary get P16"}),
    ("Aerospike's protocol", records, {"aerospike1": "get"}),
]
SHORTS = [cell.short for cell in CELLS] + [short for _, _, cells in OTHERS for short in cells]


def main():
    options = arguments()
    try:
        tool("redis-benchmark", "redis-tools")
        tool("redis-server", "redis-server")
        servers.built("floor")
        if any(short.startswith("memcached") for short in options.only):
            tool("memcached", "memcached")
    except Unavailable as problem:
        sys.exit(f"bench-peers: {problem}")
    cells = [cell for cell in CELLS if cell.short in options.only and (cell.operation or options.load == "redis-benchmark")]
    facts = machine.describe()
    rounds, missing = [], []
    if cells:
        per_start = 1 if options.keys <= KEYS_COUNT else options.rounds
        for first in range(0, options.rounds, per_start):
            with contextlib.ExitStack() as stack:
                groups, missing = start(stack, cells, options)
                for server in {id(s): s for group in groups.values() for s in group.values()}.values():
                    server.pause()
                rounds += measure(cells, groups, range(first, min(first + per_start, options.rounds)), options)
    report = {"machine": facts, "keys": options.keys, "load": options.load, "floor_threads": options.floor_threads,
              "rounds": rounds, "missing": missing}
    over = show(report, cells) if cells else []
    try:
        report["others"], broken_there = others(options)
    except (Unavailable, loading.Failed) as problem:
        sys.exit(f"bench-peers: {problem}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)
    over += broken_there
    for line in over:
        print(f"over: {line}")
    if missing or (over and options.gate):
        sys.exit(1)


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=machine.NOISE, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10, help="interleaved rounds (default 10)")
    parser.add_argument("--scale", type=float, default=1.0, help="requests per cell, relative to the default")
    parser.add_argument("--slice", type=float, default=0.3, metavar="SECONDS",
                        help="how long a server and its load have the cores before the next have them (default 0.3)")
    parser.add_argument("--keys", type=int, default=KEYS_COUNT,
                        help=f"keys of Redis' protocol, preloaded and asked for (default {KEYS_COUNT}); with more than fit the processor's "
                             "caches the figures are reported and no promise is checked")
    parser.add_argument("--only", type=names, default=SHORTS, metavar="CELLS", help=f"some of {','.join(SHORTS)}")
    parser.add_argument("--load", choices=LOADS, default="redis-benchmark",
                        help="of the cells of Redis' protocol (default redis-benchmark)")
    parser.add_argument("--uring", action="store_true", help="also this server over io_uring, of which nothing is promised")
    parser.add_argument("--floor-threads", type=int, default=1, metavar="COUNT",
                        help="threads of the floor's process, of which all but one sleep (default 1, for which ratios are promised); with "
                             "more a call on a socket costs it what it costs any server of several threads, and no promise is checked")
    parser.add_argument("--server-cpu", type=int, default=0)
    parser.add_argument("--load-cpu", type=int, default=1)
    parser.add_argument("--json", metavar="FILE", help="also write every figure of every round to FILE")
    parser.add_argument("--gate", action="store_true", help="end with 1 when a promised ratio is exceeded")
    return parser.parse_args()


def names(text):
    """The cells of --only."""
    chosen = text.split(",")
    wrong = sorted(set(chosen) - set(SHORTS))
    if wrong:
        raise argparse.ArgumentTypeError(f"no such cell: {', '.join(wrong)}")
    return chosen


def start(stack, cells, options):
    """Starts and fills every server. Returns ({cell name: {server name: Server}}, [what could not be started])."""
    def begin(name, command):
        return stack.enter_context(Server(name, command, options.server_cpu))

    missing = []
    peers = {"redis": begin("redis", servers.redis_command)}
    try:
        peers["expresslane"] = begin("expresslane", servers.expresslane_command(lanes=1))
        if options.uring:
            peers["uring"] = begin("uring", servers.expresslane_command(lanes=1, extra=["--io", "uring"]))
    except Unavailable as problem:
        missing.append(str(problem))
    for server in peers.values():
        fill(server.port, options.keys, VALUE_SIZE)
        load(server.port, counters(min(options.keys, 10_000)))
    floors = {size: begin("floor", floor_command(size, options.floor_threads))
              for size in sorted({c.reply_size for c in cells})}
    return {cell.name: {"floor": floors[cell.reply_size], **peers} for cell in cells}, missing


def counters(count):
    yield b"".join(request("SET", b"counter:%012d" % n, "0") for n in range(count)), count


def measure(cells, groups, numbers, options):
    rounds = []
    for number in numbers:
        for cell in cells:
            names = list(groups[cell.name])
            # Each server comes first, in the middle and last equally often.
            turn = number % len(names)
            runs = [Run(name, cell, groups[cell.name][name], options) for name in names[turn:] + names[:turn]]
            rounds += [{"round": number, "cell": cell.name, **row} for row in in_turn(runs, options.slice)]
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
    return rounds


def in_turn(runs, seconds):
    """Gives each run the cores for so long, again and again until all are at their end. Returns their rows."""
    span = machine.Span()
    waiting = list(runs)
    while waiting:
        for run in waiting:
            run.go_on(seconds)
        waiting = [run for run in waiting if not run.is_over]
    rows = [run.row() for run in runs]
    around = span.end(sum(run.cpu_seconds for run in runs))
    return [{**row, **around} for row in rows]


class Run:
    """One cell against one server."""

    def __init__(self, name, cell, server, options):
        self.name, self.server = name, server
        self.count = max(int(cell.requests * options.scale), CONNECTIONS_COUNT * cell.pipeline)
        self.before = server.cpu_ns(), server.wakes()
        # Seconds in which it had the cores.
        self.elapsed = 0
        self.is_over = False
        self.cpu_seconds = 0
        self._started = threading.Event()
        # A problem elsewhere ends the program whatever this one waits for.
        self._thread = threading.Thread(target=self._load, args=(cell, options), daemon=True)

    def _load(self, cell, options):
        try:
            self._client = LOADS[options.load](cell, self.server, self.count, options, self._begin)
        except (loading.Failed, OSError) as problem:
            self._client = problem
            self._started.set()

    def _begin(self, pid):
        self._pid = pid
        self._started.set()

    def go_on(self, seconds):
        """Has the cores for so long, or until its end."""
        began = time.monotonic()
        self.server.resume()
        if self._thread.ident is None:
            self._thread.start()
            self._started.wait()
        else:
            self._tell(signal.SIGCONT)
        self._thread.join(seconds)
        if self._thread.is_alive():
            self._tell(signal.SIGSTOP)
        else:
            self.is_over = True
        self.server.pause()
        self.elapsed += time.monotonic() - began

    def _tell(self, number):
        """Sends its load a signal, unless that has just come to its end: then the next slice is its last."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, number)

    def row(self):
        """Its figures."""
        client = self._client
        if isinstance(client, Exception):
            sys.exit(f"bench-peers: the load of {self.name} failed: {client}")
        cpu_ns, wakes = self.server.cpu_ns() - self.before[0], self.server.wakes() - self.before[1]
        self.cpu_seconds = cpu_ns / 1e9 + client["cpu_seconds"]
        return {
            "server": self.name,
            "requests": self.count,
            "cpu_us_per_request": cpu_ns / 1000 / self.count,
            "client_cpu_us_per_request": client["cpu_seconds"] * 1e6 / self.count,
            "requests_per_second": self.count / self.elapsed,
            "requests_per_wake_server": self.count / max(wakes, 1),
            "requests_per_wake_client": self.count / max(client["wakes"], 1),
        }


def redis_benchmark(cell, server, count, options, begin):
    command = [
        tool("taskset", "util-linux"), "-c", str(options.load_cpu), tool("redis-benchmark", "redis-tools"),
        *["-h", "127.0.0.1", "-p", str(server.port), "-c", str(CONNECTIONS_COUNT), "-P", str(cell.pipeline)],
        *["-n", str(count), "-r", str(options.keys), "--csv", *cell.arguments],
    ]
    _, usage = loading.run(command, (0,), begin)
    return usage


def bench_run(cell, server, count, options, begin):
    return loading.load(server.port, cpu=options.load_cpu, begin=begin, operations=cell.operation, requests=count,
                        pipeline=cell.pipeline, connections=CONNECTIONS_COUNT, value_size=VALUE_SIZE, keys=options.keys,
                        key_prefix="counter:" if cell.operation == "incr" else "key:")


LOADS = {"redis-benchmark": redis_benchmark, "bench": bench_run}


def show(report, cells):
    """Prints the tables. Returns the promises that were not kept."""
    facts, rounds = report["machine"], report["rounds"]
    print(machine.headline(facts, f"{report['keys']} keys", f"{CONNECTIONS_COUNT} connections", f"{VALUE_SIZE} B values",
                           f"load by {report['load']}", f"floor of {report['floor_threads']} thread(s)"))
    print("\n".join(machine.quietness(facts, rounds)))
    for problem in report["missing"]:
        print(f"left out: {problem}")
    print(f"\n{'cell':<11} {'server':<12} {'CPU µs/request':<24} {'requests/s':>10} {'req/wake: server':>17} "
          f"{'client':>7}  {'÷ floor':<22} {'÷ redis':<22}")
    over = []
    for cell in cells:
        costs = {}
        for row in (r for r in rounds if r["cell"] == cell.name):
            costs.setdefault(row["server"], []).append(row)
        for name, rows in costs.items():
            ratios = {peer: ratio(rows, costs[peer]) for peer in ("floor", "redis") if peer != name}
            print(f"{cell.name:<11} {name:<12} {spread([r['cpu_us_per_request'] for r in rows]):<24} "
                  f"{middle(rows, 'requests_per_second'):>10,.0f} {middle(rows, 'requests_per_wake_server'):>17.1f} "
                  f"{middle(rows, 'requests_per_wake_client'):>7.1f}  "
                  f"{spread(ratios.get('floor')):<22} {spread(ratios.get('redis')):<22}".rstrip())
            if name != "expresslane":
                continue
            is_promised = report["keys"] <= KEYS_COUNT and report["floor_threads"] == 1
            over += broken(cell, ratios) if is_promised else []
    print("req/wake: requests between two sleeps of that side; few mean that waking up is a part of what is measured")
    return over


def others(options):
    """The cells of the other protocols. Returns their rows by program, and the promises that were not kept."""
    rows, over = {}, []
    for title, program, shorts in OTHERS:
        wanted = [shorts[short] for short in options.only if short in shorts]
        cells = [cell for cell in program.CELLS if cell.name in wanted]
        if cells:
            print(f"\n{title}:")
            rows[program.__name__], broken_here = program.compared(options, cells)
            over += [f"{program.__name__} {line}" for line in broken_here]
    return rows, over


def broken(cell, ratios):
    """The promises that a cell does not keep."""
    for peer, bound in cell.bounds.items():
        got = statistics.median(ratios[peer])
        if got > bound:
            yield f"{cell.name}: {got:.2f} × {peer}, promised {bound:.2f}"


def middle(rows, field):
    return statistics.median(row[field] for row in rows)


def ratio(rows, peers):
    """CPU time per request relative to a peer's, round by round."""
    return [a["cpu_us_per_request"] / b["cpu_us_per_request"] for a, b in zip(rows, peers)]


if __name__ == "__main__":
    main()
