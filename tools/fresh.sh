#!/usr/bin/env bash
# Runs the commands of the README, `make demo` and `make test`, on a new machine: a minimal Debian 12 of debootstrap
# with its own processes, mounts, home folders and network, and a clone of the last commit.
#
#   tools/fresh.sh [TARGET...]    other targets of the Makefile; needs root
#   FRESH_KEEP=1                  keeps the folder of the machine
#   TMPDIR=DIR                    where that folder is made; the two commands need about 30 GB there
#
# It shares with this machine: the kernel, the trusted certificates, the settings of package clients (proxies, indexes,
# mirrors, and local folders in these settings), and ../shared, read-only, if that exists.
set -euo pipefail

suite=bookworm
variables='^((https?|ftp|all|no)_proxy|(PIP|UV)_[A-Z_]+|SSL_CERT_(FILE|DIR)|(REQUESTS|CURL)_CA_BUNDLE|GIT_SSL_CAINFO)='
pip_settings=("${PIP_CONFIG_FILE:-}" /etc/pip.conf ~/.config/pip/pip.conf ~/.pip/pip.conf)
bundle=/etc/ssl/certs/ca-certificates.crt

main() {
    [ "$(id -u)" = 0 ] || fail "needs root: it makes mounts and network interfaces"
    checkout=$(cd "$(dirname "$0")/.." && pwd)
    install_tools
    folder=$(mktemp --directory --tmpdir="${TMPDIR:-/var/tmp}" envbuilder-fresh.XXXXXX)
    chmod 755 "$folder"
    root=$folder/root child='' began=$SECONDS
    trap clean_up EXIT
    trap 'exit 130' INT TERM HUP
    # the time before every line shows which part is slow
    exec 3> >(trap '' INT && while IFS= read -r line; do printf '%(%H:%M:%S)T %s\n' -1 "$line"; done)
    stamper=$!
    exec >&3 2>&3 3>&-
    say "a minimal Debian ($suite) in $root"
    make_root
    make_network
    # all processes end with the first one, and all mounts with the last one
    nsenter --net="/run/netns/$network" unshare --mount --uts --ipc --pid --fork --kill-child \
        "$BASH" "$0" --inside "$root" "$checkout" "$@" </dev/null &
    child=$!
    code=0
    wait "$child" || code=$?
    child=''
    say "exit code $code after $((SECONDS - began)) s"
    exit "$code"
}

say() { echo "fresh: $*"; }

fail() {
    echo "fresh: $*" >&2
    exit 1
}

