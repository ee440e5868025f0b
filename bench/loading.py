"""A load (`expresslane bench run`) as a function, the machine's noise (`spin`), and the counters of a server's lanes."""

import json
import os
import socket
import subprocess

from servers import built, request, tool


class Failed(Exception):
    """A load that could not do what it was told; the text is its own."""


def load(port, cpu=None, niceness=0, begin=None, **options):
    """Loads 127.0.0.1:`port` with `bench run`, on the core `cpu` if given. `requests=5` is `--requests 5`; True is the bare flag.
    A `niceness` below 0 (see `may_go_first`) has it go before everything else on its cores. `begin` is told its process.

    Returns its run (`--json`, times in nanoseconds) with its `doubts` (sentences), `cpu_seconds` of the whole program and
    `wakes`, its voluntary switches. Everything counts, from the first request on, unless `warm_up` says otherwise.
    """
    command = [built("expresslane"), "bench", "run", f"127.0.0.1:{port}", "--json", "--quiet", "--noisy"]
    options = {"warm_up": 0, "cpus": cpu, "duration": "1h", **options}
    for name, value in options.items():
        if value is not None:
            command += ["--" + name.replace("_", "-")] + ([] if value is True else [str(value)])
    if niceness:
        command = [tool("nice", "coreutils"), "-n", str(niceness), *command]
    # The rest of the program belongs on the load's core, too.
    summary, usage = _run(command, cpu, (0, 3), begin)
    doubts = [doubt["text"] for doubt in summary["doubts"] if doubt["colour"] == "red"]
    return summary["runs"][0] | {"doubts": doubts} | usage


def may_go_first():
    """Whether this user may give a program a niceness below 0; `nice` only warns where not."""
    found = subprocess.run([tool("nice", "coreutils"), "-n", "-19", "nice"], capture_output=True, text=True, check=False)
    return int(found.stdout) < 0


def spin(seconds, cpu):
    """Gaps of 1 µs and more that a thread which only reads the clock has seen on `cpu`, in nanoseconds."""
    gaps, usage = _run([built("spin"), "--seconds", str(seconds)], cpu, (0,))
    return gaps | usage


def fill(port, count, value_size=100, key_prefix="key:"):
    """SET of the keys 0 to `count`, in order, from several connections. Every reply must be +OK."""
    whole = load(port, operations="set", keys=count, key_distribution="sequential", requests=count, pipeline=100,
                 connections=10, value_size=value_size, key_prefix=key_prefix)["whole"]
    if whole["errors"] or whole["answered"] != count:
        raise Failed(f"{count - whole['answered'] + whole['errors']} of {count} keys could not be loaded")


def time_of(run, quantile):
    """A response time of a run in nanoseconds: "p50", "p99.9", "max". None: there were too few to tell."""
    return run["response_max_ns"] if quantile == "max" else run["metrics"][quantile + "_ns"]


def microseconds(ns):
    """A time as text. None: there were too few to tell."""
    return "few" if ns is None else f"{ns / 1000:,.1f}"


def _run(command, cpu, codes, begin=None):
    if cpu is not None:
        command = [tool("taskset", "util-linux"), "-c", str(cpu), *command]
    output, usage = run(command, codes, begin)
    return json.loads(output), usage


def run(command, codes, begin=None):
    """Runs a program to its end. Returns what it printed, and the CPU time and voluntary switches that it took; `begin` is told its
    process once that is there."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if begin:
        begin(process.pid)
    output, problem = process.stdout.read(), process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stdout.close()
    process.stderr.close()
    if process.returncode not in codes:
        raise Failed(f"{' '.join(command)}\n{problem.strip()}")
    return output, {"cpu_seconds": usage.ru_utime + usage.ru_stime, "wakes": usage.ru_nvcsw}


def ask(port, *arguments):
    """One command; the bytes of its bulk, or the line it is answered with."""
    with socket.create_connection(("127.0.0.1", port), 10) as client:
        client.sendall(request(*arguments))
        with client.makefile("rb") as replies:
            line = replies.readline().rstrip()
            if line.startswith(b"-"):
                raise Failed(f"{arguments}: {line.decode(errors='replace')}")
            return replies.read(int(line[1:])) if line.startswith(b"$") else line


def lanes(port):
    """What INFO tells of each lane: a list of {name: number}."""
    found = []
    for line in ask(port, "INFO", "lanes").decode().splitlines():
        name, _, fields = line.partition(":")
        if name.startswith("lane") and name[4:].isdigit():
            pairs = (pair.split("=") for pair in fields.split(","))
            found.append({name: number(value) for name, value in pairs if value.replace(".", "", 1).isdigit()})
    return found


def number(text):
    return float(text) if "." in text else int(text)


def since(before, after, name):
    """How much a counter of each lane has grown."""
    return [new[name] - old[name] for old, new in zip(before, after)]
