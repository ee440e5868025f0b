"""The server on two memory nodes: whether what a lane touches is near it, and which lanes are made of a cpuset and a quota.

Where pages are is read from numa_maps (proc_pid_numa_maps(5)), which the server itself does not read.
"""

import contextlib
import ctypes
import os
import pathlib
import re
import socket
import subprocess
import sys
import time

from verdicts import need
from wishes import PORT

TOOL = pathlib.Path(__file__).resolve().parent / "expresslane"
GROUPS, CPUS = pathlib.Path("/sys/fs/cgroup"), pathlib.Path("/sys/devices/system/cpu")
LOG = pathlib.Path("/run/serve.log")
WAIT_SECONDS_MAX = 60
PAGE_SIZE = 4096
# What the threads that are no lane's have in their own memory, in pages, is less than this, and a lane's buffers, rings and tables more.
PAGES_BESIDE_MAX = 400
VALUE_SIZE, VALUE_COUNT, PART_SIZE = 8192, 2000, 400_000
MOVE_PAGES, MOVE = 279, 2  # The system call on x86-64, and MPOL_MF_MOVE.


@contextlib.contextmanager
def serving(*words, group=None):
    """The server's number and the table that it has printed."""
    def enter():
        if group:
            (group / "cgroup.procs").write_text("0")
    with open(LOG, "w") as log:
        process = subprocess.Popen(list(map(str, (TOOL, "serve", "--port", PORT, *words))), stdin=subprocess.DEVNULL, stderr=log,
                                   preexec_fn=enter)
    try:
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while "durability" not in LOG.read_text():
            need(process.poll() is None, f"the server has ended with {process.poll()}: {LOG.read_text()}")
            need(time.monotonic() < deadline, f"there is no server after {WAIT_SECONDS_MAX} s: {LOG.read_text()}")
            time.sleep(0.1)
        yield process.pid, LOG.read_text()
    finally:
        process.kill()
        process.wait()


def ask(connection, *words):
    """One reply that is a line or one bulk."""
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    connection.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
    said = connection.recv(65536)
    while said.startswith(b"$") and len(said) < said.index(b"\r\n") + 4 + int(said[1:said.index(b"\r\n")]):
        said += connection.recv(65536)
    return said.decode()


def mappings(pid):
    """Each range of addresses: its first, its policy, whether it is a file's, and its pages by node."""
    found = []
    for line in pathlib.Path(f"/proc/{pid}/numa_maps").read_text().splitlines():
        start, policy, rest = (line + " ").split(" ", 2)
        nodes = {int(node): int(count) for node, count in re.findall(r"\bN(\d+)=(\d+)", rest)}
        found.append((int(start, 16), policy, "file=" in rest, nodes))
    return found


def lanes_of(pid):
    """Node and stack pointer of each lane's thread, by its number."""
    found = {}
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        name = (task / "comm").read_text().split()
        if name[0] == "lane":
            cpu = re.search(r"Cpus_allowed_list:\s*(\d+)$", (task / "status").read_text(), re.M)
            need(cpu, f"{name} is not on one cpu")
            # A thread that runs has none to show; a lane that nobody asks sleeps soon.
            deadline = time.monotonic() + WAIT_SECONDS_MAX
            while (shown := (task / "syscall").read_text().split())[0] == "running":
                need(time.monotonic() < deadline, f"{name} does not sleep")
            found[int(name[1])] = (int(next((CPUS / f"cpu{cpu[1]}").glob("node*")).name[4:]), int(shown[-2], 16))
    return found


def elsewhere(nodes, node):
    return sum(count for other, count in nodes.items() if other != node)


def fill(connection):
    for index in range(VALUE_COUNT):
        said = ask(connection, "SET", f"key:{index}", b"x" * VALUE_SIZE)
        need(said == "+OK\r\n", said)


def told(connection):
    """Local and remote pages of each lane, as INFO has them."""
    return [tuple(map(int, pages)) for pages in re.findall(r"pages_local=(\d+),pages_remote=(\d+)", ask(connection, "INFO", "lanes"))]


