#!/bin/bash
# The entry point of the image: `registry …` starts a registry of the nodes' network, `healthy` says whether the program of
# this container works, and anything else is a command of althing.
# Before `up`, whichever node is first makes what is missing: althing.toml, in which the gateway listens for published ports
# and so has a token; and with ALTHING_PRIVATE=true the key of a private network. Existing files stay as they are.
set -euo pipefail
config=$HOME/.config/althing
name=/network/name

make_configuration() {
  umask 077
  {
    if [ "${ALTHING_PRIVATE:-}" = true ]; then
      [ -f "$config/mesh.key" ] || althing network-key new "$config/mesh.key" >/dev/null
      echo 'network_key = "mesh.key"'
    fi
    echo '[gateway]'
    echo 'listen = "0.0.0.0:7420"'
    # Nobody needs to know it: `althing token add NAME` makes tokens for people.
    echo "token = \"$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')\""
  } >"$config/althing.toml.new"
  mv "$config/althing.toml.new" "$config/althing.toml"
}

# Tells a registry which network its releases are for: a private one has the mark of its key in its name.
tell_name() {
  local mark=
  if [ -f "$config/mesh.key" ]; then
    mark=+$(althing --json network-key show "$config/mesh.key" | tr -d ' \n' | sed 's/.*"mark":"\([0-9a-f]*\)".*/\1/')
  fi
  echo "althing$mark" >"$name.new"
  mv "$name.new" "$name"
}

wait_for_name() {
  local _
  for _ in {1..60}; do
    [ -s "$name" ] && return
    sleep 1
  done
  echo "start: no node has written $name: mount the nodes' volume there" >&2
  exit 1
}

registry_answers() {
  local status
  exec 3<>/dev/tcp/127.0.0.1/7480
  printf 'GET /checkpoint HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' >&3
  read -r -t 5 status <&3
  [[ $status == "HTTP/1.1 200"* ]]
}

case ${1:-} in
up)
  (
    flock 9
    [ -f "$config/althing.toml" ] || make_configuration
    [ -s "$name" ] || tell_name
  ) 9>"$config/start.lock"
  exec althing "$@"
  ;;
registry)
  wait_for_name
  exec althing-registry --data "$ALTHING_DATA" --listen 0.0.0.0:7480 --network "$(cat "$name")" "${@:2}"
  ;;
healthy) if [ -f "$ALTHING_DATA/registry.key" ]; then registry_answers; else exec althing status >/dev/null; fi ;;
*) exec althing "$@" ;;
esac
