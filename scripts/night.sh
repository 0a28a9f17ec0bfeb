#!/usr/bin/env bash
# What is too long for each change, one line for each part:
#   scripts/night.sh [PART…]      without a part: all of them but first_build
# A part that passed for this commit, as long as it is now, is not run again: what was interrupted goes on. NIGHT (5000 seeds of
# groups, of sessions and of rollouts), SOAK (1440 seconds) and SECONDS_EACH (60, of each fuzzer) say how long. Outputs lie in $CARGO_TARGET_DIR/night.
# Exits with 1 where a part failed, with 2 where there is no such part. `make night` calls it with the environment that cargo needs.
set -uo pipefail
cd "$(dirname "$0")/.."
: "${CARGO_TARGET_DIR:?make night sets it}"
commit=$(git rev-parse --short=12 HEAD)
place=$CARGO_TARGET_DIR/night/$commit
# What passed for one state of a changed tree says nothing of the next one.
if [ -n "$(git status --porcelain)" ]; then
  place=$place-changed
  rm -rf "$place"
fi
mkdir -p "$place"
seeds=${NIGHT:-5000} soak=${SOAK:-1440} each=${SECONDS_EACH:-60}
long=$seeds-$soak-$each

# All seeds of each scenario and of the tests of groups, and each seed that is run twice, with the assertions of a debug build.
scenarios() {
  local built program folder
  built=$(scripts/test-programs.sh althing-simulations suite) || return
  IFS=$'\t' read -r _ _ program folder <<<"$built"
  (cd "$folder" && CARGO_MANIFEST_DIR=$folder ALTHING_NIGHT=1 "$program")
}
# Ten thousand rollouts and comparisons of equal versions: how often chance alone makes a verdict.
statistics() {
  local built program folder
  built=$(scripts/test-programs.sh althing-verification lib) || return
  IFS=$'\t' read -r _ _ program folder <<<"$built"
  (cd "$folder" && CARGO_MANIFEST_DIR=$folder ALTHING_NIGHT=1 "$program" evidence:: rollout::)
}
# All requests of Cedar's corpus, of which a change tries a part, and a member that loses its log again and again.
corpus() {
  local built program folder
  built=$(scripts/test-programs.sh althing-policy lib) || return
  IFS=$'\t' read -r _ _ program folder <<<"$built"
  (cd "$folder" && CARGO_MANIFEST_DIR=$folder CI=true ALTHING_NIGHT=1 "$program" corpus_tests::) || return
  built=$(scripts/test-programs.sh althing-conformance suite) || return
  IFS=$'\t' read -r _ _ program folder <<<"$built"
  (cd "$folder" && CARGO_MANIFEST_DIR=$folder ALTHING_NIGHT=1 "$program" broken_cores::)
}
# Groups under faults as users have them: without those assertions a release build goes on where a debug build stops.
groups() {
  RUSTC_WORKSPACE_WRAPPER='' cargo build --release --workspace --features jemalloc --bin althing-sim &&
    "$CARGO_TARGET_DIR/release/althing-sim" groups --seeds "$seeds" --progress "$place/groups.json"
}
# Sessions whose node ends again and again, as users have them.
sessions() {
  RUSTC_WORKSPACE_WRAPPER='' cargo build --release --workspace --features jemalloc --bin althing-sim &&
    "$CARGO_TARGET_DIR/release/althing-sim" sessions --seeds "$seeds"
}
# Rollouts on nodes that end again and again.
rollouts() {
  RUSTC_WORKSPACE_WRAPPER='' cargo build --release --workspace --features jemalloc --bin althing-sim &&
    "$CARGO_TARGET_DIR/release/althing-sim" rollouts --seeds "$seeds"
}
soak() { cargo build --workspace && ALTHING_SOAK_SECS=$soak cargo test --workspace --test alone -- --nocapture soak::; }
fuzz() { tests/fuzz/run.sh "$each"; }
# What other people's programs do with nodes, as long as it takes: work and silence of minutes, all generated endings, all of
# AgentDojo, ten thousand decisions beside Cedar for Python, and thousands of malformed answers of agents of each runtime.
interop() {
  local built program folder
  built=$(scripts/test-programs.sh althing-e2e suite) || return
  IFS=$'\t' read -r _ _ program folder <<<"$built"
  (cd "$folder" && CARGO_MANIFEST_DIR=$folder CI=true ALTHING_NIGHT=1 "$program" mcp_everything:: proxied_tls:: generated_endings:: \
    agentdojo:: governance_strangers:: answers_by_runtime:: promptfoo::)
}
# A hundred thousand malformed answers at the gates of contracts.
answers() {
  local built program folder
  built=$(scripts/test-programs.sh althing-verification gates) || return
  IFS=$'\t' read -r _ _ program folder <<<"$built"
  (cd "$folder" && CARGO_MANIFEST_DIR=$folder ALTHING_NIGHT=1 "$program" malformed::)
}
# Nodes that end at each sync of a component's and of a program's turn, of a handoff, and of a group's task, with each effect that a
# tool may have, and of a question and its answer.
kills() {
  local built program folder
  built=$(scripts/test-programs.sh althing-e2e suite) || return
  IFS=$'\t' read -r _ _ program folder <<<"$built"
  (cd "$folder" && CARGO_MANIFEST_DIR=$folder CI=true ALTHING_NIGHT=1 "$program" --test-threads=1 sessions_at_night:: \
    consents_at_syncs::)
}
# The suites of whole nodes, beside two threads that keep the processors busy.
load() {
  scripts/flaky.sh 1 althing-conformance suite && scripts/flaky.sh 1 althing-registry suite &&
    scripts/flaky.sh 1 althing-e2e suite && scripts/flaky.sh 1 althing-e2e network
}
# A first build as a stranger has it: a clone, an empty target folder. Only by name, before a release: CI builds from nothing.
first_build() {
  rm -rf "$place"/{clone,target,cache}
  git clone -q . "$place/clone" && ALTHING_CACHE=$place/cache CARGO_TARGET_DIR=$place/target \
    RUSTC_WORKSPACE_WRAPPER=$("$place/clone/scripts/compiler.sh") make -C "$place/clone" demo && rm -rf "$place"/{clone,target,cache}
}

all=(scenarios statistics corpus groups sessions rollouts soak fuzz interop answers kills load)
known="${all[*]} first_build"
[ $# -gt 0 ] && all=("$@")
failed=0
for part in "${all[@]}"; do
  declare -F "$part" >/dev/null || { echo "night.sh: there is no part $part; there are: $known" >&2; exit 2; }
done
for part in "${all[@]}"; do
  if [ -f "$place/$part-$long.passed" ]; then
    printf '%-16s passed before: %s\n' "$part" "$(cat "$place/$part-$long.passed")"
    continue
  fi
  begun=$SECONDS
  if "$part" >"$place/$part.log" 2>&1; then
    took="$((SECONDS - begun)) s"
    echo "$took" >"$place/$part-$long.passed"
    printf '%-16s passed in %s\n' "$part" "$took"
  else
    failed=1
    printf '%-16s FAILED after %s s: %s\n' "$part" "$((SECONDS - begun))" "$place/$part.log"
    tail -5 "$place/$part.log" | sed 's/^/    /'
  fi
done
exit "$failed"
