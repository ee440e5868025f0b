"""What a measurement must carry with it: the machine, the kernel, the commit, and whether anybody else was working."""

import os
import pathlib
import platform
import subprocess

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


def pressure_total_us():
    """Microseconds since boot in which some task waited for a CPU. None: the kernel has no PSI."""
    try:
        first = pathlib.Path("/proc/pressure/cpu").read_text().splitlines()[0]
    except OSError:
        return None
    return int(dict(pair.split("=") for pair in first.split()[1:])["total"])


def busy_seconds():
    """CPU time that the whole machine has spent on anything, steal included (ticks of 10 ms)."""
    fields = [int(n) for n in pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    user, nice, system, _idle, _iowait, irq, softirq, steal = fields
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
