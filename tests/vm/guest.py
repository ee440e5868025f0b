"""Runs in the guest as its only program: `expresslane lanes` on a kernel and a card that this project's other tests don't have.

Each line that it prints is a check: `ok`, `failed` with the reason, or `absent` where this kernel has not what is checked.
Whatever the tool says is compared with what files, tc and one ioctl say (readings.py).
"""

import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time
import traceback

import nodes
import readings
from verdicts import Absent, Failed, need
from wishes import CARD, FEWER, GROUPED, PLAIN, POLLED, PORT, RESERVED, SETTING, SOFT, UNHAVABLE, WHOLE

HERE = pathlib.Path(__file__).resolve().parent
ADDRESS, QUEUES = SETTING["address"], SETTING["queues"]
TOOL, KNOB = HERE / "expresslane", HERE / "knob"
STATE, WISH, NAPIS = "/run/lanes", pathlib.Path("/run/lanes.toml"), pathlib.Path("/run/napis.json")
COMMAND_SECONDS_MAX, WAIT_SECONDS_MAX = 120, 60
# Of the interrupts while the lane's are watched, how many may belong to others: the outside's ARP and neighbour discovery.
STRAY_INTERRUPTS_MAX = 5


# ---- the tool ----

def run(*words, codes=(0,), seconds=COMMAND_SECONDS_MAX):
    """Both outputs together; how it ends must be among the codes."""
    done = subprocess.run(list(map(str, words)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=seconds, check=False)
    said = " ".join(map(str, words[1:]))
    need(done.returncode in codes, f"{said} ended with {done.returncode}, not {codes}: {done.stdout[-1500:]}")
    return done.stdout


def lanes(*words, codes=(0,)):
    return run(TOOL, "lanes", *words, codes=codes)


def knob(path, *value):
    return run(KNOB, f"nic/{CARD}/{path}", *value).rstrip("\n")


def refused(path, value, kind, word):
    said = run(KNOB, f"nic/{CARD}/{path}", value, codes=(1,))
    need(said.startswith(f"{kind}: ") and word in said, f"refused otherwise than as {kind} with '{word}': {said}")


def facts():
    return json.loads(lanes("facts", "--json"))


def card():
    return next(nic for nic in facts()["nics"] if nic["name"] == CARD)


def snapshot():
    return readings.snapshot(CARD, facts())


def status(*words, codes=(0,)):
    return json.loads(lanes("status", "--sample", "2s", "--json", *words, codes=codes))


@contextlib.contextmanager
def wish(text):
    """A server, a file that names it, and a machine that is as it was when the lanes are reverted."""
    with server() as pid:
        WISH.write_text(text.replace("SERVER", str(pid)))
        before = snapshot()
        try:
            yield before
            lanes("revert")
            left = readings.differences(before, snapshot())
            need(not left, "after revert: " + "; ".join(left))
        finally:
            lanes("revert", "--force", codes=(0, 1))


@contextlib.contextmanager
def server():
    """A process that answers those who call from outside; it begins when all of them are connected."""
    NAPIS.unlink(missing_ok=True)
    process = subprocess.Popen([sys.executable, "-B", HERE / "server.py", ADDRESS, str(PORT), NAPIS], stdin=subprocess.DEVNULL)
    try:
        wait(lambda: len(napis()) == SETTING["callers"], "the callers from outside")
        yield process.pid
    finally:
        process.kill()
        process.wait()


def napis():
    return json.loads(NAPIS.read_text()) if NAPIS.exists() else []


def wait(is_so, what):
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not is_so():
        need(time.monotonic() < deadline, f"waited {WAIT_SECONDS_MAX} s for {what() if callable(what) else what}")
        time.sleep(0.2)


def in_lane(lane):
    """Share of the lane's packets that arrived in it."""
    used = lane["used"]
    need(used["state"] == "traffic", f"no traffic was seen: {lane}")
    return used["on_packets"] / (used["on_packets"] + used["off_packets"])


def goes_well(found):
    """What `status` says of a lane as wished."""
    lane = found["lanes"][0]
    need(found["verdict"] == "ok" and in_lane(lane) >= 0.99, f"status: {found}")
    return lane["headline"]


def goes_well_or_waits(found):
    """The same right after channels were made anew: an interrupt moves when it comes next, and none comes of a queue that gets nothing."""
    lane = found["lanes"][0]
    waits = all("moves with its next interrupt" in finding["remedy"] for finding in lane["findings"])
    need(waits and not lane["differences"] + found["shared"] and in_lane(lane) >= 0.99, f"status: {found}")


# ---- checks; each is a sentence, and what it returns is shown behind ----

def facts_know_the_card():
    nic = card()
    channels, queues = nic["channels"], nic["queues"]
    need(nic["driver"] == "virtio_net" and nic["up"], f"driver and link: {nic['driver']} {nic['up']}")
    need(channels["combined"] == channels["combined_max"] == QUEUES == len(queues), f"{channels}")
    need(nic["rss"]["table"] == readings.table(CARD) and nic["rss"]["writable"], f"{nic['rss']}")
    ids = [queue.get("napi") for queue in queues]
    need(len(set(ids)) == QUEUES and None not in ids, f"NAPI ids: {ids}")
    for index, queue in enumerate(queues):
        number = next(number for name in readings.interrupts() if (number := named(name, index)))
        need(str(queue["irq"]) == number, f"queue {index}: interrupt {queue['irq']}, /proc/irq says {number}")
        cpus = readings.text(f"/proc/irq/{number}/smp_affinity_list")
        need(queue["irq_cpus"] == cpus, f"queue {index}: {queue['irq_cpus']}, /proc/irq says {cpus}")
    return f"{QUEUES} queues with NAPI ids {ids}, a table of {len(nic['rss']['table'])}"


def named(action, queue):
    return readings.irq_of(action) if re.fullmatch(rf"virtio\d+-input\.{queue}", action) else None


def facts_are_whole():
    found = facts()
    need(not found["missing"], f"missing: {found['missing']}")
    need(len(found["cpus"]) == os.cpu_count(), f"cpus: {found['cpus']}")
    shown = lanes("facts")
    need(CARD in shown and "virtio_net" in shown, shown)
    (HERE / "facts.json").write_text(json.dumps(found, indent=2) + "\n")
    return f"Linux {found['kernel']}, per-NAPI settings: {', '.join(card()['queues'][0]['napi_settings']) or 'none'}"


def impossible_wishes_are_refused():
    for backend, reason in UNHAVABLE.items():
        WISH.write_text(PLAIN.replace(f'name = "{CARD}"', f'name = "{CARD}"\nbackend = "{backend}"').replace("SERVER", "1"))
        said = lanes("plan", WISH, codes=(2,))
        need(reason in said, said)
    WISH.write_text(PLAIN.replace("queues = 2", "queues = 5").replace("SERVER", "1"))
    need("at most 4" in (said := lanes("plan", WISH, codes=(2,))), said)
    WISH.write_text(PLAIN.replace("process =", "moderation = { rx-usecs = 50 }\nprocess =").replace("SERVER", "1"))
    need("no moderation that could be set" in (said := lanes("plan", WISH)), said)


def whole_card():
    with wish(WHOLE):
        said = lanes("plan", WISH)
        need("virtual" in said and "undo: " in said, said)
        lanes("apply", WISH)
        of_lane = [queue["napi"] for queue in card()["queues"][:2]]
        need(readings.table(CARD)[:4] == [0, 1, 0, 1], f"table: {readings.table(CARD)[:8]}")
        for queue, cpu in ((0, "2"), (1, "3")):
            action = next(name for name in readings.interrupts() if named(name, queue))
            cpus = readings.text(f"/proc/irq/{readings.irq_of(action)}/smp_affinity_list")
            need(cpus == cpu, f"queue {queue}: its interrupt goes to {cpus}")
            xps = int(readings.text(f"/sys/class/net/{CARD}/queues/tx-{queue}/xps_cpus"), 16)
            need(xps == 1 << int(cpu), f"queue {queue}: xps_cpus {xps:x}")
        pollers = [line for name, line in readings.threads().items() if line.startswith("napi/")]
        need(sorted(re.search(r"cpus (\S+)", line).group(1) for line in pollers) == ["2", "3"], f"pollers: {pollers}")
        need("lookup 49001" in readings.run("ip", "rule"), readings.run("ip", "rule"))
        wait(lambda: set(napis()) <= set(of_lane), lambda: f"connections on the NAPI ids {of_lane}, not {set(napis())}")
        headline = goes_well(status())
        counts = readings.interrupts()
        time.sleep(2)
        strays = {name: now - counts[name] for name, now in readings.interrupts().items()
                  if any(named(name, queue) for queue in (2, 3))}
        need(max(strays.values()) <= STRAY_INTERRUPTS_MAX, f"interrupts of queues that the lane has not: {strays}")
        need("already" in (said := lanes("apply", WISH)), said)
    return headline


def busy_polling():
    with wish(POLLED):
        lanes("apply", WISH)
        need(readings.text("/proc/sys/net/core/busy_poll") == "50", "busy_poll is not 50")
        headline = goes_well(found := status())
        need(found["polled"], f"nobody polled: {found}")
    return f"{headline}, {found['polled']} packets received by polling"


def unconfirmed():
    with wish(PLAIN) as before:
        said = lanes("apply", WISH, "--confirm", "3s", codes=(1,))
        need("nobody has confirmed" in said, said)
        left = readings.differences(before, snapshot())
        need(not left, "; ".join(left))
        lanes("status", codes=(3,))


def confirmed():
    with wish(PLAIN):
        waiting = subprocess.Popen([TOOL, "lanes", "apply", WISH, "--confirm", "60s"], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            lines = []
            while not (lines and lines[-1].startswith("in force for")):
                lines.append(waiting.stdout.readline())
                need(lines[-1], f"it ended: {''.join(lines)}")
            lanes("confirm")
            need(waiting.wait(COMMAND_SECONDS_MAX) == 0, f"it ended with {waiting.returncode}")
        finally:
            waiting.kill()
            waiting.wait()
        goes_well(status())


def events_that_reset():
    """What an event takes away is told, knob by knob, and applying again sets it."""
    shown = []
    with wish(WHOLE):
        lanes("apply", WISH)
        for name, event in EVENTS.items():
            as_wished = snapshot()
            event()
            lost = readings.differences(as_wished, snapshot())
            wait(lambda: len(napis()) == SETTING["callers"], "the callers to come back")
            found = status(codes=(0, 1, 2))
            told = [difference["knob"] for difference in found["lanes"][0]["differences"] + found["shared"]]
            for queue, kind in re.findall(r"queues/([rt]x-\d+)/(\w+):", "\n".join(lost)):
                path = f"nic/{CARD}/{queue.replace('-', '/')}/{kind}"
                need(path in told or path not in wished(), f"{name}: lost and not told: {path}; told: {told}")
            need(bool(told) == bool(set(told) & set(wished())) == (found["verdict"] != "ok"), f"{name}: {found}")
            lanes("apply", WISH)
            goes_well_or_waits(status(codes=(0, 1)))
            shown.append(f"{name}: {', '.join(path.removeprefix(f'nic/{CARD}/') for path in told) or 'nothing'}")
    return "; ".join(shown)


def wished():
    return [step["knob"] for step in json.loads(lanes("plan", WISH, "--json"))["steps"]]


def down_and_up():
    for state in ("down", "up"):
        run("ip", "link", "set", CARD, state)


def other_channels():
    """The driver gives out interrupts and XPS anew when their number changes."""
    for count in (QUEUES - 1, QUEUES):
        knob("channels", f"combined {count}")


EVENTS = {"down and up": down_and_up, "channels changed": other_channels}


def guard_sets_again():
    with wish(WHOLE):
        lanes("apply", WISH)
        guard = subprocess.Popen([TOOL, "lanes", "guard", "--every", "2s"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True)
        try:
            time.sleep(3)
            other_channels()
            wait(lambda: status(codes=(0, 1, 2))["verdict"] == "ok", lambda: f"guard to set again what was lost: {status(codes=(0, 1, 2))}")
            guard.send_signal(signal.SIGTERM)
            said = guard.communicate(timeout=COMMAND_SECONDS_MAX)[0]
            need(guard.returncode == 0, f"guard ended with {guard.returncode}: {said}")
        finally:
            guard.kill()
            guard.wait()
        again = [line for line in said.splitlines() if line.endswith(" again")]
        need(again, f"guard has set nothing: {said}")
    return f"{len(again)} knobs"


def fewer_channels():
    with wish(FEWER):
        lanes("apply", WISH)
        need(card()["channels"]["combined"] == 2, f"{card()['channels']}")
        return goes_well(status())


def reserved_interrupts():
    with wish(RESERVED):
        lanes("apply", WISH)
        need(readings.text("/proc/sys/net/core/rps_sock_flow_entries") == "32768", "rps_sock_flow_entries")
        for queue in (0, 1):
            cpus = int(readings.text(f"/sys/class/net/{CARD}/queues/rx-{queue}/rps_cpus"), 16)
            need(cpus == 0b1100, f"rx-{queue}: rps_cpus {cpus:x}")
        return goes_well(status())


def group_of_processes():
    """The lane's cores are the group's cpuset, so that what begins in it later has them, too."""
    root = pathlib.Path("/sys/fs/cgroup")
    group = root / "db/redis"
    group.mkdir(parents=True)
    cpus = group / "cpuset.cpus"
    try:
        with wish(GROUPED):
            pid = re.search(r"# (\d+)", WISH.read_text()).group(1)
            (group / "cgroup.procs").write_text(pid)
            said = " ".join(lanes("plan", WISH).split())
            need("not enabled: echo +cpuset > /sys/fs/cgroup/db/cgroup.subtree_control" in said, said)
            for above in (root, root / "db"):
                (above / "cgroup.subtree_control").write_text("+cpuset")
            lanes("apply", WISH)
            need(readings.text(cpus) == "2-3", f"cpuset.cpus: {readings.text(cpus)}")
            with subprocess.Popen(["sleep", "60"]) as later:
                (group / "cgroup.procs").write_text(str(later.pid))
                allowed = affinity(later.pid)
                later.kill()
            need(allowed == "2-3", f"what began later runs on {allowed}")
            headline = goes_well(status())
            lanes("revert")
            need((readings.text(cpus), affinity(pid)) == ("", f"0-{os.cpu_count() - 1}"),
                 f"after revert: cpuset.cpus '{readings.text(cpus)}', the server on {affinity(pid)}")
    finally:
        for place in (group, group.parent):
            place.rmdir()
        (root / "cgroup.subtree_control").write_text("-cpuset")
    return headline


def affinity(pid):
    return re.search(r"Cpus_allowed_list:\s*(\S+)", readings.text(f"/proc/{pid}/status")).group(1)


def soft_with_rates():
    with wish(SOFT):
        lanes("apply", WISH)
        shown = readings.run("tc", "class", "show", "dev", CARD)
        need("rate 500Mbit" in shown and "rate 100Mbit" in shown, shown)
        headline = goes_well(status())
        sent = readings.run("tc", "-s", "class", "show", "dev", CARD)
        need(packets(sent, "htb e7:10") > 0, f"the lane's class sent nothing: {sent}")
    return headline


def packets(shown, what):
    """What `tc -s` counts for the entry that begins with this."""
    entry = next((entry for entry in re.split(r"\n(?=class|qdisc)", shown) if what in entry.split("\n")[0]), "")
    found = re.search(r"Sent \d+ bytes (\d+) pkt", entry)
    need(found, f"no {what} in: {shown}")
    return int(found.group(1))


def someone_elses_change_stays():
    with wish(PLAIN):
        lanes("apply", WISH)
        place = pathlib.Path(f"/sys/class/net/{CARD}/queues/tx-0/xps_cpus")
        before = readings.text(place)
        place.write_text("2")
        said = lanes("revert", codes=(1,))
        need("tx/0/xps_cpus" in said and readings.text(place).lstrip("0") == "2", f"{readings.text(place)}: {said}")
        lanes("revert", "--force")
    return f"xps_cpus {before} -> 2, left so"


def check_judges():
    WISH.write_text(PLAIN.replace("SERVER", "1"))
    alone, with_file = (json.loads(lanes("check", "--json", *words, codes=(0, 1))) for words in ((), (WISH,)))
    need(alone and with_file and alone.keys() == with_file.keys(), f"{alone} {with_file}")
    return "; ".join(lanes("check", codes=(0, 1)).splitlines()[:1])


# ---- knobs, one by one ----

def come_back(values):
    """Each knob takes a value, reads as that, and goes back."""
    absent, shown = [], []
    for path, value in values.items():
        try:
            before = knob(path)
            need(before != value, f"{path} has {value} before")
            now = knob(path, value)
            need(now == value, f"{path}: {value} was written and {now} is read")
            after = knob(path, before)
            need(after == before, f"{path}: had {before}, was put back to that and has {after}")
            shown.append(path)
        except Failed as failure:
            if "Unsupported: " not in str(failure):
                raise
            absent.append(path)
    if not shown:
        raise Absent(", ".join(absent))
    return f"{len(shown)} knobs" + (f", not on this card: {', '.join(absent)}" if absent else "")


def per_napi_settings():
    before = snapshot()
    said = come_back({f"queue/1/napi/{name}": value for name, value in (
        ("defer-hard-irqs", "5"), ("gro-flush-timeout", "20000"), ("irq-suspend-timeout", "1000000"), ("threaded", "1"))})
    left = readings.differences(before, snapshot())
    need(not left, "; ".join(left))
    return said


def pollers_of_the_card():
    before = snapshot()
    knob("threaded", "1")
    try:
        said = come_back({"queue/2/napi-thread": "cpus 1 fifo 10"})
    finally:
        knob("threaded", "0")
    left = readings.differences(before, snapshot())
    need(not left, "; ".join(left))
    return said


def queues_files_and_interrupts():
    return come_back({
        "indirection": "start 2 equal 1", "queue/3/irq": "0,2", "rx/1/rps_cpus": "0,3", "rx/1/rps_flow_cnt": "1024",
        "tx/2/xps_cpus": "1", "tx/2/xps_rxqs": "0,3", "feature/rx-gro": "off", "feature/tx-tcp-segmentation": "off",
        "rings": "rx 128 tx 128", "channels": "combined 3", "coalesce": "adaptive-rx off rx-usecs 50", "ntuple/7":
        "flow-type tcp4 dst-port 6379 action 2", "rss-context/2-3": "equal 2"})


def mqprio_and_flower():
    """Replies of the port go into the second class, by flower and skbedit, and out by its queues. mqprio clears XPS."""
    with server():
        before = snapshot()
        root, xps = knob("qdisc/root"), [knob(f"tx/{queue}/xps_cpus") for queue in range(QUEUES)]
        text = "mqprio num_tc 2 map 0 1 queues 2@0 2@2 hw 0"
        try:
            need(knob("qdisc/root", text) == text, "mqprio is read as something else")
            knob("qdisc/clsact", "clsact")
            for action, mine, others in (("priority 1", (3, 4), (1, 2)), ("queue_mapping 1", (2,), (3, 4))):
                flower = f"protocol ip flower ip_proto tcp src_port {PORT} action skbedit {action}"
                need(knob("filter/egress/49001", flower) == flower, "flower is read as something else")
                need(knob("filter/egress/49001") == flower, "it is not there")
                sent = leaves_over(2)
                need(sum(sent[leaf] for leaf in mine) >= 50, f"skbedit {action}: sent by leaf {sent}")
                need(sum(sent[leaf] for leaf in others) <= STRAY_INTERRUPTS_MAX, f"skbedit {action}: sent by leaf {sent}")
            refused("filter/ingress/49001", f"protocol ip flower ip_proto tcp dst_port {PORT} skip_sw hw_tc 1", "Unsupported", "")
            refused("qdisc/root", text.replace("hw 0", "hw 1 mode channel"), "Unsupported", "hw 0")
        finally:
            knob("filter/egress/49001", "-")
            knob("qdisc/clsact", "-")
            knob("qdisc/root", root)
            for queue, cpus in enumerate(xps):
                knob(f"tx/{queue}/xps_cpus", cpus)
        left = readings.differences(before, snapshot())
        need(not left, "; ".join(left))


def leaves_over(seconds):
    """Packets sent by each leaf of the root with the handle e7:, meanwhile."""
    def now():
        shown = readings.run("tc", "-s", "qdisc", "show", "dev", CARD)
        return {leaf: packets(shown, f"parent e7:{leaf:x} ") for leaf in range(1, QUEUES + 1)}
    before = now()
    time.sleep(seconds)
    return {leaf: count - before[leaf] for leaf, count in now().items()}


def queueing():
    return come_back({"qdisc/root": "fq limit 5000", "qdisc/clsact": "clsact"}) + ", " + come_back(
        {"qdisc/root": "tbf rate 1Gbit burst 128Kb latency 50ms"}) + ", " + come_back({"qdisc/root": "htb default 10"})


def tests_of_the_crate(name):
    """The live tests of crates/host, on virtual interfaces of this kernel."""
    said = run(HERE / name, "--test-threads", "2", "--nocapture", codes=(0, 101), seconds=400)
    found = re.search(r"test result: (\w+)\. (\d+) passed; (\d+) failed", said)
    need(found and found.group(1) == "ok", said[-3000:])
    need("not tried" not in said, said[-1500:])
    return f"{found.group(2)} tests"


def connections_find_their_queue():
    """The server itself asks the kernel which queue a connection's NAPI id is: `serve --auto-pin adq`."""
    WISH.write_text(f'[[nic]]\nname = "{CARD}"\n[[lane]]\nname = "db"\nports = {PORT}\nqueues = 2\ncores = "2-3"\n')
    before = snapshot()
    lanes("apply", WISH)
    process = subprocess.Popen(
        [TOOL, "serve", "--bind", ADDRESS, "--port", str(PORT), "--lanes", "2", "--cpus", "2-3", "--auto-pin", "adq",
         "--protected-mode", "no"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        wait(lambda: asks("PING") == "+PONG", "the server")
        wait(lambda: placed()["pin_placed"] >= SETTING["callers"], lambda: f"connections on their queues' lanes: {info()}")
        counts = placed()
        need(not counts["pin_unknown"] and not counts["pin_leaking"], f"{info()}")
        need(all(f"queues={CARD}:{queue}" in info() for queue in (0, 1)), info())
    finally:
        process.kill()
        process.wait()
        lanes("revert")
    left = readings.differences(before, snapshot())
    need(not left, "; ".join(left))
    return f"{counts['pin_placed']} connections, all on their queue's lane"


def asks(words):
    with contextlib.suppress(OSError), socket.create_connection((ADDRESS, PORT), 5) as connection:
        connection.settimeout(5)
        connection.sendall(f"{words}\r\n".encode())
        return connection.recv(1 << 16).decode().rstrip()
    return ""


def info():
    return asks("INFO lanes")


def placed():
    """Sums over all lanes. Those who ask from within the guest come by no queue, and are `pin_fallbacks`."""
    found = info()
    return {name: sum(int(count) for count in re.findall(rf"{name}=(\d+)", found))
            for name in ("pin_placed", "pin_unknown", "pin_leaking")}


CHECKS = {
    "facts: queues, NAPI ids, interrupts and table of the card": facts_know_the_card,
    "facts: nothing is missing": facts_are_whole,
    "check: the machine and a file are judged": check_judges,
    "plan: what the card can't do is refused": impossible_wishes_are_refused,
    "knobs: mqprio, flower and skbedit steer replies": mqprio_and_flower,
    "knobs: per-NAPI settings come back": per_napi_settings,
    "knobs: pollers come back": pollers_of_the_card,
    "knobs: queues, interrupts, features and table come back": queues_files_and_interrupts,
    "knobs: queueing comes back": queueing,
    "lane on the whole card: apply, status, revert": whole_card,
    "lane with busy polling: apply, status, revert": busy_polling,
    "lane with fewer channels: apply, status, revert": fewer_channels,
    "lane with reserved interrupts, RPS and RFS: apply, status, revert": reserved_interrupts,
    "lane by software with rates: apply, status, revert": soft_with_rates,
    "lane of a control group: apply, status, revert": group_of_processes,
    "apply --confirm: goes back unless confirmed": unconfirmed,
    "apply --confirm: stays when confirmed": confirmed,
    "status: what events take away": events_that_reset,
    "guard: sets again what a change of channels takes away": guard_sets_again,
    "revert: what someone else changed stays": someone_elses_change_stays,
    "serve --auto-pin adq: connections find their queue": connections_find_their_queue,
    "serve: memory is near its lane": nodes.memory_is_near,
    "serve: memory of lanes of one node": nodes.lanes_of_one_node,
    "serve: lanes of a cpuset, a quota, offline cpus": nodes.auto_lanes,
    "crates/host: the live tests": lambda: tests_of_the_crate("live"),
    "crates/host: the witness' tests": lambda: tests_of_the_crate("witness"),
}


def main():
    only = (HERE / "only").read_text()
    say(SETTING["begin"])
    for name, body in CHECKS.items():
        if not re.search(only, name):
            continue
        began = time.monotonic()
        try:
            shown = body()
            say(f"ok      {name}" + (f": {shown}" if shown else "") + f" ({time.monotonic() - began:.0f} s)")
        except Absent as reason:
            say(f"absent  {name}: not on this kernel: {reason}")
        except Failed as failure:
            say(f"failed  {name}: {failure}")
        except Exception:  # A check that breaks is a check that fails; the others go on.
            say(f"failed  {name}: {traceback.format_exc()}")
    say(SETTING["end"])


def say(text):
    print(text, flush=True)


if __name__ == "__main__":
    main()
