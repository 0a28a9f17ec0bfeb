# make demo     the main job on this machine, from nothing
# make test     every test
# make one      one test: CRATE=althing-td TEST=name, and IN=suite for those of its tests/suite alone
# make bench    benchmarks, in release
# make soak     24 minutes of nodes that live long beside others that are disturbed (SOAK=seconds)
# make night    all that is too long for a change: seeds, soak, fuzzing, load, a first build; goes on where it was interrupted
# make install  the programs, in release, into ~/.cargo/bin
# make image    the image localhost/althing, by docker or podman (DEBUG=1: of the debug build; BASE=image to stand on)
# make audit    licences, bans, sources and advisories of dependencies
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
ALTHING_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/althing
# Outside the checkout, so that every checkout and run shares one build.
export CARGO_TARGET_DIR ?= $(ALTHING_CACHE)/target
# Most tests wait more than they work.
export RUST_TEST_THREADS ?= $(shell echo $$((2 * $$(nproc))))
CARGO := rocksdb=$$(scripts/rocksdb.sh); eval "$$rocksdb"; cargo

.PHONY: demo test one soak night bench install image audit lint fmt setup fuzz

setup:
	@scripts/setup.sh

# Only the programs, with the features that the whole workspace gives its libraries: `make test` compiles none of them again.
demo:
	@scripts/setup.sh build
	@$(CARGO) build --workspace --bin althing --bin althing-registry
	@"$(CARGO_TARGET_DIR)/debug/althing" demo $(DEMO)

# The programs first: end-to-end tests run them as processes.
test: setup lint
	@$(CARGO) build --workspace
	@$(CARGO) test --workspace --no-fail-fast $(TEST)

one:
	@$(CARGO) test --package $(or $(CRATE),$(error CRATE=… is the crate)) $(if $(IN),--test $(IN)) -- $(TEST)

soak: setup
	@$(CARGO) build --workspace
	@export ALTHING_SOAK_SECS=$(or $(SOAK),1440); $(CARGO) test --workspace --test alone -- --nocapture soak

# PART=… only that one. A part that passed is not run again for the same commit.
night: setup
	@rocksdb=$$(scripts/rocksdb.sh); eval "$$rocksdb"; scripts/night.sh $(PART)

lint: setup
	@cargo fmt --all --check
	@$(CARGO) clippy --workspace --all-targets -- -D warnings

fmt:
	@cargo fmt --all

bench: setup
	@$(CARGO) build --release --workspace --features jemalloc
	@cargo build --release --locked --manifest-path tests/bench/peer/Cargo.toml
	@"$(CARGO_TARGET_DIR)/release/althing-bench" $(BENCH)
	@$(if $(BENCH),,outcome=0; for class in hrt srt dt; do "$(CARGO_TARGET_DIR)/release/althing" bench $$class || outcome=$$?; done; exit $$outcome)

install: setup
	@$(CARGO) install --path node/althing --locked --features jemalloc
	@$(CARGO) install --path simulations --locked --features jemalloc
	@$(CARGO) install --path registry --locked --features jemalloc

# Of programs that this machine builds: nothing is compiled in the image.
image: setup
	@$(CARGO) build $(if $(DEBUG),,--release --features jemalloc) --workspace --bin althing --bin althing-registry
	@scripts/image.sh "$(CARGO_TARGET_DIR)/$(if $(DEBUG),debug,release)"

fuzz: setup
	@tests/fuzz/run.sh $(or $(SECONDS_EACH),60)

audit:
	@command -v cargo-deny >/dev/null || cargo install cargo-deny --locked
	@cargo deny check licenses bans sources
	@if cargo deny fetch db; then cargo deny check advisories; else echo "advisories: the database cannot be reached"; fi
