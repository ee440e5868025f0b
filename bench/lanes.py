#!/usr/bin/env python3
"""Noisy neighbour: an unmodified redis-server with and without a lane of its own, beside a second one that sends all it can.

A veth pair of four queues leads from this machine, where the servers are, into a network namespace, where the clients are (RFS'
table can be set in the first namespace alone). The lane's redis-server is asked 2,000 GETs a second over 8 connections, each
counted from when it was due; its neighbour answers GETs of 10 kB to 32 connections, 4 at a time. Clients stay where they are (the
lane's on cpu 0, the neighbour's on cpu 1), only what the server's side can set changes, by `expresslane lanes apply` and
`expresslane run`, and is put back by `expresslane lanes revert` after each run.
Every variant is compared with the machine as it is by `bench compare`: pairs in random order, fresh servers, the exact interval.

all       cores for each side, receive steering, a lane's core that does not sleep, and what else the plan gives this machine
pin       cores alone                      steer     receive steering (RPS, RFS) alone
poll      busy polling alone               shape     the neighbour's sending rate bounded to 1 Gbit/s, alone
wake      a core that does not sleep (resume-latency-us = 0) alone
neighbour the same as all, seen from the other side: what it costs the neighbour in requests a second

At last `lanes status` looks at both sides; here alone half of the lane's connections come from cpu 1. A veth's packets are received
on the cpu that sends them, and from cpu 0 alone they would be on the lane's cpu whatever is set. So they come in on both, as from a
card of several queues, and to be on cpu 0 they must be steered. It ends with 1 when the lane has less than 99 % of its packets there
with the lanes in force, or not less as it is; with --gate also when the lane's p99 is not shown to fall by 70 %, or the neighbour
not to lose or win 3 %. `--variants none` only looks.
"""

import argparse
import contextlib
import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import tempfile
import time

import machine
from servers import ROOT, Unavailable, built, tool

SERVER_ADDRESS, CLIENT_ADDRESS = "198.18.0.1", "198.18.0.2"
QUEUES_COUNT = 4
LANE_PORT, NEIGHBOUR_PORT = 6390, 6391
LANE_CPU, NEIGHBOUR_CPU = 0, 1
# Of a lane's packets, on its cores while it is in force: below that `lanes status` warns, too.
SHARE_MIN = 0.99
# A load fills its server first, and has begun by then also on a busy machine.
BEGIN_SECONDS_MAX = 60
# Of each connection, before `lanes status` looks.
GETS_COUNT = 100
# At the lane in force. The table of receive steering is the whole machine's, by hash: a connection that something else here begins may
# take a lane's place there until the server reads again.
LOOKS_COUNT_MAX = 3
# And with other connections: one of the lane's 8 and one of the neighbour's 32 have the same of its 32,768 places for good in one of 128
# tries.
TRIES_COUNT_MAX = 2
# What the noise of a shared machine may be; declared before the first run and printed above every result.
GATES = ["steal <= 40 %", "send lag <= 10000 %", "pressure <= 100 %", "load cpu <= 100 %"]

PROBE = {"rate": 2000, "connections": 8, "operations": "get", "keys": 10000, "value-size": "100", "preload": True}
BULK = {"connections": 32, "pipeline": 4, "operations": "get", "keys": 1000, "value-size": "10000", "preload": True}

