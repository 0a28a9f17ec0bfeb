#!/usr/bin/env bash
# Builds the image of a node and a registry from programs that lie in a folder.
#   scripts/image.sh FOLDER [IMAGE]     IMAGE is localhost/althing unless named
# BASE names the image to stand on: by default that of this machine's distribution, since the programs need its glibc. Where
# it cannot be had and this is Debian, it is made from packages (scripts/base-image.sh).
# Exits with 3 where no containers run or no base can be had.
set -euo pipefail
cd "$(dirname "$0")/.."
programs=$1
image=${2:-localhost/althing}
engine=
containers=$(scripts/containers.sh)
eval "$containers"
for program in althing althing-keeper althing-registry; do
  [ -x "$programs/$program" ] || { echo "image.sh: there is no $programs/$program: make image builds it" >&2; exit 1; }
done

of() { # a value of this machine's distribution
  # shellcheck disable=SC1091 # every distribution has the file
  (. /etc/os-release && eval "printf %s \"\${$1:-}\"")
}
has() { "$engine" image inspect "$1" >/dev/null 2>&1; }
can_have() { has "$1" || timeout 300 "$engine" pull -q "$1" >/dev/null 2>&1; }
if [ -z "${BASE:-}" ]; then
  case $(of ID) in
  debian)
    suite=$(of VERSION_CODENAME)
    BASE=docker.io/library/debian:$suite-slim
    if has "localhost/debian:$suite" || ! can_have "$BASE"; then
      echo "image.sh: the base is localhost/debian:$suite" >&2
      scripts/base-image.sh "$suite"
      BASE=localhost/debian:$suite
    fi
    ;;
  ubuntu) BASE=docker.io/library/ubuntu:$(of VERSION_ID) ;;
  *) BASE=docker.io/library/debian:stable-slim ;;
  esac
fi
can_have "$BASE" || { echo "image.sh: there is no image $BASE here, and it cannot be pulled: name another with BASE=" >&2; exit 3; }
trial=$("$engine" run --rm "$BASE" true 2>&1) || { echo "image.sh: no container runs here: $trial" >&2; exit 3; }

context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
for program in althing althing-keeper althing-registry; do
  # Without what only debuggers read: of a debug build that is most of it.
  strip -o "$context/$program" "$programs/$program"
done
install -m 0755 scripts/container-start.sh "$context/start"
certificates=/etc/ssl/certs/ca-certificates.crt
[ -f $certificates ] || certificates=/etc/pki/tls/certs/ca-bundle.crt
[ -f $certificates ] || { echo "image.sh: please install ca-certificates: programs in the image check others by them" >&2; exit 1; }
install -m 0644 "$(readlink -f $certificates)" "$context/ca-certificates.crt"
"$engine" build -q --build-arg "BASE=$BASE" -t "$image" -f Dockerfile "$context"