def memory_is_near():
    """Stacks, regions and heaps of lanes, by the kernel and by the server."""
    with serving("--lanes", 4) as (pid, _), contextlib.ExitStack() as held:
        connection = held.enter_context(socket.create_connection(("127.0.0.1", PORT)))
        fill(connection)
        lanes, found = lanes_of(pid), mappings(pid)
        need([node for _, (node, _) in sorted(lanes.items())] == [0, 0, 1, 1], f"lanes are elsewhere: {lanes}")
        for lane, (node, stack) in lanes.items():
            *_, nodes = max(mapping for mapping in found if mapping[0] <= stack)
            need(nodes and not elsewhere(nodes, node), f"of the stack of lane {lane} on node {node}, pages are on {nodes}")
        for policy in ("prefer:0", "prefer:1"):
            of_regions = [mapping[3] for mapping in found if mapping[1] == policy]
            pages = sum(nodes.get(int(policy[-1]), 0) for nodes in of_regions)
            need(pages * PAGE_SIZE > VALUE_COUNT * VALUE_SIZE / 3, f"of two regions, {pages} pages are there")
            need(not any(elsewhere(nodes, int(policy[-1])) for nodes in of_regions), f"of regions with {policy}: {of_regions}")
        shown = told(connection)
        need(len(shown) == 4 and all(local and not remote for local, remote in shown), f"INFO lanes: {shown}")
        move(pid, max((mapping for mapping in found if mapping[1] == "prefer:1"), key=lambda mapping: sum(mapping[3].values())), 0)
        shown = told(connection)
        need(sum(1 for _, remote in shown if remote) == 1, f"INFO lanes, with pages of one lane moved away: {shown}")
        return f"local and remote pages, those of one lane moved away: {shown}"


def move(pid, mapping, node):
    """The first half of a mapping's pages to another node, by move_pages(2)."""
    count = sum(mapping[3].values()) // 2
    pages = (ctypes.c_void_p * count)(*(mapping[0] + index * PAGE_SIZE for index in range(count)))
    status = (ctypes.c_int * count)()
    result = ctypes.CDLL(None, use_errno=True).syscall(
        ctypes.c_long(MOVE_PAGES), ctypes.c_long(pid), ctypes.c_long(count), pages, (ctypes.c_int * count)(*[node] * count), status,
        ctypes.c_long(MOVE))
    need(result >= 0, f"move_pages: {os.strerror(ctypes.get_errno())}")


def lanes_of_one_node():
    """Rings and buffers too, though no lane is on the other node and the process begins there, for the lanes' cpus are busy."""
    shown = []
    for node, cpus in enumerate(((0, 1), (2, 3))):
        with contextlib.ExitStack() as held:
            with busy(cpus):
                pid, _ = held.enter_context(serving("--cpus", ",".join(map(str, cpus))))
            # Commands that don't end: the lanes keep what has come of them.
            for lane in range(2):
                held.enter_context(socket.create_connection(("127.0.0.1", 7000 + lane))).sendall(
                    b"*2\r\n$4\r\nECHO\r\n$%d\r\n" % (2 * PART_SIZE) + b"x" * PART_SIZE)
            fill(held.enter_context(socket.create_connection(("127.0.0.1", PORT))))
            found = [nodes for _, _, is_file, nodes in mappings(pid) if not is_file]
            near, far = (sum(nodes.get(other, 0) for nodes in found) for other in (node, 1 - node))
            need(far < PAGES_BESIDE_MAX < near, f"of lanes on node {node}, {near} pages are there and {far} elsewhere: {found}")
            shown.append(f"{near} and {far}")
    return f"pages near and far: {', '.join(shown)}"


@contextlib.contextmanager
def busy(cpus):
    """Cpus that others use, meanwhile."""
    turning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in cpus]
    try:
        for process, cpu in zip(turning, cpus):
            os.sched_setaffinity(process.pid, {cpu})
        time.sleep(1)
        yield
    finally:
        for process in turning:
            process.kill()
            process.wait()


def auto_lanes():
    """Of a cpuset, a quota of a group around the process' own, and cpus that are offline."""
    outer = GROUPS / "outer"
    inner = outer / "inner"
    inner.mkdir(parents=True)
    try:
        for group in (GROUPS, outer):
            (group / "cgroup.subtree_control").write_text("+cpu +cpuset")
        check(("0: cpu 0, node 0", "3: cpu 3, node 1"), inner)
        (outer / "cpuset.cpus").write_text("1-2")
        check(("0: cpu 1, node 0", "1: cpu 2, node 1"), inner)
        (outer / "cpuset.cpus").write_text("0-3")
        (outer / "cpu.max").write_text("250000 100000")
        check(("1: not pinned", "a quota grants 2 of 4 cpus"), inner)
        (inner / "cpu.max").write_text("50000 100000")
        check(("0: not pinned", "a quota grants 1 of 4 cpus"), inner)
    finally:
        inner.rmdir()
        outer.rmdir()
    (CPUS / "cpu2/online").write_text("0")
    try:
        check(("1: cpu 1, node 0", "2: cpu 3, node 1"), None)
        refused = subprocess.run([TOOL, "serve", "--cpus", "2"], capture_output=True, text=True, check=False)
        need("may not run on 2, only on 0-1,3" in refused.stderr, refused.stderr)
    finally:
        (CPUS / "cpu2/online").write_text("1")


def check(lines, group):
    """The last lane and its neighbourhood in the start-up table; there is none behind it."""
    with serving(group=group) as (_, table):
        table = re.sub(r"\s+", " ", table)
        last = max(map(int, re.findall(r" (\d+): (?:cpu|not)", table)))
        need(all(line in table for line in lines) and any(line.startswith(f"{last}:") for line in lines), f"not {lines}: {table}")