PROCESS = """[[default.process]]
pid = NEIGHBOUR
"""
CORES = f"""
[default]
cores = "{NEIGHBOUR_CPU}"
{PROCESS}"""
NIC = """
[[nic]]
name = "CARD"
backend = "soft"
"""
LANE = f"""
[[lane]]
name = "redis"
ports = {LANE_PORT}
"""
LANE_CORE = f'cores = "{LANE_CPU}"\n'
AWAKE = "resume-latency-us = 0\n"
# What each variant asks for, and whether its server is started inside the lane.
VARIANTS = {
    "all": (NIC + LANE + LANE_CORE + AWAKE + CORES, True),
    "pin": (LANE + LANE_CORE + CORES, True),
    "steer": (NIC + LANE + LANE_CORE, False),
    "poll": (LANE + "busy-poll-us = 50\n", False),
    "shape": (NIC + LANE + '[default]\nrate-max = "1Gbit"\n', False),
    "wake": (LANE + LANE_CORE + AWAKE, False),
}
# `bench compare` begins on a machine where tasks waited for a core in at most 20 % of the last 10 s. The variant before has just
# made them wait: that is given a minute to pass.
PRESSURE_PERCENT_MAX = 15
QUIET_SECONDS_MAX = 60


def main():
    options = arguments()
    if options.hook:
        verb, place, side = options.hook
        getattr(Beside(place, side), verb)()
        return 0
    facts = machine.describe()
    print(machine.headline(facts))
    try:
        with contextlib.ExitStack() as stack:
            directory = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-lanes-")))
            hosts = stack.enter_context(Hosts())
            results = {name: compare(name, directory, hosts, options) for name in options.variants}
            looks = look(directory, hosts) if options.status else {}
    except Unavailable as problem:
        sys.exit(f"bench-lanes: {problem}")
    show(results, looks)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({"machine": facts, "variants": results, "status": looks}, indent=1))
    missed, wrong = list(unkept(results)), list(denied(looks))
    for problem in missed + wrong:
        print(f"over: {problem}")
    return 1 if wrong or (missed and options.gate) else 0


def unkept(results):
    """What is promised of the lane and of its neighbour, and was not shown."""
    promises = {"all": ("p99 falls by 70 %", -1, -0.70), "neighbour": ("requests a second stay within 3 %", -0.03, 0.03)}
    for name, (promise, low, high) in promises.items():
        if name in results:
            interval = results[name]["compared"][0]["interval"]
            if interval is None or interval["low"] < low or interval["high"] > high:
                yield f"{name}: it is not shown that its {promise}"


def denied(looks):
    """What `lanes status` should have said of the two looks and did not."""
    if not looks:
        return
    inside, outside = looks["all"], looks["as it is"]
    if inside["code"] != 0:
        yield f"lanes status, all: exit code {inside['code']}: the lane is not as wished"
    if outside["code"] == 0:
        yield "lanes status, as it is: the lane is said to be well although nothing was set"
    if inside["share"] is None or inside["share"] < SHARE_MIN:
        yield f"lanes status, all: {percent(inside['share'])} of the lane's packets on its cores, and not {SHARE_MIN:.0%} or more"
    if outside["share"] is None or outside["share"] >= SHARE_MIN:
        yield f"lanes status, as it is: {percent(outside['share'])} of the lane's packets on its cores, and not less than {SHARE_MIN:.0%}"


def percent(share):
    return "none" if share is None else f"{share:.2%}"


