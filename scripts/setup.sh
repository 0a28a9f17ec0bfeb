#!/usr/bin/env bash
# Installs the system packages that building and testing need, on Debian and its kin. Elsewhere it says what is missing.
#   scripts/setup.sh build     only those that building needs
set -euo pipefail
what=${1:-all}
need() { # package, then a test that it is there
  local package=$1
  shift
  "$@" >/dev/null 2>&1 || missing+=("$package")
}
missing=()
need g++ command -v g++
need make command -v make
need pkg-config command -v pkg-config
need libclang-dev bash -c 'ls /usr/lib/llvm-*/lib/libclang*.so* /usr/lib/*/libclang*.so* 2>/dev/null | grep -v libclang-cpp | grep -q libclang'
if [ "$what" = all ]; then
  need iproute2 command -v ip
  need iptables command -v iptables
  need python3-venv python3 -c 'import venv, ensurepip'
  need nodejs command -v node
  need npm command -v npm
  need protobuf-compiler command -v protoc
  need golang-go command -v go
  need golang-golang-x-mod-dev test -d /usr/share/gocode/src/golang.org/x/mod/sumdb
  need avahi-daemon command -v avahi-daemon
  need avahi-utils command -v avahi-browse
  need dbus command -v dbus-daemon
  need nginx-light command -v nginx
  need openssh-client command -v ssh-keygen
  need strace command -v strace
  # What tests build guests with; where Rust comes from elsewhere, or cannot be reached, the tests say what is missing.
  target=wasm32-wasip2
  if command -v rustup >/dev/null && ! rustup target list --installed 2>/dev/null | grep -qx "$target"; then
    timeout 120 rustup target add "$target" >/dev/null 2>&1 || echo "setup: rustup cannot add the target $target" >&2
  fi
fi
[ ${#missing[@]} -eq 0 ] && exit 0
if ! command -v apt-get >/dev/null; then
  echo "setup: please install what corresponds to: ${missing[*]}" >&2
  exit 1
fi
sudo=()
[ "$(id -u)" -eq 0 ] || sudo=(sudo)
echo "setup: installing ${missing[*]}" >&2
"${sudo[@]}" apt-get update -qq
DEBIAN_FRONTEND=noninteractive "${sudo[@]}" apt-get install -y -qq "${missing[@]}" >/dev/null
