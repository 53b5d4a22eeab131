#!/usr/bin/env bash
# Runs a command with an empty registry, Debian's docker-registry on a loopback port; REGISTRY is its address.
# Engines trust loopback addresses without TLS.
set -euo pipefail

: "${1:?usage: registry.sh COMMAND...}"
if ! command -v docker-registry >/dev/null; then
    apt-get update --quiet >&2
    apt-get install --yes --quiet --no-install-recommends docker-registry >&2
fi
port=$(python3 -c 'import socket; free = socket.socket(); free.bind(("127.0.0.1", 0)); print(free.getsockname()[1])')
folder=$(mktemp --directory)
cat >"$folder/config.yml" <<END
version: 0.1
log: {level: error}
storage: {filesystem: {rootdirectory: $folder/storage}}
http: {addr: 127.0.0.1:$port}
END
docker-registry serve "$folder/config.yml" >"$folder/log" 2>&1 &
server=$!
trap 'kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; rm -rf "$folder"' EXIT
for _ in $(seq 600); do
    if (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
        REGISTRY=127.0.0.1:$port "$@"
        exit
    fi
    kill -0 "$server" 2>/dev/null || break
    sleep 0.1
done
echo "the registry did not start; its log:" >&2
tail -20 "$folder/log" >&2
exit 1
