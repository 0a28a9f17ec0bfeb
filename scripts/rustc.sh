#!/usr/bin/env bash
# Compiles a crate of the workspace: cargo calls it with rustc and its arguments.
# Clippy is rustc that warns of more, so where it is at hand nothing is compiled for its sake.
# A test program is not optimised, also where what it tests is: the profile knows packages, not programs, and the test programs
# of the packages that are optimised took 500 of 1,140 s to compile, and save less than that when they run.
set -euo pipefail
options=()
for argument; do
  [ "$argument" = --test ] && options=(-C opt-level=0)
done
# The name alone says nothing: rustup puts it on the path without the component too.
if clippy-driver --version >/dev/null 2>&1; then
  exec clippy-driver "$@" ${options[@]+"${options[@]}"}
fi
exec "$@" ${options[@]+"${options[@]}"}
