#!/usr/bin/env bash
# Builds the programs of the node as of an earlier commit, in release, and prints where the node's is:
#   scripts/before.sh COMMIT
# They lie below $CARGO_TARGET_DIR/before, one folder for each commit; what is there is not built again. `make before REV=…` calls it.
set -euo pipefail
cd "$(dirname "$0")/.."
: "${CARGO_TARGET_DIR:?make before sets it}"
commit=$(git rev-parse --verify --short=12 "${1:?the commit}^{commit}")
place=$CARGO_TARGET_DIR/before/$commit
program=$place/target/release/althing
if [ ! -x "$program" ]; then
  rm -rf "$place/source"
  mkdir -p "$place"
  git clone -q . "$place/source"
  git -C "$place/source" checkout -q "$commit"
  # As that commit links RocksDB; by rustc, as what is for use.
  rocksdb=$("$place/source/scripts/rocksdb.sh")
  eval "$rocksdb"
  (cd "$place/source" && RUSTC_WORKSPACE_WRAPPER='' CARGO_TARGET_DIR=$place/target cargo build --release --locked --workspace \
    --features jemalloc --bin althing --bin althing-keeper) >&2
  rm -rf "$place/source"
fi
echo "$program"
