"""Finds the emulator with which this machine runs programs of another architecture."""

from __future__ import annotations

from pathlib import Path

from envbuilder import platforms
from envbuilder.process import ProgramError, run

# where Linux lists the emulators that it starts programs with
_REGISTERED = Path("/proc/sys/fs/binfmt_misc")
# the first bytes of a program, with the number of its architecture
_PROGRAM = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00"
_NUMBERS = {"aarch64": b"\xb7\x00", "x86_64": b"\x3e\x00"}


def emulator(arch: str) -> str | None:
    """Return the emulator of an architecture, with its version; None if it is not installed or not needed."""
    if arch == platforms.arch() or arch not in _NUMBERS:
        return None
    program = _PROGRAM + _NUMBERS[arch]
    for path in sorted(_REGISTERED.glob("*-*")):
        entry = dict(line.partition(" ")[::2] for line in path.read_text(encoding="utf-8").splitlines())
        magic, mask = bytes.fromhex(entry.get("magic", "")), bytes.fromhex(entry.get("mask", ""))
        fits = bytes(byte & bits for byte, bits in zip(program, mask, strict=False)) == magic
        # with F the kernel holds the emulator open, so that it starts in containers, which do not have it
        if "enabled" in entry and "F" in entry["flags:"] and fits:
            return _version(entry["interpreter"]) or path.name
    return None


def processor(arch: str) -> str:
    """Return the processor or the emulator on which programs of an architecture run."""
    found = emulator(arch)
    return f"{arch} by {found} on {platforms.arch()}" if found else platforms.arch()


def _version(program: str) -> str | None:
    """Return the name and version of an emulator, or None if it was removed."""
    try:
        done = run([program, "--version"])
    except ProgramError:
        return None
    # qemu-aarch64 version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)
    return " ".join(done.text.partition("(")[0].replace("version", "").split()) or None
