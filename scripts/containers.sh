#!/usr/bin/env bash
# Prints the shell assignments by which other scripts and tests run containers on this machine:
#   containers=$(scripts/containers.sh); eval "$containers"; "$engine" run …; $compose up …
# ENGINE chooses between docker and podman where both work. Exits with 3, and says why, where there is none.
# `compose` is empty where there is no Compose.
set -euo pipefail
cache=${ALTHING_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/althing}/containers
# docker's client may be installed without its daemon.
works() { command -v "$1" >/dev/null && timeout 20 "$1" info >/dev/null 2>&1; }
engine=
for candidate in ${ENGINE:-docker podman}; do
  if works "$candidate"; then
    engine=$candidate
    break
  fi
done
[ -n "$engine" ] || { echo "containers.sh: neither docker nor podman works here (docker info, podman info)" >&2; exit 3; }
compose=
if [ "$engine" = docker ] && docker compose version >/dev/null 2>&1; then
  compose='docker compose'
elif [ "$engine" = podman ] && command -v podman-compose >/dev/null; then
  compose=podman-compose
fi
printf 'engine=%q compose=%q\n' "$engine" "$compose"

# podman asks for more open files than a machine without privileges of its own may give, and crun refuses a machine that
# mixes both versions of control groups: then podman gets a configuration that works, unless there is one.
asked=1048576
at_most() { if [ "$1" = unlimited ] || [ "$1" -gt "$2" ]; then echo "$2"; else echo "$1"; fi; }
files=$(at_most "$(ulimit -Hn)" $asked)
# podman has lowered its own limit to this before it starts a container.
processes=$(at_most "$(ulimit -Hu)" "$(at_most "$(cat /proc/sys/kernel/pid_max 2>/dev/null || echo $asked)" $asked)")
mixed=no
[ -d /sys/fs/cgroup/unified ] && mixed=yes
if [ "$engine" = podman ] && [ -z "${CONTAINERS_CONF:-}" ] &&
  { [ "$files" -lt $asked ] || [ $mixed = yes ]; }; then
  mkdir -p "$cache"
  {
    echo '[containers]'
    echo "default_ulimits = [\"nofile=$files:$files\", \"nproc=$processes:$processes\"]"
    echo '[engine]'
    if [ $mixed = yes ] && command -v runc >/dev/null; then
      echo 'runtime = "runc"'
      echo 'cgroup_manager = "cgroupfs"'
    fi
  } >"$cache/containers.conf.$$"
  mv "$cache/containers.conf.$$" "$cache/containers.conf"
  printf 'export CONTAINERS_CONF=%q\n' "$cache/containers.conf"
fi
