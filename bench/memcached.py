#!/usr/bin/env python3
"""What documents cost: this server and Debian's memcached under the same load of memcached's protocols.

Each server is pinned to one core, with one lane or one worker thread, and the load (`bench run`) to another. What is compared
is the CPU time of all the server's threads per request (schedstat), in interleaved rounds; and resident bytes per document
of 16-byte keys and 32-byte values, as the growth of RSS while they are stored.
"""

import contextlib
import sys

import loading
import machine
import rounds
from rounds import CONNECTIONS_COUNT, KEYS_COUNT, VALUE_SIZE
from servers import Server, Unavailable, expresslane_command, free_port, memcached_command, tool

# Of the documents that are counted in bytes: a name of four bytes and twelve digits, as `bench run` makes them.
DOCUMENT_SIZE = 32
PREFIX = "key:"


class Cell:
    """One kind of load, and what this server promises: the largest ratio of its CPU time per request to memcached's."""

    def __init__(self, name, operation, pipeline, requests, bound=None, protocol="memcached"):
        self.name, self.operation, self.pipeline, self.requests, self.bound = name, operation, pipeline, requests, bound
        self.protocol = protocol


CELLS = [
    Cell("get", "get", 1, 150_000),
    Cell("get P16", "get", 16, 600_000, 0.75),
    Cell("set P16", "set", 16, 600_000),
    Cell("binary get P16", "get", 16, 600_000, 0.75, "memcached-binary"),
    Cell("binary set P16", "set", 16, 600_000, None, "memcached-binary"),
]
# Bytes that a document takes, at most: those of a plain key, and eight.
BYTES_MAX = 72 + 8


def main():
    options = rounds.arguments(__doc__, "documents")
    try:
        _, over = compared(options, CELLS)
        sizes = {}
        for name, server in servers(options).items():
            with server as running:
                sizes[name] = rounds.bytes_each(running, options.count, lambda server, count: fill(server, count, DOCUMENT_SIZE))
    except (Unavailable, loading.Failed) as problem:
        sys.exit(f"bench-memcached: {problem}")
    print(f"\nbytes a document, of {options.count:,}: memcached {sizes['memcached']:.1f}, "
          f"expresslane {sizes['expresslane']:.1f}")
    if sizes["expresslane"] > BYTES_MAX:
        over.append(f"{sizes['expresslane']:.1f} bytes a document, promised {BYTES_MAX}")
    for line in over:
        print(f"over: {line}")
    if over and options.gate:
        sys.exit(1)


def compared(options, cells):
    """Measures these cells and prints what came of it. Returns the rows, and the promises that were not kept."""
    def load(server, cell, count):
        return run(server, cell.protocol, cpu=options.load_cpu, operations=cell.operation, keys=KEYS_COUNT, requests=count,
                   pipeline=cell.pipeline, connections=CONNECTIONS_COUNT, value_size=VALUE_SIZE)

    tool("memcached", "memcached")
    facts = machine.describe()
    with contextlib.ExitStack() as stack:
        peers = {name: stack.enter_context(one) for name, one in servers(options).items()}
        for server in peers.values():
            fill(server, KEYS_COUNT, VALUE_SIZE)
            server.pause()
        rows = rounds.measure(peers, cells, options, load)
    return rows, rounds.show(facts, rows, cells, "memcached")


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


def run(server, protocol="memcached", **load):
    return loading.load(server.documents_port, protocol=protocol, key_prefix=PREFIX, **load)


if __name__ == "__main__":
    main()
