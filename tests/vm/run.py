#!/usr/bin/env python3
"""`expresslane lanes` on another kernel and a card with hardware's ways: a guest of QEMU, run by `make test-vm`.

The guest is a kernel of Debian, emulated instruction by instruction (KVM is not needed), with four cpus on two
memory nodes and a virtio card of four queues. It sees this machine's /usr, read only, and a directory of ours; guest.py runs in
it, checks, and prints a line for each check. The card's other end is a tap in a network namespace that ends with this process; from there connections come in.
Nothing is installed, and nothing is left: guest, namespace and tap go with this process, however it ends.

Needs root (a namespace, a tap), and from Debian: qemu-system-x86, busybox-static, iproute2.
"""

import argparse
import collections
import contextlib
import ctypes
import fcntl
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import kernel  # noqa: E402
from debian import Unavailable  # noqa: E402

# Suites whose newest kernel is taken; the first is asked unless another is named.
SUITE = "stable-backports"
TOOLS = {"qemu-system-x86_64": "qemu-system-x86", "busybox": "busybox-static", "ip": "iproute2", "tc": "iproute2", "strip": "binutils",
         "setpriv": "util-linux", "dpkg-deb": "dpkg"}
# RFC 2544 keeps these addresses for measurements.
GUEST, OUTSIDE, CARD, TAP = "198.18.0.1", "198.18.0.2", "ens1", "vm0"
CPUS, QUEUES, NODES, MEMORY_MB = 4, 4, 2, 1024
PORT, CALLERS_COUNT = 6379, 8
PAUSE_SECONDS, PATIENCE_SECONDS, RETRY_SECONDS = 0.1, 5, 0.5
NEW_NETWORK = 0x40000000  # CLONE_NEWNET, sched.h
# What the guest prints when its card is up, and when it has come to its end.
BEGIN, END = "the card is up", "end of the checks"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", default=SUITE, help=f"of Debian, whose newest kernel is taken (default {SUITE})")
    parser.add_argument("--seconds", type=int, default=1800, help="after which the guest is ended (default 1800)")
    parser.add_argument("--only", default="", metavar="REGEX", help="checks whose names match")
    options = parser.parse_args()
    directory = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve() / "vm"
    began = time.monotonic()
    try:
        if os.geteuid() != 0:
            raise Unavailable("a network namespace and a tap need root")
        tools = {name: tool(name) for name in TOOLS}
        lock = hold(directory)
        share = fill(directory / "share", tools)
        (share / "only").write_text(options.only)
        image, initial, release = kernel.prepare(directory, options.suite, tools["busybox"], {"CARD": CARD, "ADDRESS": GUEST})
        print(f"Linux {release} ({options.suite}), {CPUS} cpus, virtio with {QUEUES} queues, {NODES} memory nodes, emulated", flush=True)
        outside = Outside(tools["ip"])
        with guest(tools, directory, image, initial) as process, contextlib.closing(outside):
            counts, is_whole = follow(process, outside, options.seconds)
        lock.close()
    except Unavailable as problem:
        sys.exit(f"test-vm: {problem}")
    if not is_whole:
        said = "\n".join((directory / name).read_text(errors="replace")[-2000:] for name in ("qemu.log", "console.log"))
        print(f"the guest did not come to its end; the last that QEMU and its console said:\n{said}", file=sys.stderr)
    shown = ", ".join(f"{count} {word}" for word, count in counts.items())
    print(f"{shown or 'no checks'}; {time.monotonic() - began:.0f} s")
    sys.exit(0 if is_whole and counts["ok"] and not counts["failed"] else 1)


