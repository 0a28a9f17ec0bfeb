#!/usr/bin/env bash
# Makes the image localhost/debian:SUITE (bookworm unless named) from Debian's packages, where no registry of images can be
# reached. Needs root and debootstrap; takes a minute and 110 MB, once. Exits with 3 where it cannot.
#   scripts/base-image.sh [SUITE]
set -euo pipefail
cd "$(dirname "$0")/.."
suite=${1:-bookworm}
image=localhost/debian:$suite
cache=${ALTHING_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/althing}/containers
engine=
containers=$(scripts/containers.sh)
eval "$containers"
"$engine" image inspect "$image" >/dev/null 2>&1 && exit 0
layer=$cache/debian-$suite.tar
if [ ! -f "$layer" ]; then
  [ "$(id -u)" -eq 0 ] || { echo "base-image.sh: debootstrap needs root" >&2; exit 3; }
  command -v debootstrap >/dev/null || { echo "base-image.sh: please install debootstrap" >&2; exit 3; }
  mkdir -p "$cache"
  work=$(mktemp -d "$cache/debian.XXXXXX")
  # shellcheck disable=SC2064 # the folder as it is named now
  trap "rm -rf '$work'" EXIT
  echo "making $image from Debian's packages" >&2
  debootstrap --variant=minbase "$suite" "$work/root" >"$work/log" 2>&1 || { tail -n 3 "$work/log" >&2; exit 3; }
  # Devices come from the engine; indexes of packages, and what was unpacked, are of no use.
  rm -rf "$work/root/dev" "$work/root/var/cache/apt" "$work/root/var/lib/apt/lists" "$work/root/usr/share/doc"
  mkdir -p "$work/root/dev" "$work/root/var/cache/apt/archives/partial" "$work/root/var/lib/apt/lists/partial"
  tar -C "$work/root" -c . -f "$work/layer.tar"
  mv "$work/layer.tar" "$layer"
fi
"$engine" import - "$image" <"$layer" >/dev/null
