"""What a measurement must carry with it: the machine, the kernel, the commit, and whether anybody else was working."""

import os
import pathlib
import platform
import statistics
import subprocess
import time

from servers import ROOT

# A core's worth of CPU that belongs to neither side, above which a run is called not quiet.
FOREIGN_SHARE_MAX = 0.05


def _line(path, start):
    for line in pathlib.Path(path).read_text().splitlines():
        if line.startswith(start):
            return line.split(":", 1)[1].strip()
    return "unknown"


def _git(*arguments):
    result = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False)
    return result.stdout.strip()


# How a run is judged; printed by every program with --help, and with what it found at the top of its figures.
NOISE = f"""\
How noise is judged: a run is quiet while everything that is neither server nor load used at most
{FOREIGN_SHARE_MAX * 100:.0f} % of a core (/proc/stat less the CPU time of both sides). Ratios are taken within a round and their median
is compared with the bound; the range over the rounds stands beside it. A difference that is smaller than that range
is none. Where the machine was not quiet, end what disturbs it or run again with more --rounds, and quote nothing."""


def describe():
    """A dict of facts; every figure that is published names them."""
    commit = _git("rev-parse", "--short=12", "HEAD") or "unknown"
    if _git("status", "--porcelain", "--untracked-files=no"):
        commit += " with changes"
    return {
        "cpu": _line("/proc/cpuinfo", "model name") if platform.machine() == "x86_64" else platform.machine(),
        "cpus": os.cpu_count(),
        "memory_gib": round(int(_line("/proc/meminfo", "MemTotal").split()[0]) / 2**20, 1),
        "kernel": platform.release(),
        "commit": commit,
        "pressure_before": pressure(),
    }


def pressure():
    """Share of time (percent, last 10 s) in which some task waited for a CPU. None: the kernel has no PSI."""
    try:
        first = pathlib.Path("/proc/pressure/cpu").read_text().splitlines()[0]
    except OSError:
        return None
    return float(dict(pair.split("=") for pair in first.split()[1:])["avg10"])


class Span:
    """A stretch of time, and what the machine did in it besides what is measured."""

    def __init__(self):
        self._before = self._read()

    @staticmethod
    def _read():
        busy, steal = _machine_seconds()
        return busy, steal, _pressure_total_us(), time.monotonic()

    def end(self, own_cpu_seconds):
        """Ends it. `own_cpu_seconds`: CPU time of the server and the load. Returns shares of one core and of the time."""
        busy, steal, waited_us, elapsed = (
            None if a is None else b - a for a, b in zip(self._before, self._read()))
        return {
            "seconds": elapsed,
            "foreign_share": max(busy - own_cpu_seconds, 0) / elapsed,
            "steal_share": steal / elapsed,
            "waited_share": None if waited_us is None else waited_us / 1e6 / elapsed,
        }


def headline(facts, *more):
    """One line that every figure needs beside it."""
    return ", ".join([facts["cpu"], f"{facts['cpus']} cpus", f"{facts['memory_gib']} GiB",
                      f"Linux {facts['kernel']}", f"commit {facts['commit']}", *more])


def quietness(facts, spans):
    """Lines that tell whether anybody else was working during these runs, each with what `Span.end` returned."""
    foreign = [span["foreign_share"] for span in spans]
    waited = [span["waited_share"] for span in spans if span["waited_share"] is not None]
    before = "unknown" if facts["pressure_before"] is None else f"{facts['pressure_before']:.1f} %"
    during = f"median {statistics.median(waited) * 100:.1f} %" if waited else "unknown"
    lines = [f"CPU pressure (PSI) before: {before}; during: {during}. Others' CPU: median "
             f"{statistics.median(foreign) * 100:.1f} %, worst {max(foreign) * 100:.1f} % of a core; "
             f"stolen by the hypervisor: worst {max(span['steal_share'] for span in spans) * 100:.1f} %"]
    noisy = sum(share > FOREIGN_SHARE_MAX for share in foreign)
    if noisy:
        lines.append(f"NOT QUIET: in {noisy} of {len(spans)} runs others used more than "
                     f"{FOREIGN_SHARE_MAX * 100:.0f} % of a core; do not quote these figures")
    return lines


def spread(values, digits=2):
    """Median and range, as text."""
    if not values:
        return ""
    return f"{statistics.median(values):,.{digits}f} ({min(values):,.{digits}f}–{max(values):,.{digits}f})"


def _pressure_total_us():
    """Microseconds since boot in which some task waited for a CPU. None: the kernel has no PSI."""
    try:
        first = pathlib.Path("/proc/pressure/cpu").read_text().splitlines()[0]
    except OSError:
        return None
    return int(dict(pair.split("=") for pair in first.split()[1:])["total"])


def _machine_seconds():
    """CPU time that the whole machine has spent on anything, and what the hypervisor took (ticks of 10 ms)."""
    fields = [int(n) for n in pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    user, nice, system, _idle, _iowait, irq, softirq, steal = fields
    tick = os.sysconf("SC_CLK_TCK")
    return (user + nice + system + irq + softirq + steal) / tick, steal / tick
