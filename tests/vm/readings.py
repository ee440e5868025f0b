"""What the guest's kernel says, read without the tool under test: files, tc and ip, one ioctl.

A snapshot is a plain mapping of names to text, so that two of them can be compared.
"""

import array
import fcntl
import json
import os
import pathlib
import re
import socket
import struct
import subprocess

SIOCETHTOOL, GET_INDIRECTION = 0x8946, 0x38
# Sysctls that lanes may set, and their neighbours.
SYSCTLS = ("kernel/nmi_watchdog", "kernel/numa_balancing", "kernel/timer_migration", "kernel/sched_rt_runtime_us", "vm/stat_interval",
           "net/core/*", "net/ipv4/*", "net/ipv4/conf/all/*", "net/ipv4/conf/CARD/*", "net/ipv6/conf/CARD/*")


def text(path):
    """The text of a file, without its last line's end; None where it can't be read."""
    try:
        return pathlib.Path(path).read_text().rstrip("\n")
    except (OSError, UnicodeDecodeError):
        return None


def run(*words):
    """What a program prints, on both ways."""
    return subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False).stdout


def files(card):
    """Settings of the card, of interrupts and of the network that are files."""
    places = [f"/sys/class/net/{card}/{name}" for name in (
        "threaded", "gro_flush_timeout", "napi_defer_hard_irqs", "tx_queue_len", "mtu", "flags")]
    places += sorted(map(str, pathlib.Path(f"/sys/class/net/{card}/queues").glob("*/[rx]*")))
    places += sorted(map(str, pathlib.Path("/proc/irq").glob("*/smp_affinity_list")))
    for name in SYSCTLS:
        places += sorted(map(str, pathlib.Path("/proc/sys").glob(name.replace("CARD", card))))
    return {place: value for place in places if (value := text(place)) is not None}


def queueing(card):
    """Handles that the kernel chose by itself are left out."""
    said = {f"tc {what}": run("tc", *what.split()) for what in (
        f"qdisc show dev {card}", f"class show dev {card}", f"filter show dev {card} ingress", f"filter show dev {card} egress")}
    return {name: re.sub(r"\b8[0-9a-f]{3}:", "auto:", value) for name, value in said.items()}


def routing():
    return {f"ip {what}": run("ip", *what.split()) for what in ("rule", "-6 rule", "route show table all", "addr")}


def threads():
    """Name, cpus, policy, priority and nice value of every thread but the kernel's workers, by its number."""
    found = {}
    for directory in pathlib.Path("/proc").glob("[0-9]*/task/[0-9]*"):
        status, stat = text(directory / "status"), text(directory / "stat")
        if not status or not stat or "kworker" in status:
            continue
        words = stat.rpartition(")")[2].split()
        cpus = re.search(r"Cpus_allowed_list:\s*(\S+)", status).group(1)
        name = re.search(r"Name:\s*(.*)", status).group(1)
        found[f"thread {directory.name}"] = f"{name} cpus {cpus} policy {words[38]} priority {words[37]} nice {words[16]}"
    return found


def table(card):
    """The queues by which received packets are spread, entry by entry."""
    def ask(size):
        # struct ethtool_rxfh_indir: command, size, and as many entries, all u32.
        request = array.array("I", [GET_INDIRECTION, size] + [0] * size)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            fcntl.ioctl(any_socket, SIOCETHTOOL, struct.pack("16sP", card.encode(), request.buffer_info()[0]))
        return request
    return ask(ask(0)[1])[2:].tolist()


def interrupts():
    """How often each has come, by the name of its action."""
    rows = (line.split() for line in text("/proc/interrupts").splitlines()[1:])
    count = lambda words: sum(int(word) for word in words[1:1 + os.cpu_count()] if word.isdigit())  # noqa: E731
    return {row[-1]: count(row) for row in rows if row[0].rstrip(":").isdigit()}


def irq_of(action):
    """The number of the interrupt with this action."""
    return next(path.parent.name for path in pathlib.Path("/proc/irq").glob(f"*/{action}"))


def snapshot(card, facts):
    """Everything that lanes may set, as this file reads it, and as the tool does."""
    return {**files(card), **queueing(card), **routing(), **threads(), "table": str(table(card)), **flat(facts)}


def flat(facts):
    """Facts as one line for each value, without what comes anew each time."""
    facts = json.loads(json.dumps(facts))
    for nic in facts["nics"]:
        for queue in nic["queues"]:
            queue.pop("napi", None)
            queue.pop("irq_effective", None)
            queue.get("napi_thread", {}).pop("tid", None)
    found = {}
    def walk(name, value):
        if isinstance(value, dict):
            for key in value:
                walk(f"{name}/{key}", value[key])
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            for index, one in enumerate(value):
                walk(f"{name}/{index}", one)
        else:
            found[name] = json.dumps(value)
    walk("facts", facts)
    return found


def differences(before, after):
    """Names whose values differ, with both. Threads that came or went by themselves are nobody's doing, but pollers are."""
    found = []
    for name in sorted(before.keys() | after.keys()):
        then, now = before.get(name), after.get(name)
        is_passing = name.startswith("thread ") and (then is None or now is None) and "napi/" not in str(now)
        if then != now and not is_passing:
            found.append(f"{name}: {shorten(then)} -> {shorten(now)}")
    return found


def shorten(value):
    value = "nothing" if value is None else " ".join(value.split())
    return value if len(value) <= 120 else value[:117] + "..."
