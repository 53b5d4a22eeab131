#!/usr/bin/env bash
# Starts a separate docker engine if none answers, and prints the DOCKER_HOST to use.
# A running engine is never changed: if one answers, only its address is printed.
set -euo pipefail

state=${1:?usage: engine.sh STATE_FOLDER}
if docker version >/dev/null 2>&1; then
    echo "${DOCKER_HOST:-unix:///var/run/docker.sock}"
    exit
fi
address=unix://$state/docker.sock
if DOCKER_HOST=$address docker version >/dev/null 2>&1; then
    echo "$address"
    exit
fi
if ! command -v dockerd >/dev/null || ! command -v debootstrap >/dev/null; then
    apt-get update --quiet >&2
    DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends \
        ca-certificates debootstrap docker.io git iptables >&2
fi
mkdir -p "$state"
# after a restart of the machine the number may belong to another process, and dockerd would wait for its end
grep --quiet --no-messages dockerd "/proc/$(cat "$state/pid" 2>/dev/null)/comm" || rm -f "$state/pid"
setsid dockerd --host "$address" --data-root "$state/root" --exec-root "$state/exec" --pidfile "$state/pid" \
    >"$state/log" 2>&1 </dev/null &
for _ in $(seq 180); do
    if DOCKER_HOST=$address docker version >/dev/null 2>&1; then
        echo "$address"
        exit
    fi
    sleep 1
done
echo "the engine did not start; its log:" >&2
tail -20 "$state/log" >&2
exit 1
