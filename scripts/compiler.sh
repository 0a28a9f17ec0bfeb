#!/usr/bin/env bash
# Prints what cargo calls to compile our own crates (RUSTC_WORKSPACE_WRAPPER): rustc.sh, copied beside what is built under a name
# that its content gives. Cargo builds all anew where this path is another one, so checkouts that share a build must name the same.
set -euo pipefail
cd "$(dirname "$0")"
cache=${ALTHING_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/althing}
compiler=$cache/rustc-$(cksum <rustc.sh | cut -d' ' -f1).sh
if [ ! -x "$compiler" ]; then
  mkdir -p "$cache"
  cp rustc.sh "$compiler.$$"
  chmod +x "$compiler.$$"
  mv "$compiler.$$" "$compiler"
fi
echo "$compiler"
