#!/usr/bin/env bash
# Ends with exit code 5 if less disk is free than a command needs: in the folder of our engine, or, where another
# engine answers, in that engine's; and in the folder for temporary files.
set -euo pipefail

what=${1:?usage: room.sh WHAT GIGABYTES FOLDER...} needed=${2:?} && shift 2
if root=$(docker info --format '{{.DockerRootDir}}' 2>/dev/null) && [ -d "$root" ]; then set -- "$root" "${TMPDIR:-/tmp}"; fi
for folder in "$@"; do
    # the folder of an engine is made when that starts
    until [ -d "$folder" ]; do folder=$(dirname "$folder"); done
    free=$(($(df --output=avail --block-size=1 "$folder" | tail -1) / 10 ** 9))
    [ "$free" -ge "$needed" ] || { echo "error: $what needs $needed GB of disk; $free GB are free in $folder" >&2; exit 5; }
done
echo "$what needs $needed GB of disk; $free GB are free" >&2
