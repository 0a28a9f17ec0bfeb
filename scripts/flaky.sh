#!/usr/bin/env bash
# Repeats a suite, or one test of it, beside two busy threads, and shows what the runs printed that failed.
#   scripts/flaky.sh RUNS PACKAGE SUITE [TEST]
#   scripts/flaky.sh 3 althing-conformance suite
#   scripts/flaky.sh 50 althing-e2e suite adopt::what_is_neither_is_refused_with_what_was_tried
# SUITE is the name of the test program, or `lib` for the tests within the library. EACH (900) and ALL (7200) bound one
# run and all of them, in seconds. CI=true, so nothing may be skipped: a run that skips proves nothing. Property tests draw
# from PROPTEST_RNG_SEED, which is the number of the run unless it is set: with it a run is repeated.
# Exits with 1 if a run failed, with 2 if the time was over before the last run began, with 3 if no test ran.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -ge 3 ] || { sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 64; }
runs=$1 package=$2 suite=$3 only=${4:-}
each=${EACH:-900} all=${ALL:-7200}
export CI=${CI:-true} CARGO_TERM_COLOR=never
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-${ALTHING_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/althing}/target}
# The compiler and the threads of `make test`: nothing is compiled again, and as much overlaps.
export RUSTC_WORKSPACE_WRAPPER=${RUSTC_WORKSPACE_WRAPPER-$(scripts/compiler.sh)}
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-$((2 * $(nproc)))}
rocksdb=$(scripts/rocksdb.sh)
eval "$rocksdb"

built=$(scripts/test-programs.sh "$package" "$suite")
IFS=$'\t' read -r _ _ program folder <<<"$built"

logs=$(mktemp -d)
busy=()
ended() {
  if [ ${#busy[@]} -gt 0 ]; then
    kill "${busy[@]}" 2>/dev/null || true
    wait "${busy[@]}" 2>/dev/null || true
  fi
  rm -rf "$logs"
}
trap ended EXIT
for _ in 1 2; do
  (while :; do :; done) &
  busy+=($!)
done

asked=()
[ -z "$only" ] || asked=(--exact "$only")
failed=() ran=0
# What was built does not count.
SECONDS=0
for ((run = 1; run <= runs; run++)); do
  [ "$SECONDS" -lt "$all" ] || break
  begun=$SECONDS code=0
  (cd "$folder" && PROPTEST_RNG_SEED=${PROPTEST_RNG_SEED:-$run} CARGO_MANIFEST_DIR=$folder \
    timeout -k 10 "$each" "$program" ${asked[@]+"${asked[@]}"}) >"$logs/$run" 2>&1 || code=$?
  if [ $code -eq 0 ] && ! grep -q '^test result: ok\. [1-9]' "$logs/$run"; then
    echo "flaky.sh: no test ran: $package has no ${only:-test} in $suite" >&2
    exit 3
  fi
  ran=$run
  if [ $code -eq 0 ]; then
    echo "run $run of $runs: passed in $((SECONDS - begun)) s"
  else
    failed+=("$run")
    echo "run $run of $runs: FAILED in $((SECONDS - begun)) s (exit code $code, 124 when it took more than $each s)"
  fi
done
for run in ${failed[@]+"${failed[@]}"}; do
  echo "---- run $run, PROPTEST_RNG_SEED=${PROPTEST_RNG_SEED:-$run}"
  grep -v ' \.\.\. ok$' "$logs/$run" || true
done
echo "$package $suite ${only:-all tests}: ${#failed[@]} of $ran runs failed beside two busy threads, in $SECONDS s"
[ ${#failed[@]} -eq 0 ] || exit 1
[ "$ran" -eq "$runs" ] || { echo "flaky.sh: the time was over (ALL=$all) after $ran of $runs runs" >&2; exit 2; }