def share_on(report):
    """Of the lane's packets whose place is known, those on its cores; None: it had none, or they can't be seen."""
    used = report["lanes"][0]["used"]
    if used["state"] != "traffic":
        return None
    return used["on_packets"] / (used["on_packets"] + used["off_packets"])


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10, help="of each variant (default 10)")
    parser.add_argument("--floor-pairs", type=int, default=2, help="of the machine as it is with itself (default 2)")
    parser.add_argument("--seconds", type=int, default=5, help="of each run, the first does not count (default 5)")
    parser.add_argument("--variants", type=lambda text: [] if text == "none" else text.split(","),
                        default=[*VARIANTS, "neighbour"], metavar="LIST", help="some of them, or none (default all)")
    parser.add_argument("--no-status", dest="status", action="store_false", help="don't ask `lanes status` of both sides")
    parser.add_argument("--gate", action="store_true", help="end with 1 also when a promised figure was not shown")
    parser.add_argument("--noisy", action="store_true", help="begin also while others use the machine")
    parser.add_argument("--json", metavar="FILE", help="also write everything to FILE")
    parser.add_argument("--keep", metavar="DIR", help="also keep results and pages there")
    parser.add_argument("--hook", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    for name in options.variants:
        if name != "neighbour" and name not in VARIANTS:
            parser.error(f"there is no variant '{name}'; there are {', '.join(VARIANTS)} and neighbour")
    return options


class Hosts:
    """The clients' namespace and the pair of interfaces that leads there; gone when it ends, whatever happened."""

    def __init__(self):
        if os.geteuid() != 0:
            raise Unavailable("network namespaces need root")
        self.ip = tool("ip", "iproute2")
        self.client, self.card = f"bench-lanes-{os.getpid()}", f"xb{os.getpid()}"

    def __enter__(self):
        try:
            self._run("netns", "add", self.client)
            count = ["numtxqueues", str(QUEUES_COUNT), "numrxqueues", str(QUEUES_COUNT)]
            self._run("link", "add", self.card, *count, "type", "veth", "peer", "name", "vc", *count, "netns", self.client)
            self._run("addr", "add", f"{SERVER_ADDRESS}/24", "dev", self.card)
            self._run("link", "set", self.card, "up")
            self._run("-n", self.client, "addr", "add", f"{CLIENT_ADDRESS}/24", "dev", "vc")
            self._run("-n", self.client, "link", "set", "vc", "up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        # The pair goes with its end.
        subprocess.run([self.ip, "netns", "del", self.client], capture_output=True, check=False)
        subprocess.run([self.ip, "link", "del", self.card], capture_output=True, check=False)

    def _run(self, *words):
        done = subprocess.run([self.ip, *words], capture_output=True, text=True, check=False)
        if done.returncode:
            raise Unavailable(f"ip {' '.join(words)}: {done.stderr.strip()}")

    def at_client(self, command):
        return [self.ip, "netns", "exec", self.client, *map(str, command)]

    def at_server(self, command):
        """From wherever it is started, which for hooks and servers of `bench compare` is the clients' namespace, back here."""
        here = f"/proc/{os.getpid()}/ns"
        return [tool("nsenter", "util-linux"), f"--net={here}/net", f"--mount={here}/mnt", "--", *map(str, command)]


def redis(port, address):
    return [tool("redis-server", "redis-server"), "--port", str(port), "--bind", address, "--save", "", "--appendonly", "no",
            "--protected-mode", "no"]


class Beside:
    """What runs beside a measured server: another one, its load, and the lanes, by the hooks of `bench compare`."""

    def __init__(self, directory, side):
        self.directory = pathlib.Path(directory)
        self.plan = json.loads((self.directory / f"{side}.json").read_text())
        self.pids = self.directory / f"{side}.pids"

    def wish(self):
        """The lanes' file; the neighbour's number comes into it as soon as there is one."""
        self._write(self._neighbour())

    def start(self):
        """The server, and its load as soon as it answers."""
        pids = [self._spawn(self.plan["server"])]
        self.pids.write_text(json.dumps(pids))
        wait_for(self.plan["ready"])
        pids.append(self._spawn(self.plan["load"]))
        self.pids.write_text(json.dumps(pids))

    def apply(self):
        self._write(self._neighbour())
        subprocess.run([*self.plan["lanes"], "apply", self.plan["file"]], check=True, stdout=subprocess.DEVNULL)

    def revert(self):
        subprocess.run([*self.plan["lanes"], "revert"], check=False, capture_output=True)

    def stop(self):
        pids = json.loads(self.pids.read_text()) if self.pids.exists() else []
        self.pids.unlink(missing_ok=True)
        for pid in reversed(pids):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + 5
        for pid in pids:
            while is_alive(pid) and time.monotonic() < deadline:
                time.sleep(0.02)

    def _neighbour(self):
        """The neighbour's process, where it is what runs beside."""
        is_neighbour = str(NEIGHBOUR_PORT) in map(str, self.plan["server"])
        return json.loads(self.pids.read_text())[0] if is_neighbour and self.pids.exists() else None

    def _write(self, neighbour):
        wish = self.plan["wish"]
        text = wish.replace(PROCESS, "") if neighbour is None else wish.replace("NEIGHBOUR", str(neighbour))
        pathlib.Path(self.plan["file"]).write_text(text)

    def _spawn(self, command):
        with open(self.directory / "log", "ab") as log:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True).pid


def is_alive(pid):
    """Whether it runs; one that nobody has waited for yet does not."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_for(command):
    deadline = time.monotonic() + 10
    while subprocess.run(command, capture_output=True, check=False).returncode:
        if time.monotonic() > deadline:
            raise Unavailable(f"{' '.join(command)}: no answer within 10 s")
        time.sleep(0.05)


def wait_for_gets(hosts, port, connections):
    """Until each connection has been served often. Receive steering knows one from the server's first read; the packets before that go
    where everything else does, some two of each, and don't count against the lane."""
    command = hosts.at_client([tool("redis-cli", "redis-tools"), "-h", SERVER_ADDRESS, "-p", port, "info", "commandstats"])
    deadline, wanted = time.monotonic() + BEGIN_SECONDS_MAX, GETS_COUNT * connections
    while True:
        told = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        count = int(told.partition("cmdstat_get:calls=")[2].partition(",")[0] or 0)
        if count >= wanted:
            return
        if time.monotonic() > deadline:
            raise Unavailable(f"port {port}: {count} GETs within {BEGIN_SECONDS_MAX} s, and {wanted} are waited for")
        time.sleep(0.1)


def roles(name):
    """Who is measured and who runs beside it: port, load and cpu of both clients."""
    lane, neighbour = (LANE_PORT, PROBE, LANE_CPU), (NEIGHBOUR_PORT, BULK, NEIGHBOUR_CPU)
    return (neighbour, lane) if name == "neighbour" else (lane, neighbour)


def wait_for_quiet():
    """Until the pressure that the former variant made has passed. One that stays is `bench compare`'s to refuse."""
    deadline = time.monotonic() + QUIET_SECONDS_MAX
    while (machine.pressure() or 0) > PRESSURE_PERCENT_MAX and time.monotonic() < deadline:
        time.sleep(1)


def bench_load(hosts, port, load, cpus):
    """The load that runs beside what is measured, until it is ended."""
    flags = [f"--{key}" if value is True else f"--{key}={value}" for key, value in load.items()]
    return hosts.at_client([built("expresslane"), "bench", "run", f"{SERVER_ADDRESS}:{port}", "--quiet", "--noisy",
                                       "--duration", "1h", "--wait", "sleep", "--cpus", cpus, *flags])


def compare(name, directory, hosts, options):
    """The variant against the machine as it is. Returns what `bench compare --json` says."""
    place = directory / name
    place.mkdir()
    variant = "all" if name == "neighbour" else name
    (port, load, cpu), (other_port, other_load, other_cpu) = roles(name)
    lanes = hosts.at_server(["env", f"EXPRESSLANE_STATE_DIR={place / 'state'}", built("expresslane"), "lanes"])
    file = place / "lanes.toml"
    inside = hosts.at_server([built("expresslane"), "run", "--lane", "redis", "--file", file, "--"])
    start = hosts.at_server(redis(port, SERVER_ADDRESS))
    beside = hosts.at_server(redis(other_port, SERVER_ADDRESS))
    is_inside = VARIANTS[variant][1]
    if name == "neighbour":
        pinned = [built("expresslane"), "run", "--cpus", NEIGHBOUR_CPU, "--"]
        start_b = hosts.at_server(pinned + redis(port, SERVER_ADDRESS))
        beside_b = inside + redis(other_port, SERVER_ADDRESS)
    else:
        start_b = inside + redis(port, SERVER_ADDRESS) if is_inside else start
        beside_b = beside
    ready = hosts.at_client([tool("redis-cli", "redis-tools"), "-h", SERVER_ADDRESS, "-p", other_port, "ping"])
    for side, command in (("a", beside), ("b", beside_b)):
        (place / f"{side}.json").write_text(json.dumps({
            "server": command, "ready": ready, "load": bench_load(hosts, other_port, other_load, other_cpu),
            "lanes": lanes, "wish": VARIANTS[variant][0].replace("CARD", hosts.card), "file": str(file)}))
    def hook(side, *verbs):
        return [shlex.join([sys.executable, str(ROOT / "bench/lanes.py"), "--hook", verb, str(place), side]) for verb in verbs]
    is_neighbour = name == "neighbour"
    plan = {
        "metric": "throughput" if is_neighbour else "p99",
        "pairs": options.pairs, "floor-pairs": options.floor_pairs,
        "margin-percent": 3 if is_neighbour else 5,
        "claims": ["throughput stays within 3 %"] if is_neighbour else ["p99 falls by >= 70 %"] if name == "all" else [],
        "gates": GATES,
        # A server inside the lane is started by `expresslane run`, and a lane's core need not sleep.
        "may-differ": (["programs/server *"] if start_b != start else []) + ["processor/idle latency limit"],
        "load": {**load, "duration": f"{options.seconds}s", "warm-up": 1, "cpus": str(cpu), "wait": "sleep"},
        "a": {"name": "as it is", "address": f"{SERVER_ADDRESS}:{port}", "start": start,
              "before": hook("a", "start"), "after": hook("a", "stop")},
        # The file is there before the server is started inside it.
        "b": {"name": f"lanes: {name}", "address": f"{SERVER_ADDRESS}:{port}", "start": start_b,
              "before": hook("b", "wish", "start", "apply"), "after": hook("b", "revert", "stop")},
    }
    (place / "plan.toml").write_text(toml(plan))
    keep = pathlib.Path(options.keep or place)
    keep.mkdir(parents=True, exist_ok=True)
    command = hosts.at_client([
        built("expresslane"), "bench", "compare", place / "plan.toml", "--json",
        "--result", keep / f"{name}.jsonl", "--html", keep / f"{name}.html", *["--noisy"] * options.noisy])
    print(f"\n{name}:", flush=True)
    if not options.noisy:
        wait_for_quiet()
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    finally:
        # A comparison that was cut has run no hooks behind it.
        for side in "ab":
            beside = Beside(place, side)
            beside.revert()
            beside.stop()
    if done.returncode not in (0, 3, 4):
        log = tail(place / "log")
        raise Unavailable(f"{name}: bench compare ended with {done.returncode}; what ran beside said:\n{log}")
    return json.loads(done.stdout)


def toml(plan):
    """Enough of TOML for a plan: strings, numbers, lists of strings, one level of tables."""
    def value(it):
        return json.dumps(it if not isinstance(it, list) else [str(one) for one in it])
    lines = [f"{key} = {value(it)}" for key, it in plan.items() if not isinstance(it, dict)]
    for name, table in plan.items():
        if isinstance(table, dict):
            lines += [f"[{name}]"] + [f"{key} = {value(it)}" for key, it in table.items()]
    return "\n".join(lines) + "\n"


def tail(path):
    return path.read_text(errors="replace")[-1500:] if path.exists() else "(none)"


def look(directory, hosts):
    """What `lanes status` says of the lane's traffic while both loads run, the lane's from both cpus: in force, and without it."""
    found = {}
    for name, is_inside in (("as it is", False), ("all", True)):
        for number in range(1, TRIES_COUNT_MAX + 1 if is_inside else 2):
            place = directory / f"status-{name.replace(' ', '-')}-{number}"
            found[name] = look_once(name, place, hosts, is_inside)
            if found[name]["code"] == 0:
                break
    return found


def look_once(name, place, hosts, is_inside):
    """The same of one of them, with connections of its own."""
    place.mkdir()
    lanes = hosts.at_server(["env", f"EXPRESSLANE_STATE_DIR={place / 'state'}", built("expresslane"), "lanes"])
    file = place / "lanes.toml"
    wrapper = [built("expresslane"), "run", "--lane", "redis", "--file", file, "--"] if is_inside else []
    with contextlib.ExitStack() as stack:
        sides = {}
        probe, both = {**PROBE, "threads": 2}, f"{LANE_CPU},{NEIGHBOUR_CPU}"
        for side, port, load, cpus in (("a", NEIGHBOUR_PORT, BULK, NEIGHBOUR_CPU), ("b", LANE_PORT, probe, both)):
            server = redis(port, SERVER_ADDRESS)
            command = hosts.at_server(wrapper + server if side == "b" else server)
            ready = hosts.at_client([tool("redis-cli", "redis-tools"), "-h", SERVER_ADDRESS, "-p", port, "ping"])
            (place / f"{side}.json").write_text(json.dumps({
                "server": command, "ready": ready, "load": bench_load(hosts, port, load, cpus),
                "lanes": lanes, "wish": VARIANTS["all"][0].replace("CARD", hosts.card), "file": str(file)}))
            sides[side] = Beside(place, side)
            if side == "a":
                sides[side].start()
                stack.callback(sides[side].stop)
                sides[side].wish()
        if is_inside:
            sides["a"].apply()
            stack.callback(sides["a"].revert)
        sides["b"].start()
        stack.callback(sides["b"].stop)
        for port, load in ((NEIGHBOUR_PORT, BULK), (LANE_PORT, PROBE)):
            wait_for_gets(hosts, port, load["connections"])
        status = [*lanes, "status", str(file), "--sample", "3s", "--json"]
        for count in range(1, LOOKS_COUNT_MAX + 1 if is_inside else 2):
            done = subprocess.run(status, capture_output=True, text=True, check=False)
            if not done.stdout:
                raise Unavailable(f"lanes status, {name}: {done.stderr.strip()}")
            report = json.loads(done.stdout)
            found = {"code": done.returncode, "looks": count, "share": share_on(report), "report": report}
            if done.returncode == 0:
                break
    return found


def show(results, looks):
    if results:
        print(f"\n{'variant':<10} {'metric':<11} {'as it is':>10} {'lanes':>10}   change [95 %]            verdict")
    for name, result in results.items():
        first = result["compared"][0]
        medians = [median(result["runs"], arm, first["metric"]) for arm in "ab"]
        change = "-"
        if first["change"] is not None:
            change = f"{first['change']:+.0%} [{first['interval']['low']:+.0%}, {first['interval']['high']:+.0%}]"
        verdict = f"{first['verdict'] or 'too few pairs'} ({first['pairs_count']} pairs)"
        print(f"{name:<10} {first['metric']:<11} {medians[0]:>10} {medians[1]:>10}   {change:<24} {verdict}")
        print(f"           {result['answer']}")
    for name, told in looks.items():
        lane = told["report"]["lanes"][0]
        print(f"\nlanes status, {name}: {lane['headline']} (exit code {told['code']}, {percent(told['share'])} of its packets on its cores, "
              f"look {told['looks']})")
        for finding in lane["findings"]:
            print(f"    {finding['problem']}")


def median(runs, arm, metric):
    """The middle value of the runs that count, as text."""
    values = [run["metrics"][column(metric)] for run in runs if run["arm"] == arm and not run["is_left_out"]]
    values = sorted(value for value in values if value is not None)
    if not values:
        return "-"
    middle = values[len(values) // 2]
    return f"{middle:,.0f}/s" if metric == "throughput" else f"{middle / 1000:,.0f} us"


def column(metric):
    return metric if metric == "throughput" else metric + "_ns"


if __name__ == "__main__":
    sys.exit(main())
