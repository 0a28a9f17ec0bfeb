#!/usr/bin/env bash
# Builds what tests run, and prints the test programs: each on a line as PACKAGE SUITE PROGRAM FOLDER, with tabs between.
#   scripts/test-programs.sh                   all of them, in the order in which cargo runs them
#   scripts/test-programs.sh PACKAGE SUITE     the one that is meant; exits with 3 if there is none
# SUITE is the name of the program, or `lib` for the tests within the library; FOLDER is that of the package, in which a
# program is run. With the environment that the Makefile gives cargo.
set -euo pipefail
cd "$(dirname "$0")/.."
# The whole workspace, as `make test` does: of one package alone, libraries would have other features.
cargo build --workspace >&2
listed=$(cargo test --workspace --no-run --message-format=json | python3 -c '
import json, sys
found = []
for line in sys.stdin:
    told = json.loads(line) if line.startswith("{") else {}
    if not told.get("executable") or not told["profile"]["test"]:
        continue
    crate = told["package_id"].rsplit("#", 1)[-1].split("@")[0]
    folder = told["manifest_path"].rsplit("/", 1)[0]
    # A package whose folder has its name is told by that folder alone.
    package = crate if crate[0].isalpha() else folder.rsplit("/", 1)[-1]
    kinds = told["target"]["kind"]
    rank = 0 if "lib" in kinds else 1 if "bin" in kinds else 2
    suite = "lib" if rank == 0 else told["target"]["name"]
    found.append((package, rank, suite, told["executable"], folder))
for package, _, suite, program, folder in sorted(found):
    print(package, suite, program, folder, sep="\t")
')
[ $# -gt 0 ] || { echo "$listed"; exit 0; }
awk -F'\t' -v package="$1" -v suite="$2" '$1 == package && $2 == suite { print; found = 1 } END { exit !found }' <<<"$listed" ||
  { echo "test-programs.sh: $1 has no test program $2" >&2; exit 3; }
