#!/usr/bin/env python3
"""What documents cost: this server and Debian's memcached under the same load of memcached's text protocol.

Each server is pinned to one core, with one lane or one worker thread, and the load (`bench run`) to another. What is compared
is the CPU time of all the server's threads per request (schedstat), in interleaved rounds; and resident bytes per document
of 16-byte keys and 32-byte values, as the growth of RSS while they are stored.
"""

import argparse
import contextlib
import statistics
import sys

import loading
import machine
from machine import spread
from servers import Server, Unavailable, expresslane_command, free_port, memcached_command, tool

CONNECTIONS_COUNT = 50
VALUE_SIZE = 100
KEYS_COUNT = 10_000
# Of the documents that are counted in bytes: a name of four bytes and twelve digits, as `bench run` makes them.
DOCUMENT_SIZE = 32
PREFIX = "key:"


class Cell:
    """One kind of load, and what this server promises: the largest ratio of its CPU time per request to memcached's."""

    def __init__(self, name, operation, pipeline, requests, bound=None):
        self.name, self.operation, self.pipeline, self.requests, self.bound = name, operation, pipeline, requests, bound


CELLS = [
    Cell("get", "get", 1, 150_000),
    Cell("get P16", "get", 16, 600_000, 0.75),
    Cell("set P16", "set", 16, 600_000),
]
# Bytes that a document takes, at most: those of a plain key, and eight.
BYTES_MAX = 72 + 8


def main():
    options = arguments()
    try:
        tool("memcached", "memcached")
        facts = machine.describe()
        with contextlib.ExitStack() as stack:
            peers = {name: stack.enter_context(one) for name, one in servers(options).items()}
            for server in peers.values():
                fill(server, KEYS_COUNT, VALUE_SIZE)
                server.pause()
            rounds = [row for number in range(options.rounds) for row in one_round(number, peers, options)]
        sizes = {name: bytes_each(server, options.documents) for name, server in servers(options).items()}
    except (Unavailable, loading.Failed) as problem:
        sys.exit(f"bench-memcached: {problem}")
    if show(facts, rounds, sizes, options) and options.gate:
        sys.exit(1)


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=machine.NOISE, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10, help="interleaved rounds (default 10)")
    parser.add_argument("--scale", type=float, default=1.0, help="requests per cell, relative to the default")
    parser.add_argument("--documents", type=int, default=1_000_000, help="whose bytes are counted (default 1,000,000)")
    parser.add_argument("--server-cpu", type=int, default=0)
    parser.add_argument("--load-cpu", type=int, default=1)
    parser.add_argument("--gate", action="store_true", help="end with 1 when a promise is not kept")
    return parser.parse_args()


def servers(options):
    """Both, not started yet: what is measured at their port is memcached's protocol."""
    port = free_port()

    def ours(redis_port, directory):
        return [*expresslane_command(lanes=1, extra=["--memcached", str(port)])(redis_port, directory)]

    def theirs(memcached_port, directory):
        # Memory enough for all of it: nothing is evicted meanwhile.
        return [*memcached_command(memcached_port, directory), "-t", "1", "-m", "4096"]

    return {
        "memcached": Documents("memcached", theirs, options.server_cpu),
        "expresslane": Documents("expresslane", ours, options.server_cpu, documents_port=port),
    }


class Documents(contextlib.AbstractContextManager):
    """A server that starts when it is entered, and where memcached's protocol is spoken."""

    def __init__(self, name, command, cpu, documents_port=None):
        self._begin = lambda: Server(name, command, cpu)
        self._port = documents_port

    def __enter__(self):
        server = self._begin()
        server.documents_port = self._port or server.port
        self._server = server
        return server

    def __exit__(self, *_):
        self._server.end()


def fill(server, count, value_size):
    whole = run(server, operations="set", keys=count, key_distribution="sequential", requests=count, pipeline=100,
                connections=10, value_size=value_size)["whole"]
    if whole["errors"] or whole["answered"] != count:
        raise loading.Failed(f"{count - whole['answered'] + whole['errors']} of {count} documents were not stored")


def run(server, **load):
    return loading.load(server.documents_port, protocol="memcached", key_prefix=PREFIX, **load)


def one_round(number, peers, options):
    names = list(peers)
    for cell in CELLS:
        count = max(int(cell.requests * options.scale), CONNECTIONS_COUNT * cell.pipeline)
        for name in names if number % 2 else reversed(names):
            server = peers[name]
            server.resume()
            before, span = server.cpu_ns(), machine.Span()
            seen = run(server, cpu=options.load_cpu, operations=cell.operation, keys=KEYS_COUNT, requests=count,
                       pipeline=cell.pipeline, connections=CONNECTIONS_COUNT, value_size=VALUE_SIZE)
            cpu_ns = server.cpu_ns() - before
            around = span.end(cpu_ns / 1e9 + seen["cpu_seconds"])
            server.pause()
            if seen["whole"]["errors"]:
                raise loading.Failed(f"{name} answered {seen['whole']['errors']} requests with errors")
            yield {"cell": cell.name, "server": name, "us": cpu_ns / 1000 / seen["whole"]["answered"], **around}


def bytes_each(server, count):
    with server as running:
        before = running.rss_bytes()
        fill(running, count, DOCUMENT_SIZE)
        return (running.rss_bytes() - before) / count


def show(facts, rounds, sizes, options):
    """Prints the tables. Returns the promises that were not kept."""
    print(machine.headline(facts, f"{KEYS_COUNT} keys", f"{CONNECTIONS_COUNT} connections", f"{VALUE_SIZE} B values"))
    print("\n".join(machine.quietness(facts, rounds)))
    print(f"\n{'cell':<10} {'memcached: CPU µs/request':<28} {'expresslane':<28} {'÷ memcached':<22}")
    over = []
    for cell in CELLS:
        theirs, ours = ([row["us"] for row in rounds if (row["cell"], row["server"]) == (cell.name, name)]
                        for name in ("memcached", "expresslane"))
        ratios = [a / b for a, b in zip(ours, theirs)]
        print(f"{cell.name:<10} {spread(theirs):<28} {spread(ours):<28} {spread(ratios):<22}".rstrip())
        if cell.bound is not None and statistics.median(ratios) > cell.bound:
            over.append(f"{cell.name}: {statistics.median(ratios):.2f} × memcached, promised {cell.bound:.2f}")
    print(f"\nbytes a document, of {options.documents:,}: memcached {sizes['memcached']:.1f}, "
          f"expresslane {sizes['expresslane']:.1f}")
    if sizes["expresslane"] > BYTES_MAX:
        over.append(f"{sizes['expresslane']:.1f} bytes a document, promised {BYTES_MAX}")
    for line in over:
        print(f"over: {line}")
    return over


if __name__ == "__main__":
    main()
