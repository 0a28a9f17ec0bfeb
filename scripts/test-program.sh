#!/usr/bin/env bash
# Builds what tests run and prints where a test program lies, and the folder of its package, each on a line.
#   scripts/test-program.sh PACKAGE SUITE      SUITE is the name of the program, or `lib` for the tests within the library
# With the environment that the Makefile gives cargo. Exits with 3 if there is none.
set -euo pipefail
cd "$(dirname "$0")/.."
# The whole workspace, as `make test` does: of one package alone, libraries would have other features.
cargo build --workspace >&2
built=$(cargo test --workspace --no-run --message-format=json | python3 -c '
import json, sys
package, suite = sys.argv[1:]
for line in sys.stdin:
    told = json.loads(line) if line.startswith("{") else {}
    if not told.get("executable") or not told["profile"]["test"]:
        continue
    crate = told["package_id"].rsplit("#", 1)[-1].split("@")[0]
    folder = told["manifest_path"].rsplit("/", 1)[0]
    is_lib = "lib" in told["target"]["kind"]
    if package in (crate, folder.rsplit("/", 1)[-1]) and suite == ("lib" if is_lib else told["target"]["name"]):
        print(told["executable"], folder, sep="\n")
' "$1" "$2")
[ "$(grep -c . <<<"$built")" -eq 2 ] || { echo "test-program.sh: $1 has no test program $2" >&2; exit 3; }
echo "$built"
