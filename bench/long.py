#!/usr/bin/env python3
"""What others wait for while one client is sent the reply of a long MGET, or has a long script run: redis-server, this server with one
lane and with two.

A client asks for some tens of thousands of long values in one command and reads the reply as fast as it can; with --script it asks for a
loop in Lua instead. Another one says GET for a short value once a millisecond meanwhile, and waits for each answer. With two lanes each has half of the values, and one lane's values
leave by the other. Servers take turns and are started anew for each round. Where `perf` may count them (as root), the calls with which a
server's threads wait for one another (futex) and change their addresses (mprotect, munmap, brk) are shown, and pages touched first.
"""

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import machine
import servers
from servers import Server, Unavailable

NAMES_COUNT, KEYS_COUNT, VALUE_SIZE = 20_000, 200, 40_000
PAUSE_S = 0.001
QUANTILES = {"p50": 0.5, "p99": 0.99}
CALLS = ("futex", "mprotect", "munmap", "brk")
EVENTS = tuple(f"syscalls:sys_enter_{name}" for name in CALLS) + ("minor-faults",)


def main():
    options = arguments()
    facts = machine.describe()
    commands = {
        "redis": servers.redis_command,
        "expresslane": servers.expresslane_command(1, ["--cpus", "0"]),
        "two lanes": servers.expresslane_command(2, ["--cpus", "0,1"]),
    }
    rounds = []
    try:
        for number in range(options.rounds):
            names = list(commands) if number % 2 == 0 else list(reversed(commands))
            for name in names:
                with Server(name.replace(" ", "-"), commands[name], 0 if name == "redis" else None) as server:
                    rounds.append({"round": number, "server": name, **beside(server, options)})
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
    except Unavailable as problem:
        sys.exit(f"bench-long: {problem}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"machine": facts, "rounds": rounds}, file, indent=1)
    show(facts, rounds, options)


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=machine.NOISE, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=6, help="interleaved rounds (default 6)")
    parser.add_argument("--names", type=int, default=NAMES_COUNT, help=f"keys that the MGET names (default {NAMES_COUNT:,}, of {KEYS_COUNT})")
    parser.add_argument("--size", type=int, default=VALUE_SIZE, help=f"of each value, in bytes (default {VALUE_SIZE:,})")
    parser.add_argument("--script", type=int, metavar="TURNS", help="of the loop of a script that runs instead of the MGET")
    parser.add_argument("--json", metavar="FILE", help="also write every figure of every round to FILE")
    return parser.parse_args()


def beside(server, options):
    """Times of the short commands during the long one in microseconds, and what the server asked of the kernel meanwhile."""
    if not options.script:
        value = b"x" * options.size
        servers.load(server.port, [(servers.request("SET", f"long:{n}", value), 1) for n in range(KEYS_COUNT)])
    span, cpu_ns, own = machine.Span(), server.cpu_ns(), sum(os.times()[:4])
    with Counted(server.pid) as counted, socket.create_connection(("127.0.0.1", server.port), 10) as polite:
        reader = os.fork()
        if reader == 0:
            os._exit(run_script(server.port, options.script) if options.script else read_long(server.port, options))
        began, times, status = time.perf_counter(), [], (0, 0)
        while status[0] == 0:
            sent = time.perf_counter()
            polite.sendall(b"GET short\r\n")
            if not polite.recv(64).startswith(b"$-1"):
                raise Unavailable(f"{server.name} did not answer as expected")
            times.append((time.perf_counter() - sent) * 1e6)
            time.sleep(PAUSE_S)
            status = os.waitpid(reader, os.WNOHANG)
        elapsed = time.perf_counter() - began
    if status[1] != 0:
        raise Unavailable(f"{server.name} did not answer the long command to its end")
    around = span.end((server.cpu_ns() - cpu_ns) / 1e9 + sum(os.times()[:4]) - own)
    ordered = sorted(times)
    found = {name: ordered[int(share * len(ordered))] for name, share in QUANTILES.items()}
    return found | {"max": ordered[-1], "took_s": elapsed, "kernel": counted.found} | around


def read_long(port, options):
    """Asks, and reads all of the answer. The exit code."""
    names = [f"long:{n % KEYS_COUNT}" for n in range(options.names)]
    owed = len(b"*%d\r\n" % options.names) + options.names * (options.size + len(b"$%d\r\n\r\n" % options.size))
    room = bytearray(1 << 20)
    with socket.create_connection(("127.0.0.1", port), 60) as client:
        client.sendall(servers.request("MGET", *names))
        while owed > 0 and (got := client.recv_into(room)) > 0:
            owed -= got
    return 0 if owed == 0 else 1


def run_script(port, turns):
    """Has a loop run that holds one key, and waits for its end. The exit code."""
    script = "local sum = 0 for i = 1, tonumber(ARGV[1]) do sum = sum + i % 7 end return redis.call('set', KEYS[1], sum)"
    with socket.create_connection(("127.0.0.1", port), 60) as client:
        client.sendall(servers.request("EVAL", script, "1", "held", turns))
        return 0 if client.recv(64) == b"+OK\r\n" else 1


class Counted:
    """What perf counts of a process; `found` is None where it can't."""

    def __init__(self, pid):
        self.found = None
        self._file = tempfile.NamedTemporaryFile("r")
        perf = shutil.which("perf")
        command = [perf, "stat", "-x", ",", "-e", ",".join(EVENTS), "-o", self._file.name, "-p", str(pid)]
        self._perf = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) if perf else None

    def __enter__(self):
        time.sleep(0.3)  # It says nothing when it has begun.
        return self

    def __exit__(self, *_):
        if self._perf:
            self._perf.send_signal(signal.SIGINT)
            self._perf.wait()
            counts = [line.split(",")[0] for line in self._file if line.count(",") > 2]
            if len(counts) == len(EVENTS) and all(count.isdigit() for count in counts):
                self.found = dict(zip((*CALLS, "pages"), map(int, counts)))
        self._file.close()


def show(facts, rounds, options):
    long = f"a script of {options.script:,} turns" if options.script else f"MGET of {options.names:,} × {options.size:,} bytes"
    print(machine.headline(facts, long, f"{options.rounds} rounds"))
    print("\n".join(machine.quietness(facts, rounds)))
    print("\nanswers to the other client: ms; the long command: s; median of the rounds (range)")
    columns = {**dict.fromkeys((*QUANTILES, "max"), 1e-3), "took_s": 1}
    print(f"{'':<13}" + "".join(f"{name:<26}" for name in columns) + "calls while it was sent, first touches of pages")
    for name in ("redis", "expresslane", "two lanes"):
        runs = [run for run in rounds if run["server"] == name]
        line = "".join(f"{machine.spread([run[key] * factor for run in runs]):<26}" for key, factor in columns.items())
        print(f"{name:<13}{line}{calls([run['kernel'] for run in runs if run['kernel']])}")
    if not any(run["kernel"] for run in rounds):
        print("calls: perf is missing or may not look (install linux-perf, run as root)")


def calls(found):
    """Medians of what was asked at all."""
    if not found:
        return "?"
    medians = {name: sorted(each[name] for each in found)[len(found) // 2] for name in found[0]}
    return ", ".join(f"{name} {count:,}" for name, count in medians.items() if count) or "none"


if __name__ == "__main__":
    main()
