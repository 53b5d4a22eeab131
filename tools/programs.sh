#!/usr/bin/env bash
# Installs with apt-get what tests need and this machine lacks, each with the reason; prints nothing if nothing is missing.
#   programs.sh PROGRAM:PACKAGE:REASON...    a program with a slash is a file
set -euo pipefail

packages=()
for item in "$@"; do
    IFS=: read -r program package reason <<<"$item"
    command -v "$program" >/dev/null || [ -e "$program" ] || {
        [ ${#packages[@]} -gt 0 ] || echo "installing with apt-get:"
        echo "  $package, $reason"
        packages+=("$package")
    }
done
[ ${#packages[@]} = 0 ] || {
    apt-get update --quiet
    DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends "${packages[@]}"
}
