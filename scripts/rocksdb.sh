#!/usr/bin/env bash
# Keeps RocksDB's C++ library in the cache directory, so that a machine compiles it once.
# Prints the shell assignments that make cargo link the kept library.
#   eval "$(scripts/rocksdb.sh)"
# The key is the version of librocksdb-sys in Cargo.lock, the features below, the compiler and the target:
# any of them changes, and the library is built anew beside the old one.
#
# RocksDB's 340 sources include nearly the same headers. Joined into a few units (which RocksDB's own `make unity` keeps
# possible), and with -O2 as in its own Makefile, they take a third of the processor time of one unit for each.
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)
cache=${ALTHING_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/althing}
features='"lz4", "bindgen-runtime"' # the same list as in the workspace's Cargo.toml
lock() { awk -v want="name = \"$1\"" '$0 == want {getline; gsub(/version = |"/, ""); print; exit}' "$top/Cargo.lock"; }
sys=$(lock librocksdb-sys)
front=$(lock rocksdb)
[ -n "$sys" ] && [ -n "$front" ] || { echo "rocksdb.sh: Cargo.lock names no librocksdb-sys; run cargo generate-lockfile" >&2; exit 1; }
units=16

# Joins the sources that the crate in folder $1 compiles into $2 units, neighbours together. One file is the crate's own.
join_sources() (
  cd "$1"
  mkdir -p rocksdb/joined
  grep -v '^util/build_version.cc$' rocksdb_lib_sources.txt | grep . | sort >all.txt
  split -l $((($(wc -l <all.txt) + $2 - 1) / $2)) -d all.txt unit.
  echo util/build_version.cc >rocksdb_lib_sources.txt
  for unit in unit.*; do
    sed 's/.*/#include "&"/' "$unit" >"rocksdb/joined/$unit.cc"
    echo "joined/$unit.cc" >>rocksdb_lib_sources.txt
  done
)
flags="release O2 joined-$units $features $(${CXX:-c++} -dumpfullversion) $(uname -m)"
key="$sys-$(printf '%s' "$flags" | sha256sum | cut -c1-12)"
dir="$cache/rocksdb/$key"
if [ ! -f "$dir/librocksdb.a" ]; then
  echo "compiling RocksDB $sys once for this machine (about 5 minutes on 2 cores), into $dir" >&2
  build="$cache/rocksdb/build-$key"
  rm -rf "$build"
  mkdir -p "$build/src" "$dir"
  (cd "$top" && cargo fetch --locked --quiet)
  manifest=$(cd "$top" && cargo metadata --locked --format-version 1 --filter-platform "$(rustc -vV | sed -n 's/^host: //p')" |
    grep -o '"[^"]*/librocksdb-sys-[^"/]*/Cargo.toml"' | head -n 1 | tr -d '"')
  [ -n "$manifest" ] || { echo "rocksdb.sh: cargo metadata names no librocksdb-sys" >&2; exit 1; }
  cp -r "$(dirname "$manifest")" "$build/sys"
  join_sources "$build/sys" "$units"
  cat >"$build/Cargo.toml" <<TOML
[package]
name = "keep-rocksdb"
version = "0.0.0"
edition = "2024"
[dependencies]
rocksdb = { version = "=$front", default-features = false, features = [$features] }
librocksdb-sys = { version = "=$sys", default-features = false }
[patch.crates-io]
librocksdb-sys = { path = "sys" }
[profile.release]
opt-level = 2
[workspace]
TOML
  echo 'pub use rocksdb as _;' >"$build/src/lib.rs"
  env -u ROCKSDB_STATIC -u ROCKSDB_LIB_DIR cargo build --release --manifest-path "$build/Cargo.toml" --target-dir "$build/target" >&2
  lib=$(find "$build/target/release/build" -name librocksdb.a | head -n 1)
  [ -n "$lib" ] || { echo "rocksdb.sh: the build left no librocksdb.a" >&2; exit 1; }
  cp "$lib" "$dir/librocksdb.a.part" && mv "$dir/librocksdb.a.part" "$dir/librocksdb.a"
  rm -rf "$build"
fi
echo "export ROCKSDB_STATIC=1 ROCKSDB_LIB_DIR='$dir'"
