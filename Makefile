# Two commands matter: `make run` and `make test`. `make help` lists the rest.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
CARGO ?= cargo
PYTHON ?= python3
# Arguments for the server: make run ARGS="--lanes 2 --port 7000"
ARGS ?=
# Arguments for a benchmark: make bench-peers ARGS="--rounds 20 --json peers.json"
TARGET := $(or $(CARGO_TARGET_DIR),target)
CLIENTS := $(TARGET)/clients
# All release programs that tests run.
TESTED := --release --locked -p expresslane -p load -p sim --bin expresslane --bin floor --bin bare --bin spin \
	--example instructions --example cost
# How often each branch of them is taken under load, written down by `make profile` (docs/profile.md). It is of one processor's code.
PROFILE := $(CURDIR)/crates/expresslane/release.profdata
ifeq ($(shell uname -sm),Linux x86_64)
# Encoded, for a path may have spaces; what RUSTFLAGS says holds, too.
PROFILED := CARGO_ENCODED_RUSTFLAGS="$${RUSTFLAGS:+$$(printf %s "$$RUSTFLAGS" | tr -s ' ' '\037')$$(printf '\037')}-Cprofile-use=$(PROFILE)"
endif
# What could not be tested on this machine: a file for each target that may skip something, a line for each thing.
SKIPPED := $(TARGET)/skipped

.PHONY: help
help: ## This list
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | while IFS=$$'\t' read -r name text; do printf '  make %-18s %s\n' "$$name" "$$text"; done

# ---- use ----

.PHONY: run
run: build ## Build the release binary and start the server on 127.0.0.1:6379
	@exec $(TARGET)/release/expresslane serve $(ARGS)

.PHONY: build
build: need-toolchain ## Build the release programs
	@$(PROFILED) $(CARGO) build --release --locked -p expresslane -p load

.PHONY: setup
setup: ## Install what is missing, on Debian and Ubuntu (prints each command)
	@bash .ci/setup

# ---- proof: what CI runs ----

