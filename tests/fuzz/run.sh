#!/usr/bin/env bash
# Fuzzes each target for SECONDS, on stable Rust; fails on the first crash and names the input.
#   tests/fuzz/run.sh 60            all targets
#   tests/fuzz/run.sh 60 frame      one target
# Starts from the vectors of the protocol. What it finds on the way stays in the target directory, so that the next
# run goes on from there; the inputs of crashes go to artifacts/ beside it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
vectors=$here/../../protocol/vectors
seconds=${1:?usage: run.sh SECONDS [TARGET...]}
shift
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(cbor frame object evidence record contract group registry replication query handoff session orders audit cases rollout)
triple=x86_64-unknown-linux-gnu
dir=${CARGO_TARGET_DIR:-$here/../../target}/fuzz

# Groups are kept in RocksDB. Its library is found before the flags below, so that it is the one that other builds link.
rocksdb=$("$here/../../scripts/rocksdb.sh")
eval "$rocksdb"
# What compiles our own crates for tests optimises less.
export RUSTC_WORKSPACE_WRAPPER=

# Coverage as libFuzzer wants it. An explicit --target keeps these flags away from build scripts.
export RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares"
CARGO_TARGET_DIR=$dir cargo build --release --locked --target "$triple" --manifest-path "$here/Cargo.toml"

