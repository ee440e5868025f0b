#!/usr/bin/env python3
"""How long a client waits that asks for one thing after the other, beside others that ask for much: this server with one lane and Debian's
redis-server, in turns.

The neighbours and who asks are processes of the load's core, the latter with a priority of its own where it may (SCHED_FIFO), so that
its times are the server's. It sends PING, waits for the answer, and sleeps a millisecond.
"""

import argparse
import contextlib
import os
import select
import socket
import statistics
import subprocess
import sys
import time

import machine
import servers
from servers import Server, Unavailable, request

VALUE = b"v" * 1000
LONG_VALUE = b"v" * 16_300
MESSAGE = b"m" * 64_000
PUBLISH_SECONDS = 0.1
# The neighbours: how many there are, and what each sends again and again; those that send nothing listen.
CELLS = {
    "get": ("100 clients that pipeline GETs of 1 kB", 100, request("GET", "value") * 200),
    "bitcount": ("16 clients that pipeline BITCOUNTs of 16 kB", 16, request("BITCOUNT", "long") * 64),
    "publish": ("500 subscribers to messages of 64 kB, ten a second", 500, None),
}
BEGIN_SECONDS = 0.5


def main():
    options = arguments()
    if options.neighbours:
        return neighbours(options.neighbours, options.port, options.seconds + 2 * BEGIN_SECONDS)
    if options.ask:
        return ask(options.port, options.seconds)
    facts = machine.describe()
    try:
        with contextlib.ExitStack() as stack:
            pool = start(stack, options)
            rounds = [run(pool[name], cell, number, options)
                      for number in range(options.rounds) for cell in options.only for name in pool]
    except Unavailable as problem:
        sys.exit(f"bench-neighbours: {problem}")
    show(facts, rounds, options)
    return None


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=machine.NOISE, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="interleaved rounds (default 3)")
    parser.add_argument("--seconds", type=float, default=3, help="of each run (default 3)")
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(CELLS), metavar="CELLS",
                        help=f"some of {','.join(CELLS)}")
    parser.add_argument("--server-cpu", type=int, default=0)
    parser.add_argument("--load-cpu", type=int, default=1)
    # The two sides of the load, which are processes of this program.
    parser.add_argument("--neighbours", choices=CELLS, help=argparse.SUPPRESS)
    parser.add_argument("--ask", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    return parser.parse_args()


def start(stack, options):
    commands = {
        "redis": servers.redis_command,
        "expresslane": servers.expresslane_command(1, ["--cpus", str(options.server_cpu)]),
    }
    pool = {}
    for name, command in commands.items():
        pool[name] = stack.enter_context(Server(name, command, options.server_cpu))
        values = request("SET", "value", VALUE) + request("SET", "long", LONG_VALUE)
        servers.load(pool[name].port, [(values, 2)])
        pool[name].pause()
    return pool


def run(server, cell, number, options):
    def side(*flags):
        command = [sys.executable, __file__, *flags, "--port", str(server.port), "--seconds", str(options.seconds)]
        return subprocess.Popen([servers.tool("taskset", "util-linux"), "-c", str(options.load_cpu), *command],
                                stdout=subprocess.PIPE, text=True)

    server.resume()
    span, before = machine.Span(), (server.cpu_ns(), os.times())
    with side("--neighbours", cell) as others:
        time.sleep(BEGIN_SECONDS)
        with side("--ask") as asking:
            times = [float(word) for word in asking.stdout.read().split()]
        others.wait()
    load_seconds = sum(os.times()[2:4]) - sum(before[1][2:4])
    around = span.end((server.cpu_ns() - before[0]) / 1e9 + load_seconds)
    server.pause()
    if others.returncode or asking.returncode or len(times) != 3:
        raise Unavailable(f"{server.name}, {cell}: the load has failed")
    return {"round": number, "cell": cell, "server": server.name, "times": times, **around}


def neighbours(cell, port, seconds):
    """One of the cells, for so long."""
    _, count, payload = CELLS[cell]
    poll, clients, unsent = select.epoll(), {}, {}
    for _ in range(count):
        client = socket.create_connection(("127.0.0.1", port))
        if payload is None:
            client.sendall(request("SUBSCRIBE", "channel"))
            client.recv(100)
        client.setblocking(False)
        clients[client.fileno()] = client
        poll.register(client, select.EPOLLIN | (0 if payload is None else select.EPOLLOUT))
    publisher = socket.create_connection(("127.0.0.1", port))
    publisher.setblocking(False)
    end, next_message = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        if payload is None and next_message <= time.monotonic():
            next_message = time.monotonic() + PUBLISH_SECONDS
            with contextlib.suppress(BlockingIOError):
                publisher.recv(1000)
            publisher.sendall(request("PUBLISH", "channel", MESSAGE))
        for fd, event in poll.poll(PUBLISH_SECONDS / 10):
            with contextlib.suppress(BlockingIOError):
                if event & select.EPOLLIN:
                    clients[fd].recv(1 << 20)
                if event & select.EPOLLOUT:
                    rest = unsent.get(fd) or payload
                    unsent[fd] = rest[clients[fd].send(rest):]


def ask(port, seconds):
    """Prints the median, p99 and longest time of a PING, in milliseconds."""
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    client = socket.create_connection(("127.0.0.1", port))
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    times, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.monotonic()
        client.sendall(b"PING\r\n")
        client.recv(100)
        times.append((time.monotonic() - began) * 1e3)
        time.sleep(0.001)
    times.sort()
    print(times[len(times) // 2], times[len(times) * 99 // 100], times[-1])


def show(facts, rounds, options):
    print(machine.headline(facts, "PING", f"{options.rounds} rounds of {options.seconds:g} s"))
    print("\n".join(machine.quietness(facts, rounds)))
    print("\nmilliseconds, median of the rounds (range)")
    for cell in options.only:
        print(f"\n{CELLS[cell][0]}\n{'':<14}{'median':<24}{'p99':<24}longest")
        for name in dict.fromkeys(run["server"] for run in rounds):
            runs = [run["times"] for run in rounds if run["server"] == name and run["cell"] == cell]
            columns = [f"{statistics.median(column):.2f} ({min(column):.2f}–{max(column):.2f})" for column in zip(*runs)]
            print(f"{name:<14}" + "".join(f"{column:<24}" for column in columns).rstrip())


if __name__ == "__main__":
    main()