.PHONY: test
test: format lint deny test-rust-while-building test-self test-clients test-bench test-instructions ## Everything that CI runs
	@if [ -n "$$(cat $(SKIPPED)/* 2>/dev/null)" ]; then \
		echo "make test: passed, but for $$(cat $(SKIPPED)/* | wc -l) skipped:"; cat $(SKIPPED)/* | sed 's/^/  /'; \
	else echo "make test: all of it passed"; fi

.PHONY: format
format: need-toolchain
	@echo "== format"
	@$(CARGO) fmt --all --check

.PHONY: lint
lint: need-toolchain
	@echo "== lint"
	@$(CARGO) clippy --quiet --workspace --all-targets --locked -- -D warnings
	@echo "== links of docstrings"
	@RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" \
		$(CARGO) doc --quiet --workspace --no-deps --document-private-items --locked

# Advisories need a database from the network, so they are a target of their own.
.PHONY: deny
deny: need-toolchain
	@echo "== licences, sources and banned crates"
	@mkdir -p $(SKIPPED) && : >$(SKIPPED)/deny
	@if $(CARGO) deny --version >/dev/null 2>&1; then $(CARGO) deny --locked --log-level error check bans licenses sources; \
	else echo "licences: cargo-deny is missing (cargo install --locked cargo-deny)" | tee $(SKIPPED)/deny; fi

.PHONY: advisories
advisories: ## Known vulnerabilities in the dependencies (needs cargo-deny and the network)
	@$(CARGO) deny check advisories

.PHONY: test-rust
test-rust: need-toolchain
	@echo "== unit, conformance and simulation tests"
	@$(CARGO) test --quiet --workspace --locked

# Most tests wait most of the time, so twice as many run as there are cores; and a program is linked on one core: together they take little
# longer than either.
.PHONY: test-rust-while-building
test-rust-while-building: need-toolchain
	@echo "== unit, conformance and simulation tests, and the release programs for those below"
	@$(CARGO) test --quiet --workspace --locked --no-run
	@$(PROFILED) nice $(CARGO) build --quiet $(TESTED) & built=$$!; tested=0; \
		{ RUST_TEST_THREADS=$$((2 * $$(nproc))) $(CARGO) test --quiet --workspace --locked && $(MAKE) --no-print-directory test-loom; } || tested=$$?; \
		wait $$built; exit $$tested

# Every order of the steps of two threads, for the ring and its bell. Built apart, for loom replaces the atomics.
.PHONY: test-loom
test-loom: need-toolchain
	@echo "== loom: the ring and the bell"
	@RUSTFLAGS="--cfg loom" $(CARGO) test --quiet --locked -p ring --test loom --target-dir $(TARGET)/loom

# The load generator against answers that are known: exact ones in memory, live ones with room for a busy machine.
.PHONY: test-self
test-self: build
	@echo "== the load generator's own test"
	@$(TARGET)/release/expresslane bench self-test --quick >$(TARGET)/self-test.txt 2>&1 || { \
		cat $(TARGET)/self-test.txt; exit 1; }

.PHONY: test-clients
test-clients: build $(CLIENTS)/ready ## Clients that others wrote, against the built server
	@echo "== real clients"
	@$(CLIENTS)/venv/bin/python tests/clients/run.py

.PHONY: test-clients-uring
test-clients-uring: build $(CLIENTS)/ready ## The same over io_uring, where the kernel has it
	@echo "== real clients over io_uring"
	@$(CLIENTS)/venv/bin/python tests/clients/run.py --io uring

$(CLIENTS)/ready: tests/clients/requirements.txt
	@$(call need,$(PYTHON),python3)
	@mkdir -p $(CLIENTS)
	@$(PYTHON) -m venv $(CLIENTS)/venv || { echo "python3 has no venv: run 'make setup' (apt-get install python3-venv)"; exit 1; }
	@$(CLIENTS)/venv/bin/pip install --quiet --disable-pip-version-check --requirement tests/clients/requirements.txt
	@touch $@

# Every program in bench/ once, so small that its figures mean nothing: it must still work, not be fast.
.PHONY: test-bench
test-bench: build
	@echo "== the benchmarks, small"
	@mkdir -p $(SKIPPED) && : >$(SKIPPED)/bench
	@$(call need,redis-server,redis-server)
	@$(call need,redis-benchmark,redis-tools)
	@$(call need,memcached,memcached)
	@for small in "peers.py --rounds 1 --scale 0.001 --uring" "peers.py --rounds 1 --scale 0.001 --load bench" "forward.py --rounds 1 --scale 0.02" \
		"tail.py --rounds 1 --seconds 0.5 --warm-up 0 --saturation-seconds 0.5 --shares 0.1" \
		"growth.py --keys 5000 --rate 5000 --spin-seconds 1" "connect.py --rounds 1 --clients 300" \
		"long.py --rounds 1 --names 200 --size 50000" "neighbours.py --rounds 1 --seconds 0.3" \
		"replicas.py --rounds 1 --keys 5000 --sets 5000" \
		"load.py --rounds 1 --scale 0.001 --seconds 0.5" "memory.py --points 20000 --no-redis" \
		"memcached.py --rounds 1 --scale 0.001 --documents 5000" "records.py --rounds 1 --scale 0.001 --records 2000" \
		"difference.py --comparisons 1 --pairs 1 --noisy --no-judgement" \
		"lanes.py --pairs 1 --floor-pairs 0 --seconds 2 --variants all --noisy"; do \
		if [ "$${small%% *}" = lanes.py ] && ! unshare --net --mount true 2>/dev/null; then \
			echo "bench/lanes.py: network namespaces need root" | tee $(SKIPPED)/bench; continue; fi; \
		$(PYTHON) bench/$$small >$(TARGET)/bench.txt 2>&1 || { cat $(TARGET)/bench.txt; echo "bench/$$small failed"; exit 1; }; \
	done

# Apart from `make test`, for it fetches the suite from Debian's mirror the first time.
.PHONY: test-redis-suite
test-redis-suite: build ## Redis' own test suite against the built server (tests/redis_suite)
	@echo "== Redis' own test suite"
	@$(call need,$(PYTHON),python3)
	@$(PYTHON) tests/redis_suite/run.py $(ARGS)

# Apart from `make test`, for it takes six minutes and more, root, QEMU, and the first time 180 MB of Debian's newest kernel.
.PHONY: test-vm
test-vm: need-toolchain ## Lanes on Debian's newest kernel with a virtio card, in a guest of QEMU (tests/vm; needs root)
	@echo "== lanes in a virtual machine"
	@$(call need,$(PYTHON),python3)
	@$(PYTHON) tests/vm/run.py $(ARGS)

# Counted, not timed: the same number whatever else the machine does.
.PHONY: test-instructions
test-instructions: need-toolchain
	@echo "== instructions per GET, SET, forwarded GET and request of the load"
	@$(call need,valgrind,valgrind)
	@$(PROFILED) $(CARGO) build --quiet $(TESTED)
	@$(PYTHON) bench/instructions.py $(TARGET)/release/examples

.PHONY: test-long
test-long: need-toolchain ## The long seeds of the simulation, the property tests and what takes minutes or redis-server (an hour)
	@EXPRESSLANE_LONG=1 $(CARGO) test --profile quick --workspace --locked
	@EXPRESSLANE_LONG=1 $(CARGO) test --profile quick -p sim --locked -- --ignored

# Apart from `make test`, for it is timed: it wants a quiet machine, and six minutes of it.
.PHONY: test-difference
test-difference: build ## Whether bench compare finds a difference of 20 % on this machine, live (six minutes; a quiet machine)
	@echo "== a known difference, found live"
	@$(PYTHON) bench/difference.py $(ARGS)

# ---- numbers ----

# The programs are built twice, to count and then to tell that it was counted for them; what build scripts count is nobody's.
.PHONY: profile
profile: need-toolchain ## How often each branch is taken under load, for release builds: after a change of what every request passes
	@RUSTFLAGS="$(RUSTFLAGS) -Cprofile-generate" LLVM_PROFILE_FILE="$(abspath $(TARGET)/profile)/build-%m.profraw" \
		$(CARGO) build $(TESTED) --target-dir $(TARGET)/profile
	@CARGO_TARGET_DIR="$(abspath $(TARGET)/profile)" $(PYTHON) bench/pgo.py "$(PROFILE)"

.PHONY: bench-peers
bench-peers: build ## CPU per request: this server, Debian's redis-server, its memcached, and the floor
	@$(call need,redis-server,redis-server)
	@$(call need,redis-benchmark,redis-tools)
	@$(call need,memcached,memcached)
	@$(PYTHON) bench/peers.py $(ARGS)

.PHONY: bench-memcached
bench-memcached: build ## CPU per request and bytes per document: this server and Debian's memcached
	@$(call need,memcached,memcached)
	@$(PYTHON) bench/memcached.py $(ARGS)

.PHONY: bench-aerospike
bench-aerospike: build ## CPU per request and bytes per record: this server under Aerospike's protocol, the floor and redis-server
	@$(call need,redis-server,redis-server)
	@$(PYTHON) bench/records.py $(ARGS)

.PHONY: bench-lanes
bench-lanes: build ## A noisy neighbour beside redis-server, with lanes and without (needs root)
	@$(call need,redis-server,redis-server)
	@$(PYTHON) bench/lanes.py $(ARGS)

.PHONY: bench-load
bench-load: build ## CPU per request of the load itself: bench run, redis-benchmark, memtier_benchmark if it is there, a bare client
	@$(call need,redis-benchmark,redis-tools)
	@$(PYTHON) bench/load.py $(ARGS)

.PHONY: bench-forward
bench-forward: build ## CPU per forwarded request beside a direct one, and bells, over memory and over sockets
	@$(PROFILED) $(CARGO) build --quiet $(TESTED)
	@$(TARGET)/release/examples/instructions forward
	@$(PYTHON) bench/forward.py $(ARGS)

.PHONY: bench-tail
bench-tail: build ## Response times at a fixed rate: this server, Debian's redis-server and the floor
	@$(call need,redis-server,redis-server)
	@$(PYTHON) bench/tail.py $(ARGS)

.PHONY: bench-neighbours
bench-neighbours: build ## How long a PING waits beside clients that ask for much: this server and Debian's redis-server
	@$(call need,redis-server,redis-server)
	@$(PYTHON) bench/neighbours.py $(ARGS)

.PHONY: bench-connect
bench-connect: build ## Time to the first answer while thousands of clients connect: this server and Debian's redis-server
	@$(call need,redis-server,redis-server)
	@$(PYTHON) bench/connect.py $(ARGS)

.PHONY: bench-long
bench-long: build ## What others wait for during a long MGET: this server with one lane and with two, and Debian's redis-server
	@$(call need,redis-server,redis-server)
	@$(PYTHON) bench/long.py $(ARGS)

.PHONY: bench-replicas
bench-replicas: build ## What others wait for during a snapshot, and what a SET costs with a replica: this server and Debian's redis-server
	@$(call need,redis-server,redis-server)
	@$(call need,redis-cli,redis-tools)
	@$(PYTHON) bench/replicas.py $(ARGS)

.PHONY: bench-growth
bench-growth: build ## Response times while a lane goes from 0 to 10 million keys
	@$(PYTHON) bench/growth.py $(ARGS)

.PHONY: bench-memory
bench-memory: build ## Resident bytes per key: this server and Debian's redis-server
	@$(call need,redis-server,redis-server)
	@$(PYTHON) bench/memory.py $(ARGS)

# The quick form; `target/release/expresslane bench reproduce all` is the full one, unattended over hours. The links of E3 and E4 need root.
.PHONY: reproduce
reproduce: build ## The five published experiments, quick form (20 minutes); ARGS="--noisy" on a busy machine
	@$(call need,redis-server,redis-server)
	@$(TARGET)/release/expresslane bench reproduce all --quick --result $(TARGET)/reproduce.jsonl --html $(TARGET)/reproduce.html $(ARGS) || { code=$$?; [ $$code = 3 ] || exit $$code; }
	@echo "the report: $(TARGET)/reproduce.html; everything that was seen: $(TARGET)/reproduce.jsonl"

# ---- what must be there ----

need = command -v $(1) >/dev/null || { echo "$(1) is missing: run 'make setup', or install $(2)"; exit 1; }

.PHONY: need-toolchain
need-toolchain:
	@command -v $(firstword $(CARGO)) >/dev/null || { echo "cargo is missing: run 'make setup', or install Rust from https://rustup.rs"; exit 1; }
	@$(call need,cc,gcc (a C linker; Debian: apt-get install gcc libc6-dev))
	@$(call need,c++,g++ (for the interpreter of scripts; Debian: apt-get install g++))
	@[ -e "$$(c++ -print-file-name=libstdc++.a)" ] || { echo "libstdc++.a is missing: it comes with g++ on Debian and Ubuntu, and with libstdc++-static on Fedora"; exit 1; }
