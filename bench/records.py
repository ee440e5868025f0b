#!/usr/bin/env python3
"""What records cost: this server under Aerospike's protocol, the floor and Debian's redis-server under requests of the same sizes.

Aerospike's clients have one request under way on a connection, so nothing is pipelined. A get of one record is 76 bytes and
its reply 139; the floor and redis-server are asked by Redis' protocol for values that make requests and replies as long, so
that the kernel does the same for all three. What is compared is the CPU time of all the server's threads per request
(schedstat), in interleaved rounds; and resident bytes per record with one bin of 32 bytes, as the growth of RSS.
"""

import contextlib
import sys

import loading
import machine
import rounds
from rounds import CONNECTIONS_COUNT, KEYS_COUNT, VALUE_SIZE
from servers import Server, Unavailable, expresslane_command, floor_command, free_port, redis_command, tool

# `*2 $3 GET $56 <56 bytes>` with its line ends is as long as the request for a record of the set "testset": header 30,
# namespace 9, set 12, digest 25.
KEY_PREFIX = "k" * 44
# Header 30, and a bin of one letter with VALUE_SIZE bytes; as a bulk string, 8 bytes less its framing.
RECORD_REPLY_SIZE = 30 + 8 + 1 + VALUE_SIZE
BULK_SIZE = RECORD_REPLY_SIZE - 8
RECORD_SIZE = 32


class Cell:
    """One kind of load, and what this server promises: the largest ratio of its CPU time per request to the floor's."""

    def __init__(self, name, operation, requests, bound=None):
        self.name, self.operation, self.pipeline, self.requests, self.bound = name, operation, 1, requests, bound


CELLS = [Cell("get", "get", 150_000, 1.15), Cell("put", "set", 150_000)]


def main():
    options = rounds.arguments(__doc__, "records")
    try:
        _, over = compared(options, CELLS)
        with contextlib.ExitStack() as stack:
            size = rounds.bytes_each(
                ours(stack, options), options.count, lambda server, count: fill(server, count, RECORD_SIZE))
    except (Unavailable, loading.Failed) as problem:
        sys.exit(f"bench-aerospike: {problem}")
    print(f"\nbytes a record, of {options.count:,}: {size:.1f}")
    for line in over:
        print(f"over: {line}")
    if over and options.gate:
        sys.exit(1)


def compared(options, cells):
    """Measures these cells and prints what came of it. Returns the rows, and the promises that were not kept."""
    def load(server, cell, count):
        value_size = VALUE_SIZE if server.records_port else BULK_SIZE
        return run(server, cpu=options.load_cpu, operations=cell.operation, keys=KEYS_COUNT, requests=count,
                   connections=CONNECTIONS_COUNT, value_size=value_size)

    tool("redis-server", "redis-server")
    facts = machine.describe()
    with contextlib.ExitStack() as stack:
        peers = {
            "floor": begin(stack, "floor", floor_command(BULK_SIZE), options),
            "redis": begin(stack, "redis", redis_command, options),
            "expresslane": ours(stack, options),
        }
        for name, server in peers.items():
            if name != "floor":
                fill(server, KEYS_COUNT, VALUE_SIZE if server.records_port else BULK_SIZE)
            server.pause()
        rows = rounds.measure(peers, cells, options, load)
    over = rounds.show(facts, rows, cells, "floor")
    print()
    rounds.table(rows, cells, "floor", "redis")
    return rows, over


def begin(stack, name, command, options, records_port=None):
    """A server that runs until the stack is left; `records_port` is where Aerospike's protocol is spoken."""
    server = Server(name, command, options.server_cpu)
    stack.callback(server.end)
    server.records_port = records_port
    return server


def ours(stack, options):
    port = free_port()
    command = expresslane_command(lanes=1, extra=["--aerospike", str(port)])
    return begin(stack, "expresslane", command, options, records_port=port)


def fill(server, count, value_size):
    whole = run(server, operations="set", keys=count, key_distribution="sequential", requests=count, connections=50,
                value_size=value_size)["whole"]
    if whole["errors"] or whole["answered"] != count:
        raise loading.Failed(f"{count - whole['answered'] + whole['errors']} of {count} records were not stored")


def run(server, **load):
    if server.records_port:
        return loading.load(server.records_port, protocol="aerospike", **load)
    return loading.load(server.port, key_prefix=KEY_PREFIX, **load)


if __name__ == "__main__":
    main()
