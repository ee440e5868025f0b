"""What a request costs each of several servers: cells of load in interleaved rounds, one server at a time, the others stopped."""

import argparse
import statistics

import loading
import machine
from machine import spread

CONNECTIONS_COUNT = 50
VALUE_SIZE = 100
KEYS_COUNT = 10_000


def arguments(description, documents):
    """The flags of a program of rounds; `documents` is what the bytes are counted of."""
    parser = argparse.ArgumentParser(
        description=description, epilog=machine.NOISE, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10, help="interleaved rounds (default 10)")
    parser.add_argument("--scale", type=float, default=1.0, help="requests per cell, relative to the default")
    parser.add_argument(f"--{documents}", dest="count", type=int, default=1_000_000,
                        help="whose bytes are counted (default 1,000,000)")
    parser.add_argument("--server-cpu", type=int, default=0)
    parser.add_argument("--load-cpu", type=int, default=1)
    parser.add_argument("--gate", action="store_true", help="end with 1 when a promise is not kept")
    return parser.parse_args()


def measure(peers, cells, options, load):
    """Rows of all rounds. `peers` are servers by name, paused; each cell has a name, a pipeline and a number of requests.

    `load(server, cell, count)` sends so many requests from `options.load_cpu` and gives the run.
    """
    return [row for number in range(options.rounds) for row in _round(number, peers, cells, options, load)]


def _round(number, peers, cells, options, load):
    names = list(peers)
    for cell in cells:
        count = max(int(cell.requests * options.scale), CONNECTIONS_COUNT * cell.pipeline)
        for name in names if number % 2 else reversed(names):
            server = peers[name]
            server.resume()
            before, span = server.cpu_ns(), machine.Span()
            seen = load(server, cell, count)
            cpu_ns = server.cpu_ns() - before
            around = span.end(cpu_ns / 1e9 + seen["cpu_seconds"])
            server.pause()
            if seen["whole"]["errors"]:
                raise loading.Failed(f"{name} answered {seen['whole']['errors']} requests with errors")
            yield {"cell": cell.name, "server": name, "us": cpu_ns / 1000 / seen["whole"]["answered"], **around}


def show(facts, rows, cells, peer, ours="expresslane"):
    """Prints what was measured, and what `ours` costs beside `peer`. Returns the promises that were not kept."""
    print(machine.headline(facts, f"{KEYS_COUNT} keys", f"{CONNECTIONS_COUNT} connections", f"{VALUE_SIZE} B values"))
    print("\n".join(machine.quietness(facts, rows)) + "\n")
    ratios = table(rows, cells, peer, ours)
    return [f"{cell.name}: {ratios[cell.name]:.2f} × {peer}, promised {cell.bound:.2f}"
            for cell in cells if cell.bound is not None and ratios[cell.name] > cell.bound]


def table(rows, cells, peer, ours):
    """Prints a line a cell. Returns the medians of the ratios, by the cell's name."""
    print(f"{'cell':<15} {peer + ': CPU µs/request':<28} {ours:<28} {'÷ ' + peer:<22}".rstrip())
    medians = {}
    for cell in cells:
        theirs, own = ([row["us"] for row in rows if (row["cell"], row["server"]) == (cell.name, name)]
                       for name in (peer, ours))
        ratios = [a / b for a, b in zip(own, theirs)]
        print(f"{cell.name:<15} {spread(theirs):<28} {spread(own):<28} {spread(ratios):<22}".rstrip())
        medians[cell.name] = statistics.median(ratios)
    return medians


def bytes_each(server, count, fill):
    """Growth of the resident set for each of `count` things that `fill` stores."""
    before = server.rss_bytes()
    fill(server, count)
    return (server.rss_bytes() - before) / count
