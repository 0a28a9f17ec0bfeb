#!/usr/bin/env bash
# Runs every test program, as `make test` does: first the one that needs the machine to itself, then the others, one after the
# other. Simulations only compute, in virtual time: they run beside the others, whenever these leave a processor idle, and are
# shown at the end. Exits with 1 if a program failed, and names each. With the environment that the Makefile gives cargo.
set -euo pipefail
cd "$(dirname "$0")/.."
: "${CARGO_TARGET_DIR:?make test sets it}"
listed=$(scripts/test-programs.sh)
shown=$(mktemp)
failed=() beside=
ended() {
  [ -z "$beside" ] || kill -- "-$beside" 2>/dev/null || true
  rm -f "$shown"
}
trap ended EXIT

# run LINE [COMMAND…]: the program of a line, by that command
run() {
  local package suite program folder
  IFS=$'\t' read -r package suite program folder <<<"$1"
  shift
  printf '     Running %s %s\n' "$package" "$suite"
  cd "$folder" && CARGO_MANIFEST_DIR=$folder "$@" "$program"
}
# those AWK: the lines of which that is so, one after the other
those() {
  local line
  while read -r line <&3; do
    (run "$line") || failed+=("$line")
  done 3< <(awk -F'\t' "$1" <<<"$listed")
}
simulates='$1 == "althing-simulations" && $2 == "suite"'

those '$2 == "alone"'
line=$(awk -F'\t' "$simulates" <<<"$listed")
# A process group of its own, which ends with this script.
set -m
run "$line" nice -n 19 >"$shown" 2>&1 &
beside=$!
set +m
those "\$2 != \"alone\" && !($simulates)"
# Examples in the documentation of crates are no programs of their own.
cargo test --workspace --doc --no-fail-fast || failed+=($'examples\tin the documentation of crates')
wait "$beside" || failed+=("$line")
beside=
cat "$shown"

if [ ${#failed[@]} -gt 0 ]; then
  printf '%s\n' "${failed[@]}" | awk -F'\t' '{ print "tests.sh: failed:", $1, $2 }' >&2
  exit 1
fi
