#!/usr/bin/env bash
# Lets this machine run programs of another architecture with qemu, in containers too, until it is restarted.
# A registered emulator is kept, for example a newer qemu that was registered by hand.
set -euo pipefail

arch=${1:?usage: emulate.sh aarch64|x86_64}
case $arch in
    aarch64) number='\xb7' ;;
    x86_64) number='\x3e' ;;
    *) echo "emulate.sh: no emulator is known for $arch" >&2; exit 2 ;;
esac
if [ "$arch" = "$(uname -m)" ]; then exit; fi
registered=/proc/sys/fs/binfmt_misc
if [ ! -e $registered/register ]; then mount -t binfmt_misc binfmt_misc $registered; fi
if [ -e "$registered/qemu-$arch" ]; then exit; fi
if ! command -v "qemu-$arch-static" >/dev/null; then
    apt-get update --quiet >&2
    DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends qemu-user-static >&2
fi
# the package may have registered it
if [ -e "$registered/qemu-$arch" ]; then exit; fi
# the first bytes of a program of that architecture, and the bits to compare; F opens the emulator now, so that it
# starts in containers, which do not have it
magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00'$number'\x00'
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
printf '%s' ":qemu-$arch:M::$magic:$mask:$(command -v "qemu-$arch-static"):OCF" >$registered/register