# seeds TARGET FILE MEMBER: writes the bytes in MEMBER of each vector in FILE as an input of TARGET.
seeds() {
  local count=0 hex
  while read -r hex; do
    count=$((count + 1))
    printf '%b' "$(sed 's/../\\x&/g' <<<"$hex")" >"$dir/corpus/$1/$2-$3-$count"
  done < <(sed -n "s/^ *\"$3\": \"\([0-9a-f]\{2,\}\)\",\{0,1\}$/\1/p" "$vectors/$2.json")
  [ "$count" -gt 0 ] || { echo "run.sh: $2.json has no member $3" >&2; exit 1; }
}
# texts TARGET FILE MEMBER: the same for members that are texts, with the escapes of JSON undone.
texts() {
  local count=0 text
  while read -r text; do
    count=$((count + 1))
    printf '%b' "$text" >"$dir/corpus/$1/$2-$3-$count"
  done < <(sed -n "s/^ *\"$3\": \"\(.*\)\",\{0,1\}\$/\1/p" "$vectors/$2.json")
  [ "$count" -gt 0 ] || { echo "run.sh: $2.json has no member $3" >&2; exit 1; }
}
mkdir -p "$dir"/corpus/{cbor,frame,object,evidence,record,contract,group,registry,replication,query,handoff,session,orders,audit,cases,rollout} "$dir/artifacts"
seeds cbor cbor bytes
seeds cbor hello bytes
seeds frame frames frame
seeds frame hello bytes
seeds object objects object
seeds evidence evidence evidence
seeds record records value
seeds group groups object
seeds group groups under
seeds object registry object
seeds registry registry bytes
seeds replication replication bytes
seeds orders objects object
seeds audit audit bytes
cp "$here/../../protocol/src/audit/exported_leaf.txt" "$dir/corpus/audit/exported"
texts registry registry note
texts registry registry proof
texts registry registry key
for file in "$here"/../../examples/*/*.yaml; do
  # JSON is what contracts are read as; any text serves as a beginning.
  cp "$file" "$dir/corpus/contract/$(basename "$(dirname "$file")")-$(basename "$file")"
done

# A handoff as people write it, and one that is regulated.
agent=urn:althing:zQmY8AwLhikXv1eG4pSSeFts6oZGeDvasQgedDH3gvhJ2Pz
draft="\"handoff_id\": \"01a2b3c4-d5e6-7000-8000-000000000001\", \"task_id\": \"task-1\", \"sender\": {\"agent\": \"$agent:clerk\"},
  \"recipient\": \"$agent:auditor\", \"issued_at_ms\": 1700000000000, \"not_after_ms\": 1700003600000,
  \"context\": {\"task_description\": \"Count the stock.\"}, \"quality_checklist\": [\"Each shelf is counted.\"]"
printf '{%s}' "$draft" >"$dir/corpus/handoff/draft"
printf '{%s, "regulation": {"classification": "restricted", "region": "eu", "regulation_refs": ["R-1"], "audit": [], "sign_offs": []}}' \
  "$draft" >"$dir/corpus/handoff/regulated"

# The rows of a turn: its beginning, a call with its result, what clocks said, and the result of a call that may be repeated.
rows="a400000158200000000000000000000000000000000000000000000000000000000000000000021b0000018bcfe5680003820081aa00647461736b01\
676d65737361676502784175726e3a616c7468696e673a7a516d593841774c68696b58763165473470535365467473366f5a47654476617351676564\
4448336776684a32507a3a636c65726b0365312e302e30046005000681656c6f63616c07800f1b0000018bcfe5680010582007070707070707070707\
07070707070707070707070707070707070707070707a400010158200000000000000000000000000000000000000000000000000000000000000000\
021b0000018bcfe5680003820181a60000010002696d61696c2f73656e64035820090909090909090909090909090909090909090909090909090909\
090909090904030558200808080808080808080808080808080808080808080808080808080808080808a40002015820000000000000000000000000\
0000000000000000000000000000000000000000021b0000018bcfe5680003820281a90000010002696d61696c2f73656e6403582009090909090909\
090909090909090909090909090909090909090909090909090403050006f507497b2273756d223a377d0800a4000301582000000000000000000000\
00000000000000000000000000000000000000000000021b0000018bcfe5680003820581a1005000000000000000000000000000000000a400040158\
200000000000000000000000000000000000000000000000000000000000000000021b0000018bcfe5680003820281a90001010002696d61696c2f73\
656e6403582009090909090909090909090909090909090909090909090909090909090909090401050006f507497b2273756d223a377d0800"
printf '%b' "$(sed 's/../\\x&/g' <<<"$rows")" >"$dir/corpus/session/turn"
# Two notes of a session.
notes="a400000158200000000000000000000000000000000000000000000000000000000000000000021b0000018bcfe5680003820681a20002016c7061\
696e7420697420726564a400010158200000000000000000000000000000000000000000000000000000000000000000021b0000018bcfe5680003\
820681a20000016a7061696e746564206974"
printf '%b' "$(sed 's/../\\x&/g' <<<"$notes")" >"$dir/corpus/session/notes"
# Cases as people write them.
printf '%s\n' '{"id": 7, "input": "hi", "target": ["a", 4]}' \
  '{"input": [{"role": "user", "content": "a"}], "metadata": {"althing": {"agent": "clerk", "tools": {"in_order": ["a/x"], "never": ["a/y"]}}}}' \
  '{"input": "a", "metadata": {"althing": {"schema": {"items": {"anyOf": [{"type": "number"}, {"$ref": "#"}]}}, "label": {"level": "public", "trusted": true}}}}' \
  >"$dir/corpus/cases/some"
# The row of an agent with one version: a map of its digest, and nothing decided.
printf '\245\000\130\040%032d\001\000\002\000\004\200\005\200' 0 >"$dir/corpus/rollout/stable"

# What queries are made of.
at=0
for query in '$[?@.a[?@.b[?@.c]]]' "\$..a[?search(@.b,'x')&&@.c>2]" "\$['a','b'][0:5:2]" '$[?((length(@.a)))]' '$[?count(@.a[?@.b])>1||!@.c]' "\$['\\\\\\u"; do
  at=$((at + 1))
  printf '%s' "$query" >"$dir/corpus/query/$at"
done

for target in "${targets[@]}"; do
  echo "== $target: ${seconds} s"
  log=$dir/$target.log
  if ! "$dir/$triple/release/$target" "$dir/corpus/$target" -max_total_time="$seconds" -max_len=65536 -timeout=5 \
    -rss_limit_mb=1024 -malloc_limit_mb=64 -print_final_stats=1 -artifact_prefix="$dir/artifacts/$target-" >"$log" 2>&1; then
    tail -40 "$log" >&2
    echo "run.sh: $target failed; its input lies in $dir/artifacts" >&2
    exit 1
  fi
  grep -E '^stat::(number_of_executed_units|average_exec_per_sec|peak_rss_mb)|^Done' "$log"
done
