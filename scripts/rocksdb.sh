#!/usr/bin/env bash
# Keeps RocksDB's C++ library in the cache directory, so that a machine compiles it once.
# Prints the shell assignments that make cargo link the kept library.
#   rocksdb=$(scripts/rocksdb.sh); eval "$rocksdb"
# The key is the version of librocksdb-sys in Cargo.lock, the features below, the compiler with its flags, and the target:
# any of them changes, and the library is built anew beside the old one.
#
# RocksDB's 340 sources include nearly the same headers. Joined into a few units (which RocksDB's own `make unity` keeps
# possible), and with -O2 as in its own Makefile, they take a third of the processor time of one unit for each.
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)
cache=${ALTHING_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/althing}
features='"lz4", "bindgen-runtime"' # the same list as in the workspace's Cargo.toml
units=6
lock() { awk -v want="name = \"$1\"" '$0 == want {getline; gsub(/version = |"/, ""); print; exit}' "$top/Cargo.lock"; }
sys=$(lock librocksdb-sys)
[ -n "$sys" ] || { echo "rocksdb.sh: Cargo.lock names no librocksdb-sys; run cargo generate-lockfile" >&2; exit 1; }
compiler=$("${CXX:-c++}" --version | head -n 1)
flags="release O2 joined-$units $features $compiler ${CXXFLAGS:-} ${RUSTFLAGS:-} $(uname -m)"
key="$sys-$(printf '%s' "$flags" | cksum | tr -d ' ')"
dir="$cache/rocksdb/$key"

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

# Builds the library into $dir, in a folder of its own that goes away whatever happens.
build() {
  local build manifest lib
  echo "compiling RocksDB $sys once for this machine (about 5 minutes on 2 cores), into $dir" >&2
  build=$(mktemp -d "$cache/rocksdb/build.XXXXXX")
  # shellcheck disable=SC2064 # the folder as it is named now
  trap "rm -rf '$build'" EXIT
  (cd "$top" && cargo fetch --locked --quiet)
  manifest=$(cd "$top" && cargo metadata --locked --format-version 1 | grep -o '"[^"]*/librocksdb-sys-[^"/]*/Cargo.toml"' |
    head -n 1 | tr -d '"')
  [ -n "$manifest" ] || { echo "rocksdb.sh: cargo metadata names no librocksdb-sys" >&2; exit 1; }
  cp -r "$(dirname "$manifest")" "$build/sys"
  join_sources "$build/sys" "$units"
  mkdir -p "$build/src" "$dir"
  cat >"$build/Cargo.toml" <<TOML
[package]
name = "keep-rocksdb"
version = "0.0.0"
edition = "2024"
[dependencies]
librocksdb-sys = { path = "sys", default-features = false, features = [$features] }
[profile.release]
opt-level = 2
[workspace]
TOML
  : >"$build/src/lib.rs"
  # The versions that the workspace has: nothing else is fetched.
  cp "$top/Cargo.lock" "$build/"
  env -u ROCKSDB_STATIC -u ROCKSDB_LIB_DIR -u CARGO_TARGET_DIR \
    cargo build --release --manifest-path "$build/Cargo.toml" --target-dir "$build/target" >&2
  lib=$(find "$build/target/release/build" -name librocksdb.a | head -n 1)
  [ -n "$lib" ] || { echo "rocksdb.sh: the build left no librocksdb.a" >&2; exit 1; }
  cp "$lib" "$dir/librocksdb.a.$$" && mv "$dir/librocksdb.a.$$" "$dir/librocksdb.a"
}

mkdir -p "$cache/rocksdb"
if [ ! -f "$dir/librocksdb.a" ]; then
  # Checkouts share the cache: the second of two that begin at the same time waits for the first.
  if command -v flock >/dev/null; then
    exec 9>"$cache/rocksdb/lock"
    flock 9
  fi
  [ -f "$dir/librocksdb.a" ] || (build)
fi
printf 'export ROCKSDB_STATIC=1 ROCKSDB_LIB_DIR=%q\n' "$dir"
