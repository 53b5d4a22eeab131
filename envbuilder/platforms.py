"""Names of architectures, and the processor and NPUs of this machine."""

from __future__ import annotations

import platform
from pathlib import Path

# by their name in the matrices
PLATFORMS = {"aarch64": "linux/arm64", "x86_64": "linux/amd64"}


def arch(machine: str | None = None) -> str:
    """Return the name of an architecture in the matrices; by default that of this machine."""
    name = machine or platform.machine()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(name, name)


def cpu_features() -> str:
    """Return the instruction sets of this machine, as Linux names them."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return arch()
    found = {word for line in lines if line.lower().startswith(("features", "flags")) for word in line.split()[2:]}
    return " ".join([arch(), *sorted(found)])


def gpus() -> list[Path]:
    """Return the device nodes of this machine's GPUs."""
    return sorted(Path("/dev").glob("nvidia[0-9]*"))


def npus() -> list[Path]:
    """Return the device nodes of this machine's NPUs, by number."""
    nodes = Path("/dev").glob("davinci[0-9]*")
    return sorted(nodes, key=lambda path: int(path.name.removeprefix("davinci")))