def hold(directory):
    """The directory is this run's alone until the file is closed."""
    directory.mkdir(parents=True, exist_ok=True)
    lock = open(directory / "lock", "w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise Unavailable(f"another run uses {directory}: wait for its end") from None
    return lock


def tool(name):
    path = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if path is None:
        raise Unavailable(f"{name} is missing: apt-get install --no-install-recommends {' '.join(sorted(set(TOOLS.values())))}")
    return path


def fill(share, tools):
    """The directory that the guest sees: programs without what a debugger wants, and its scripts."""
    if not pathlib.Path("/usr/bin/python3").exists():
        raise Unavailable("the guest runs this machine's /usr/bin/python3, which is missing: apt-get install python3")
    shutil.rmtree(share, ignore_errors=True)
    share.mkdir(parents=True)
    for name, path in programs().items():
        subprocess.run([tools["strip"], "-o", str(share / name), path], check=True)
    for script in ("guest.py", "nodes.py", "readings.py", "server.py", "verdicts.py", "wishes.py"):
        shutil.copy(HERE / script, share)
    (share / "setting.json").write_text(json.dumps({
        "card": CARD, "address": GUEST, "outside": OUTSIDE, "queues": QUEUES, "port": PORT, "callers": CALLERS_COUNT, "begin": BEGIN, "end": END}))
    return share


def programs():
    """Builds what the guest runs, and returns the paths by name."""
    command = [os.environ.get("CARGO", "cargo"), "build", "--locked", "--message-format=json", "-p", "expresslane", "-p", "host",
               "--bin", "expresslane", "--example", "knob", "--test", "live", "--test", "witness"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise Unavailable("the programs that the guest runs can't be built: see above")
    messages = (json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))
    built = (message for message in messages if message.get("executable"))
    return {message["target"]["name"]: message["executable"] for message in built}


class Outside:
    """The other end of the guest's card, in a network namespace that this process enters and that ends with it."""

    def __init__(self, ip):
        self.ip, self.ending, self.threads = ip, threading.Event(), []
        if ctypes.CDLL(None, use_errno=True).unshare(NEW_NETWORK):
            raise Unavailable(f"a network namespace can't be made: {os.strerror(ctypes.get_errno())}")
        self._run("tuntap", "add", "dev", TAP, "mode", "tap", "multi_queue")
        self._run("addr", "add", f"{OUTSIDE}/24", "dev", TAP)

    def begin(self):
        """QEMU 7.2 stops to read a queue that has packets before the guest's driver is there, so none are sent until then."""
        self._run("link", "set", TAP, "up")
        self.threads = [threading.Thread(target=call, args=(self.ending,)) for _ in range(CALLERS_COUNT)]
        for thread in self.threads:
            thread.start()

    def close(self):
        self.ending.set()
        for thread in self.threads:
            thread.join()

    def _run(self, *words):
        done = subprocess.run([self.ip, *words], capture_output=True, text=True, check=False)
        if done.returncode:
            raise Unavailable(f"ip {' '.join(words)}: {done.stderr.strip()}")


def call(ending):
    """Connects, says PING, waits for the answer, and begins anew when there is none."""
    while not ending.is_set():
        with contextlib.suppress(OSError), socket.create_connection((GUEST, PORT), PATIENCE_SECONDS) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while not ending.wait(PAUSE_SECONDS):
                connection.sendall(b"PING\r\n")
                if not connection.recv(64):
                    break
        ending.wait(RETRY_SECONDS)


def nodes():
    """QEMU's words for memory nodes, each with its part of memory and cpus."""
    for node in range(NODES):
        first, last = node * CPUS // NODES, (node + 1) * CPUS // NODES - 1
        yield from ("-object", f"memory-backend-ram,id=node{node},size={MEMORY_MB // NODES}M",
                    "-numa", f"node,cpus={first}-{last},memdev=node{node}")


@contextlib.contextmanager
def guest(tools, directory, image, initial):
    """QEMU, which the kernel ends with this process."""
    # Cpus in one thread, for with a thread each QEMU may run an instruction that the guest's kernel has replaced on another cpu
    # (the kernel dies of `Oops: int3` when a static key is switched; github.com/multipath-tcp/mptcp_net-next/issues/471).
    share, console, errors = directory / "share", directory / "console.log", directory / "qemu.log"
    command = [
        tools["setpriv"], "--pdeathsig", "KILL", tools["qemu-system-x86_64"], "-nodefaults", "-display", "none", "-no-reboot",
        "-accel", "tcg,thread=single", "-smp", str(CPUS), "-m", str(MEMORY_MB), *nodes(), "-kernel", image, "-initrd", initial,
        "-append", "console=ttyS0 quiet panic=-1 net.ifnames=0",
        "-serial", f"file:{console}", "-serial", "stdio",
        "-fsdev", "local,id=usr,path=/usr,security_model=none,readonly=on,multidevs=remap",
        "-device", "virtio-9p-pci,fsdev=usr,mount_tag=usr",
        "-fsdev", f"local,id=share,path={share},security_model=none", "-device", "virtio-9p-pci,fsdev=share,mount_tag=share",
        "-netdev", f"tap,id=net,ifname={TAP},script=no,downscript=no,queues={QUEUES},vhost=off",
        # A vector for each queue's both ways, one for the card's settings, one to spare.
        "-device", f"virtio-net-pci,netdev=net,mq=on,rss=on,hash=on,vectors={2 * QUEUES + 2}",
    ]
    console.unlink(missing_ok=True)
    with (open(errors, "w") as said, subprocess.Popen(
            list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said, text=True, errors="replace") as process):
        try:
            yield process
        finally:
            process.kill()


def follow(process, outside, seconds):
    """Shows what the guest prints. Returns the number of each kind of line, and whether it came to its end."""
    alarm = threading.Timer(seconds, process.kill)
    alarm.start()
    counts, is_whole = collections.Counter(), False
    try:
        for line in process.stdout:
            line = line.rstrip()
            if line == BEGIN:
                outside.begin()
                continue
            print(line, flush=True)
            word = line.split(" ", 1)[0]
            if word in ("ok", "failed", "absent"):
                counts[word] += 1
            is_whole |= line == END
    finally:
        alarm.cancel()
    return counts, is_whole


if __name__ == "__main__":
    main()
