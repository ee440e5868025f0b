#!/usr/bin/env python3
"""Does `bench compare` find a difference that is known, on this machine, live?

The floor responder is compared with itself slowed by a share of its own median response (20 %), again and again: each comparison is
the real one, with pairs in random order and fresh servers. It fails when more than 30 % of them can't tell, or when one calls the
slower floor better. A comparison that this machine is too busy for counts for neither, and too many of them are a failure of their own: end what
disturbs it and run again. Ten comparisons take about six minutes.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import machine
from servers import Server, Unavailable, built, floor_command, free_port

# Of all comparisons no more than this share may be "can't tell", and no more may be impossible.
OPEN_SHARE_MAX = 0.3
# Bytes of a reply.
REPLY_SIZE = 100
# The load itself leaves 20 µs late in the p99, which is more than a fifth of such short responses; both sides have it.
GATES = ["send lag <= 100 %"]
# What a machine whose cpus are taken from it may do to a run that counts; it widens the interval.
NOISY_GATES = ["steal <= 40 %", "send lag <= 10000 %", "pressure <= 95 %", "load cpu <= 100 %"]


def main():
    options = arguments()
    facts = machine.describe()
    try:
        delay_ns = round(options.difference * median_ns(options))
        print(f"{facts['cpu']}, {facts['cpus']} cpus, kernel {facts['kernel']}, commit {facts['commit']}")
        print(f"the slower floor takes {delay_ns / 1000:.1f} us more for each request", flush=True)
        words = []
        with tempfile.TemporaryDirectory() as folder:
            for number in range(options.comparisons):
                word, told = comparison(pathlib.Path(folder) / "plan.toml", delay_ns, number, options)
                words.append(word)
                print(f"{number + 1:3} of {options.comparisons}: {told}", flush=True)
    except Unavailable as problem:
        sys.exit(f"bench-difference: {problem}")
    problem = judge(words)
    print(problem or "passed")
    sys.exit(1 if problem and not options.no_judgement else 0)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--comparisons", type=int, default=10, help="(default 10)")
    parser.add_argument("--pairs", type=int, default=10, help="of each comparison (default 10)")
    parser.add_argument("--seconds", type=int, default=1, help="of each run that count (default 1)")
    parser.add_argument("--difference", type=float, default=0.2, metavar="SHARE", help="of the median response (default 0.2)")
    parser.add_argument("--rate", type=int, default=5000, help="requests a second (default 5000)")
    parser.add_argument("--server-cpu", type=int, default=0)
    parser.add_argument("--load-cpu", type=int, default=1)
    parser.add_argument("--noisy", action="store_true", help="go on although this machine is busy with something else")
    parser.add_argument("--no-judgement", action="store_true", help="only see that it works; what comes out is no failure")
    return parser.parse_args()


def bench(options, *words):
    noisy = ["--noisy"] if options.noisy else []
    return subprocess.run([built("expresslane"), "bench", *map(str, words), "--quiet", "--json", *noisy],
                          capture_output=True, text=True, check=False)


def median_ns(options):
    """The floor's own median response at the rate, under the load that is going to compare."""
    with Server("floor", floor_command(REPLY_SIZE), options.server_cpu) as server:
        done = bench(options, "run", f":{server.port}", "--rate", options.rate, "--cpus", options.load_cpu,
                     "--duration", f"{options.seconds + 2}s", "--warm-up", 1)
    if not done.stdout:
        raise Unavailable(done.stderr.strip())
    return json.loads(done.stdout)["runs"][0]["metrics"]["p50_ns"]


def comparison(plan, delay_ns, number, options):
    """Its word, None: this machine could not make it; and what there is to say of it."""
    def setup(name, delay_ns):
        port = free_port()
        start = [built("floor"), "--port", str(port), "--reply-size", str(REPLY_SIZE), "--delay-ns", str(delay_ns)]
        return (f'[{name}]\naddress = ":{port}"\nstart = {json.dumps(start)}\ncpus = "{options.server_cpu}"\n')
    plan.write_text(f"""\
metric = "p50"
pairs = {options.pairs}
floor-pairs = 0
seed = {number + 1}
gates = {json.dumps(NOISY_GATES if options.noisy else GATES)}
[load]
rate = {options.rate}
duration = "{options.seconds}s 100ms"
warm-up = 0
cpus = "{options.load_cpu}"
{setup("a", 0)}{setup("b", delay_ns)}""", encoding="utf-8")
    done = bench(options, "compare", plan)
    compared = json.loads(done.stdout)["compared"] if done.stdout else []
    if not compared or compared[0]["verdict"] is None:
        return None, f"not told: {done.stderr.strip()}"
    primary = compared[0]
    interval = primary["interval"]
    return primary["verdict"], (f"{primary['verdict']}, p50 {primary['change']:+.1%} "
                                f"({interval['low']:+.1%} to {interval['high']:+.1%}), {primary['pairs_count']} pairs")


def judge(words):
    """What is wrong with them. None: nothing."""
    most = OPEN_SHARE_MAX * len(words)
    open_count, none_count = words.count("can't tell"), words.count(None)
    if better := sum(word is not None and word.startswith("better") for word in words):
        return f"FAILED: {better} of {len(words)} comparisons call the slower floor better"
    if none_count > most:
        return f"FAILED: this machine was too busy for {none_count} of {len(words)} comparisons: end what disturbs it, and run again"
    if open_count > most:
        return f"FAILED: {open_count} of {len(words)} comparisons can't tell; at most {OPEN_SHARE_MAX:.0%} may"
    return None


if __name__ == "__main__":
    main()