install_tools() {
    missing=()
    for tool in debootstrap:debootstrap git:git ip:iproute2 iptables:iptables unshare:util-linux; do
        command -v "${tool%:*}" >/dev/null || missing+=("${tool#*:}")
    done
    # other distributions do not have the keys of Debian
    [ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || missing+=(debian-archive-keyring)
    [ ${#missing[@]} = 0 ] || { apt-get update --quiet && apt-get install --yes --quiet "${missing[@]}"; } >&2
}

clean_up() {
    [ -z "$child" ] || { kill -KILL "$child" && wait "$child"; } 2>/dev/null || true
    [ -z "${network:-}" ] || remove_network
    if [ "${FRESH_KEEP:-}" ]; then
        say "kept: $folder"
    else
        rm --recursive --force --one-file-system "$folder"
    fi
    # wait for the last lines
    exec >&- 2>&-
    wait "$stamper" || true
}

# --- the root: packages of a minimal system, make and python3, and settings of package clients ---

make_root() {
    sources=$(apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
        grep " $suite[ -]" || true)
    # without a configured mirror, debootstrap uses its default
    mirror=$(awk -v suite="$suite" '$3 == suite {print $2; exit}' <<<"$sources")
    debootstrap --variant=minbase --include=make,python3 "$suite" "$root" ${mirror:+"$mirror"} \
        >"$folder/debootstrap.log" || { tail -20 "$folder/debootstrap.log" && fail "debootstrap failed"; }
    [ -z "$sources" ] || echo "$sources" >"$root/etc/apt/sources.list"
    apt-config dump | grep --extended-regexp '^Acquire::(https?|Check-|Max-|Retries|ForceIPv)' \
        >"$root/etc/apt/apt.conf.d/90host" || true
    copy /etc/apt/auth.conf /etc/apt/auth.conf.d /etc/apt/trusted.gpg.d /etc/apt/keyrings /etc/uv "${pip_settings[@]}"
    copy "${HOME}/.config/uv/uv.toml"
    # the package ca-certificates writes the bundle again, from its own certificates and those of this folder
    copy "$bundle"
    [ ! -e "$bundle" ] || install -D --mode=644 "$bundle" "$root/usr/local/share/ca-certificates/host.crt"
    # a resolver on the loopback device of this machine does not answer the new machine
    resolv=/etc/resolv.conf
    ! grep --quiet '^nameserver 127\.' $resolv || resolv=/run/systemd/resolve/resolv.conf
    cp "$resolv" "$root/etc/resolv.conf"
    echo fresh >"$root/etc/hostname"
    echo '127.0.0.1 localhost fresh' >"$root/etc/hosts"
    git clone --quiet --no-hardlinks "$checkout" "$root/src/envbuilder"
}

# copies files and folders to the same place in the root; those of the user become those of its root
copy() {
    for path in "$@"; do
        [ -e "$path" ] || continue
        place=${path/#"$HOME"/\/root}
        mkdir --parents "$root$(dirname "$place")"
        cp --recursive --dereference --no-target-directory "$path" "$root$place"
    done
}

# --- the network: two ends of a cable, and this machine as the router behind it ---

make_network() {
    network=fresh-$$
    near=fresh$$ net=10.231.$(($$ % 256))
    ip netns add "$network"
    # the default packet size, like that of an engine's bridge: with a smaller one, packets do not reach a container
    ip link add "$near" type veth peer name eth0 netns "$network"
    ip address add "$net.1/30" dev "$near"
    ip link set "$near" up
    ip -netns "$network" link set lo up
    ip -netns "$network" link set eth0 up
    ip -netns "$network" address add "$net.2/30" dev eth0
    ip -netns "$network" route add default via "$net.1"
    forwarding=$(cat /proc/sys/net/ipv4/ip_forward)
    echo 1 >/proc/sys/net/ipv4/ip_forward
    rules --insert
}

# before the rules of an engine of this machine, which refuse other traffic
rules() {
    iptables --wait --table nat "$1" POSTROUTING --source "$net.2" --jump MASQUERADE
    iptables --wait "$1" FORWARD --in-interface "$near" --jump ACCEPT
    iptables --wait "$1" FORWARD --out-interface "$near" --jump ACCEPT
}

remove_network() {
    [ -z "${forwarding:-}" ] || rules --delete || true
    # only if it was off before and no engine of this machine has started since, which needs it
    [ "${forwarding:-1}" = 1 ] || pidof -q dockerd || echo "$forwarding" >/proc/sys/net/ipv4/ip_forward
    ip link delete "$near" 2>/dev/null || true
    ip netns delete "$network" || true
}

# --- inside: the first process of the machine ---

inside() {
    root=$1 checkout=$2
    shift 2
    mount --make-rprivate /
    # engines need a root that is a mount
    mount --bind "$root" "$root"
    make_devices
    mount -t proc proc "$root/proc"
    mount -t sysfs sysfs "$root/sys"
    mount --rbind /sys/fs/cgroup "$root/sys/fs/cgroup"
    [ ! -d "$checkout/../shared" ] || share "$(realpath "$checkout/../shared")" /src/shared
    while read -r path; do share "$path" "$path"; done < <(local_folders)
    mapfile -d '' -t settings < <(env --null | grep --null-data --extended-regexp --ignore-case "$variables")
    hostname fresh
    mkdir "$root/host"
    cd "$root"
    pivot_root . host
    exec chroot . /usr/bin/env --ignore-environment "${settings[@]}" HOME=/root TERM=dumb \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        /bin/bash -c "$(declare -f commands); commands \"\$@\"" fresh "$@"
}

make_devices() {
    mount -t tmpfs -o mode=755 tmpfs "$root/dev"
    mkdir "$root/dev/pts" "$root/dev/shm"
    mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$root/dev/pts"
    mount -t tmpfs tmpfs "$root/dev/shm"
    for name in null:3 zero:5 full:7 random:8 urandom:9; do
        mknod --mode=666 "$root/dev/${name%:*}" c 1 "${name#*:}"
    done
    mknod --mode=666 "$root/dev/tty" c 5 0
    ln --symbolic pts/ptmx "$root/dev/ptmx"
    ln --symbolic /proc/self/fd "$root/dev/fd"
    for number in 0:stdin 1:stdout 2:stderr; do
        ln --symbolic "/proc/self/fd/${number%:*}" "$root/dev/${number#*:}"
    done
}

# mounts a file or folder of this machine in the root, read-only
share() {
    if [ -d "$1" ]; then mkdir --parents "$root$2"; else install -D /dev/null "$root$2"; fi
    mount --bind "$1" "$root$2"
    mount -o remount,bind,ro "$root$2"
}

# prints the local paths in settings of package clients; of an index its parent folder, as its pages link to files there
local_folders() {
    {
        env | grep --extended-regexp --ignore-case "$variables" | cut --delimiter== --fields=2- || true
        cat "${pip_settings[@]}" 2>/dev/null || true
    } | tr ' ,=' '\n' | sed --quiet --regexp-extended 's#^file://(/.*)/[^/]+/?$#\1#p; s#^(/.+)$#\1#p' | sort --unique |
        while read -r path; do
            [ ! -e "$path" ] || [ -e "$root$path" ] || echo "$path"
        done
}

# the first process of the new machine: runs the targets and stops the engines that they started
commands() {
    umount --lazy /host && rmdir /host
    cd /src/envbuilder
    for target in "$@"; do
        echo "fresh: \$ make $target"
        before=$SECONDS code=0
        make "$target" || code=$?
        echo "fresh: make $target ended with $code after $((SECONDS - before)) s"
        [ "$code" = 0 ] || break
    done
    make stop
    for _ in $(seq 30); do
        ls ~/.local/state/envbuilder/engine*/pid >/dev/null 2>&1 || break
        sleep 1
    done
    exit "$code"
}

if [ "${1:-}" = --inside ]; then
    shift
    inside "$@"
fi
[ $# -gt 0 ] || set -- demo test
main "$@"
