#!/usr/bin/env bash
# Starts a separate docker engine if none runs, and prints the DOCKER_HOST to use.
# A running engine is never changed: only its address is printed.
# With the name of a bridge, which ends with a digit, it starts one more engine with its containers on that bridge; with
# `background`, these get what others leave of the cores.
set -euo pipefail

state=${1:?usage: engine.sh STATE_FOLDER [BRIDGE [background]]} bridge=${2:-} mode=${3:-}
if [ -z "$bridge" ] && docker version >/dev/null 2>&1; then
    echo "${DOCKER_HOST:-unix:///var/run/docker.sock}"
    exit
fi
address=unix://$state/docker.sock
if DOCKER_HOST=$address docker version >/dev/null 2>&1; then
    echo "$address"
    exit
fi
programs=(dockerd mmdebstrap)
needed=(ca-certificates docker.io git iptables mmdebstrap)
options=(--host "$address" --data-root "$state/root" --exec-root "$state/exec" --pidfile "$state/pid")
if [ -n "$bridge" ]; then
    programs+=(ip)
    needed+=(iproute2)
    options+=(--bridge "$bridge")
fi
missing=
for program in "${programs[@]}"; do command -v "$program" >/dev/null || missing=$program; done
if [ -n "$missing" ]; then
    apt-get update --quiet >&2
    # from Debian 13 on, the command line and its builds are packages of their own
    for package in docker-cli docker-buildx; do
        if apt-cache show "$package" >/dev/null 2>&1; then needed+=("$package"); fi
    done
    echo "no docker engine answers; installing one with apt-get: ${needed[*]}" >&2
    DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends "${needed[@]}" >&2
fi
if [ -n "$bridge" ] && ! ip link show "$bridge" >/dev/null 2>&1; then
    # without a fixed address a bridge has that of a container, and the other containers lose it when that one ends
    number=${bridge##*[!0-9]}
    ip link add "$bridge" address "02:42:0a:d6:07:0$number" type bridge
    # outside of the ranges that engines choose from
    ip address add "10.214.$number.1/24" dev "$bridge"
    ip link set "$bridge" up
fi
if [ "$mode" = background ]; then
    # nice would not reach into containers, which are control groups, and would let the engine miss its own deadlines
    group=/sys/fs/cgroup/$bridge file=cpu.weight least=1
    if [ -d /sys/fs/cgroup/cpu ]; then group=/sys/fs/cgroup/cpu/$bridge file=cpu.shares least=2; fi
    if mkdir -p "$group" 2>/dev/null && [ -w "$group/$file" ]; then
        echo "$least" >"$group/$file"
        options+=(--cgroup-parent "/$bridge" --exec-opt native.cgroupdriver=cgroupfs)
    fi
fi
mkdir -p "$state"
# after a restart of the machine the number may belong to another process, and dockerd would wait for its end
grep --quiet --no-messages dockerd "/proc/$(cat "$state/pid" 2>/dev/null)/comm" || rm -f "$state/pid"
setsid dockerd "${options[@]}" >"$state/log" 2>&1 </dev/null &
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
