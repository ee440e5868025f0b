"""The driver (crates/load, `drive` and `spin`) as functions, and the counters of a server's lanes."""

import json
import os
import socket
import subprocess

from servers import built, request, tool

# Lateness of the load's own sending (p99), as a share of the median response, above which its times are not the server's
# alone; and the share of the rate below which the rate was not kept.
LATE_SHARE_MAX = 0.2
ACHIEVED_SHARE_MIN = 0.99


class Failed(Exception):
    """A driver that could not do what it was told; the text is its own."""


def drive(ports, cpu=None, **options):
    """Runs `drive` against ports of 127.0.0.1, pinned to `cpu` if given. `requests=5` is `--requests 5`.

    Returns its report (times in nanoseconds) with `cpu_seconds` of the driver and `wakes`, its voluntary switches.
    """
    command = [built("drive")]
    for port in ports:
        command += ["--address", f"127.0.0.1:{port}"]
    for name, value in options.items():
        if value is not None:
            command += ["--" + name.replace("_", "-"), str(value)]
    return _run(command, cpu)


def spin(seconds, cpu):
    """Gaps of 1 µs and more that a thread which only reads the clock has seen on `cpu`, in nanoseconds."""
    return _run([built("spin"), "--seconds", str(seconds)], cpu)


def fill(port, count, value_size=100):
    """SET of the keys 0 to `count`, in order, from several connections. Every reply must be +OK."""
    report = drive([port], command="set", keys=count, order="ascending", requests=count, pipeline=100,
                   connections=10, value_size=value_size)
    if report["errors"]:
        raise Failed(f"{report['errors']} of {count} keys could not be loaded")


def doubts(report):
    """Why the times of a report may not be the server's: a list of sentences."""
    found = []
    late, median = report.get("lateness_ns", {}).get("p99"), report["latency_ns"]["p50"]
    if late and median and late > median * LATE_SHARE_MAX:
        found.append(f"the load was late itself: p99 {microseconds(late)} µs")
    if report.get("rate"):
        achieved = report["answered"] / report["elapsed_ns"] * 1e9
        if achieved < report["rate"] * ACHIEVED_SHARE_MIN:
            found.append(f"{achieved:,.0f} requests/s of {report['rate']:,.0f} were answered")
    return found


def microseconds(ns):
    """A time as text. None: there were too few to tell."""
    return "few" if ns is None else f"{ns / 1000:,.1f}"


def _run(command, cpu):
    if cpu is not None:
        command = [tool("taskset", "util-linux"), "-c", str(cpu), *command]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    output, problem = process.stdout.read(), process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stdout.close()
    process.stderr.close()
    if process.returncode != 0:
        raise Failed(f"{' '.join(command)}\n{problem.strip()}")
    return json.loads(output) | {"cpu_seconds": usage.ru_utime + usage.ru_stime, "wakes": usage.ru_nvcsw}


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
