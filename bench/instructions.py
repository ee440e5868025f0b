#!/usr/bin/env python3
"""Instructions per GET and SET in each dialect, per INCR, per EVAL of a GET, per forwarded GET, and per request of the load and of its recording, counted by
callgrind: repeatable whatever else the machine does.

The programs are crates/sim/examples/instructions, one lane over memory, or two (forward.rs),
whose turns alone are counted, with all keys on the clients' lane or all on the other; and crates/load/examples/cost, one engine
of the load over memory, or what is recorded of a request whose times are its own. All but the
last send sixteen commands at a time. Two runs of different length are counted, so that start-up
cancels out. The result is compared with the record in bench/instructions.json: more than 2 % above it, or above the ceiling,
fails, and so does a forwarded GET that costs more than twice a direct one. After an intended change write the new record with
--write.

    bench/instructions.py FOLDER-OF-BUILT-EXAMPLES [--write]
"""

import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

RECORD = pathlib.Path(__file__).with_name("instructions.json")
TOLERANCE = 0.02
# A forwarded GET, both lanes together, beside a direct one.
RATIO_MAX = 2.0
TURNS_ONLY = ["--toggle-collect=instructions::forward::serve"]
# Of each record: the program, its first arguments, what callgrind is told besides, the last argument of the two runs, and how
# many commands one of those counts for.
PROGRAMS = {
    "get": ("instructions", "get", [], (16_000, 48_000), 1),
    "set": ("instructions", "set", [], (16_000, 48_000), 1),
    "single-get": ("instructions", "single-get", [], (16_000, 48_000), 1),
    "incr": ("instructions", "incr", [], (16_000, 48_000), 1),
    "eval": ("instructions", "eval", [], (16_000, 48_000), 1),
    "memcached-get": ("instructions", "memcached-get", [], (16_000, 48_000), 1),
    "memcached-set": ("instructions", "memcached-set", [], (16_000, 48_000), 1),
    "memcached-binary-get": ("instructions", "memcached-binary-get", [], (16_000, 48_000), 1),
    "memcached-binary-set": ("instructions", "memcached-binary-set", [], (16_000, 48_000), 1),
    "aerospike-get": ("instructions", "aerospike-get", [], (16_000, 48_000), 1),
    "aerospike-set": ("instructions", "aerospike-set", [], (16_000, 48_000), 1),
    "load": ("cost", "engine 16", [], (16_000, 48_000), 1),
    "recording": ("cost", "recording single", [], (16_000, 48_000), 1),
    "direct": ("instructions", "direct", TURNS_ONLY, (10, 30), 800),
    "forwarded": ("instructions", "forwarded", TURNS_ONLY, (10, 30), 800),
}
# memcpy and its kin choose a variant by the processor; this one is had everywhere, so the count is the same everywhere. What keys are
# found by (crates/keyhash) has instructions of its own on nearly all: where a hypervisor hides AES, each command takes some 110 more.
PINNED = {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-AVX_Fast_Unaligned_Load,-ERMS,-AVX512F,-AVX512VL,-AVX512BW"}


def count(program: str, options: list[str], kind: str, size: int) -> int:
    """Instructions of one whole run."""
    run = subprocess.run(
        ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *options, program, *kind.split(), str(size)],
        env={**os.environ, **PINNED},
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.search(r"Collected : (\d+)", run.stderr)
    if run.returncode != 0 or not found or found.group(1) == "0":
        sys.exit(f"callgrind failed on {program}:\n{run.stderr[-2000:]}")
    return int(found.group(1))


def main() -> int:
    arguments = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
    if len(arguments) != 1:
        sys.exit(__doc__)
    if not shutil.which("valgrind"):
        sys.exit("valgrind is missing: apt-get install valgrind")
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    failed = False
    found = {}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        counts = {
            kind: [pool.submit(count, os.path.join(arguments[0], program), options, argument, size) for size in sizes]
            for kind, (program, argument, options, sizes, _) in PROGRAMS.items()
        }
    for kind, (_, _, _, sizes, commands) in PROGRAMS.items():
        few, many = (run.result() for run in counts[kind])
        each = found[kind] = (many - few) / ((sizes[1] - sizes[0]) * commands)
        known = record.get(kind, {})
        limit = min(known.get("record", each) * (1 + TOLERANCE), known.get("ceiling", each))
        verdict = "ok" if each <= limit else f"too many: at most {limit:.0f}"
        print(f"{kind}: {each:.1f} instructions (record {known.get('record', 0):.1f}): {verdict}")
        failed |= each > limit
        if "--write" in sys.argv:
            record[kind] = {"record": round(each, 1), "ceiling": known.get("ceiling", round(each * 1.2))}
    ratio = found["forwarded"] / found["direct"]
    print(f"forwarded: {ratio:.2f} x direct: {'ok' if ratio <= RATIO_MAX else f'too many: at most {RATIO_MAX}'}")
    failed |= ratio > RATIO_MAX
    if "--write" in sys.argv:
        RECORD.write_text(json.dumps(record, indent=2) + "\n")
        return 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
