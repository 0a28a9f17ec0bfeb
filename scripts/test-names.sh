#!/usr/bin/env bash
# Compares the names of all tests before and after a change, also where programs of tests became modules of one:
# `a::b` of tests/keys.rs is the same test as `keys::a::b` of tests/suite/main.rs. Each file is made, in its tree, by
#   cargo test --workspace -- --list >FILE 2>&1
#   scripts/test-names.sh BEFORE AFTER
# Prints which names are gone, each with new ones that end alike, and which are new. Exits with 1 if one is gone.
set -euo pipefail
export LC_ALL=C
[ $# -eq 2 ] || { sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 64; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# One line for each test: that of a library or program begins with its name, that of a test program of one file with the
# name of the file, which is a module where programs were merged.
names() {
  awk '
    $1 == "Running" {
      program = $NF; sub(/.*\//, "", program); sub(/-[0-9a-f]+\)$/, "", program)
      source = $2 == "unittests" ? "" : $2
      if (source == "") prefix = "(in " program ") "
      else if (source ~ /\/main\.rs$/) prefix = ""
      else { sub(/.*\//, "", source); sub(/\.rs$/, "", source); prefix = source "::" }
      next
    }
    $1 == "Doc-tests" { prefix = "(documentation of " $2 ") "; next }
    /: test$/ { sub(/: test$/, ""); print prefix $0 }
  ' "$1" | sort >"$2"
  [ -s "$2" ] && return
  echo "test-names.sh: $1 names no test; make it by: cargo test --workspace -- --list >FILE 2>&1" >&2
  exit 2
}
names "$1" "$folder/before"
names "$2" "$folder/after"
# Names may stand twice, for two crates: comm counts them.
comm -23 "$folder/before" "$folder/after" >"$folder/gone"
comm -13 "$folder/before" "$folder/after" >"$folder/new"
while IFS= read -r name; do
  last=${name##*::}
  alike=$(awk -v last="${last##* }" '
    { name = $0; sub(/.* /, "", name); sub(/.*::/, "", name); if (name == last) print }' "$folder/new")
  echo "gone: $name${alike:+ (new: ${alike//$'\n'/, })}"
done <"$folder/gone"
sed 's/^/new: /' "$folder/new"
count() { wc -l <"$folder/$1"; }
echo "$(count before) tests before, $(count after) after: $(count gone) names gone, $(count new) new"
[ ! -s "$folder/gone" ]
