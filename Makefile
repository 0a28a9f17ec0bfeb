# make demo     the main job on this machine, from nothing
# make test     every test
# make build    what tests run, as they run it
# make one      one test: CRATE=althing-td TEST=name, and IN=suite for those of its tests/suite alone
# make bench    benchmarks, in release (BENCH=one of them; BEFORE=an earlier program of the node, which `make before REV=commit` builds)
# make soak     24 minutes of nodes that live long beside others that are disturbed (SOAK=seconds)
# make night    all that is too long for a change: seeds, soak, fuzzing, load; goes on where it was interrupted
# make install  the programs, in release, into ~/.cargo/bin
# make image    the image localhost/althing, by docker or podman (DEBUG=1: of the debug build; BASE=image to stand on)
# make audit    licences, bans, sources and advisories of dependencies
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
ALTHING_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/althing
# Outside the checkout, so that every checkout and run shares one build.
export CARGO_TARGET_DIR ?= $(ALTHING_CACHE)/target
# Most tests wait more than they work. At three times the processors, groups found no time to elect a leader.
export RUST_TEST_THREADS ?= $(shell echo $$((2 * $$(nproc))))
ROCKSDB := rocksdb=$$(scripts/rocksdb.sh); eval "$$rocksdb";
CARGO := $(ROCKSDB) cargo
# Clippy where it is at hand, and no optimised test programs. What is for use is compiled by rustc.
export RUSTC_WORKSPACE_WRAPPER ?= $(shell ALTHING_CACHE='$(ALTHING_CACHE)' scripts/compiler.sh)
RELEASE := $(ROCKSDB) RUSTC_WORKSPACE_WRAPPER= cargo

.PHONY: demo test build one soak night bench before install image audit lint fmt setup fuzz

setup:
	@scripts/setup.sh

# Only the programs, with the features that the whole workspace gives its libraries: `make test` compiles none of them again.
demo:
	@scripts/setup.sh build
	@$(CARGO) build --workspace --bin althing --bin althing-keeper --bin althing-registry
	@"$(CARGO_TARGET_DIR)/debug/althing" demo $(DEMO)

# TEST=… hands it to cargo instead: make test TEST="--test suite a2a_tck".
test: setup lint
	@$(ROCKSDB) $(if $(TEST),cargo test --workspace --no-fail-fast $(TEST),scripts/tests.sh)

build:
	@$(CARGO) build --workspace

one:
	@$(CARGO) test --package $(or $(CRATE),$(error CRATE=… is the crate)) $(if $(IN),--test $(IN)) -- $(TEST)

soak: setup
	@$(CARGO) build --workspace
	@export ALTHING_SOAK_SECS=$(or $(SOAK),1440); $(CARGO) test --workspace --test alone -- --nocapture soak

# PART=… only that one. A part that passed is not run again for the same commit.
night: setup
	@$(ROCKSDB) scripts/night.sh $(PART)

# Cargo repeats what the compiler said of each crate: a warning is an error here, and in nobody's `make demo`.
lint: setup
	@cargo fmt --all --check
	@clippy-driver --version >/dev/null 2>&1 || { echo "lint: clippy is missing: rustup component add clippy" >&2; exit 1; }
	@$(CARGO) build --workspace --all-targets
	@warnings=$$($(CARGO) build --workspace --all-targets --quiet 2>&1); [ -z "$$warnings" ] || { echo "lint: mend the warnings above; they are errors here" >&2; exit 1; }

fmt:
	@cargo fmt --all

bench: setup
	@$(RELEASE) build --release --workspace --features jemalloc
	@$(RELEASE) build --release --locked --manifest-path tests/bench/peer/Cargo.toml
	@ALTHING_BENCH_BEFORE='$(if $(BEFORE),$(abspath $(BEFORE)))' "$(CARGO_TARGET_DIR)/release/althing-bench" $(BENCH)
	@$(if $(BENCH),,outcome=0; for class in hrt srt dt; do "$(CARGO_TARGET_DIR)/release/althing" bench $$class || outcome=$$?; done; exit $$outcome)

# The program of the node as of an earlier commit, in release, for `make bench BEFORE=…`; prints where it is.
before: setup
	@scripts/before.sh "$(or $(REV),$(error REV=… is the commit))"

install:
	@scripts/setup.sh build
	@$(RELEASE) install --path node/althing --locked --features jemalloc
	@$(RELEASE) install --path node/l1-execution/keeper --locked
	@$(RELEASE) install --path simulations --locked --features jemalloc
	@$(RELEASE) install --path registry --locked --features jemalloc

# Of programs that this machine builds: nothing is compiled in the image.
image:
	@scripts/setup.sh build
	@$(if $(DEBUG),$(CARGO),$(RELEASE)) build $(if $(DEBUG),,--release --features jemalloc) --workspace --bin althing --bin althing-keeper --bin althing-registry
	@scripts/image.sh "$(CARGO_TARGET_DIR)/$(if $(DEBUG),debug,release)"

fuzz: setup
	@tests/fuzz/run.sh $(or $(SECONDS_EACH),60)

audit:
	@command -v cargo-deny >/dev/null || cargo install cargo-deny --locked
	@cargo deny check licenses bans sources
	@if cargo deny fetch db; then cargo deny check advisories; else echo "advisories: the database cannot be reached"; fi
