"""Reads the state of a server from its files and read-only tools, or from a folder with the files of another server."""

from __future__ import annotations

import os
import platform
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from envbuilder import platforms
from envbuilder.machine import npu_smi, nvidia_smi, vendor
from envbuilder.machine.containers import CARD, DockerState, docker_of
from envbuilder.machine.probe import output_of, text_of

ASCEND = "/usr/local/Ascend"
NPU_SMI = ("/usr/local/bin/npu-smi", "/usr/local/sbin/npu-smi", "/usr/sbin/npu-smi")
NPU_SMI_OUTPUT = "npu-smi.txt"
GPU_SMI_OUTPUT = "nvidia-smi.txt"
_VENDOR_ID = "0x19e5"
_ACCELERATORS = "0x1200"
# the number of the architecture in the ELF header of a program
_MACHINES = {0xB7: "aarch64", 0x3E: "x86_64"}
_NODES = ("davinci[0-9]*", "davinci_manager", "devmm_svm", "hisi_hdc")


class Node(NamedTuple):
    """A device node: its owner, its group and its permissions."""

    uid: int
    gid: int
    mode: int


class Cann(NamedTuple):
    """An installed part of the vendor's toolkit."""

    package: str
    version: str | None
    inner: str | None
    arch: str | None
    path: str
    required_hal: str | None


@dataclass(frozen=True)
class Machine:
    """The state of a machine."""

    root: Path
    arch: str | None
    os: str | None
    kernel: str | None
    processor: str | None
    cores: int
    memory_gb: float | None
    shm_gb: float | None
    huge_pages: int | None
    disk_free_gb: float | None
    npus: npu_smi.Reading
    npu_smi_output: str
    board: Mapping[str, str]
    pci: tuple[str, ...]
    nodes: Mapping[str, Node]
    driver: Mapping[str, str]
    firmware: Mapping[str, str]
    cann: tuple[Cann, ...]
    docker: DockerState
    # whether everything was read from the machine that envbuilder runs on
    is_here: bool
    gpus: nvidia_smi.GpuReading = field(default_factory=nvidia_smi.GpuReading)
    # user and groups of the running process
    user: tuple[int, frozenset[int]] = field(default_factory=lambda: (os.getuid(), frozenset(os.getgroups())))

    @property
    def driver_version(self) -> str | None:
        """Return the version from the driver's own file, or from npu-smi if there is no such file."""
        return self.driver.get("version") or self.npus.driver_version

    @property
    def has_npus(self) -> bool:
        return bool(self.npus.devices or self.pci or self.cards)

    @property
    def gpu_numbers(self) -> list[int]:
        return [item.number for item in self.gpus.devices]

    def without_driver(self) -> Machine:
        """Return such a machine of which the driver is unknown."""
        return replace(self, driver={}, npus=self.npus._replace(driver_version=None))

    @property
    def cards(self) -> list[int]:
        """Return the numbers of the device nodes of NPUs."""
        found = (CARD.match(name) for name in self.nodes)
        return sorted(int(match[1]) for match in found if match)

    def file(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def read(self, path: str) -> str:
        return text_of(self.file(path))


def look(root: Path = Path("/"), npu_smi_output: str | None = None) -> Machine:
    """Read the machine whose files are in a folder; with a given output of npu-smi, the tool is not run.

    In a folder with the files of another machine, the output may be in the file npu-smi.txt.
    """
    is_own_root = root == Path("/")
    if npu_smi_output is None and not is_own_root:
        npu_smi_output = text_of(root / NPU_SMI_OUTPUT)
    is_here = is_own_root and npu_smi_output is None
    with ThreadPoolExecutor() as pool:
        table = pool.submit(_npu_smi, root) if is_here else None
        board = pool.submit(_npu_smi, root, "-t", "board", "-i", "0") if is_here else None
        gpus = pool.submit(_nvidia_smi) if is_here else None
        docker = docker_of(root)
    npu_smi_output = table.result() if table else npu_smi_output or ""
    memory = _memory(text_of(root / "proc/meminfo"))
    cann = tuple(_cann(root))
    place = docker.root or "/var/lib/docker"
    return Machine(
        root=root,
        arch=platforms.arch() if is_own_root else _arch(root, cann),
        os=vendor.values(text_of(root / "etc/os-release")).get("pretty_name"),
        kernel=platform.release() if is_own_root else text_of(root / "proc/sys/kernel/osrelease").strip() or None,
        processor=_processor(text_of(root / "proc/cpuinfo")),
        cores=(os.cpu_count() or 1) if is_own_root else text_of(root / "proc/cpuinfo").count("processor\t"),
        memory_gb=memory.get("MemTotal"),
        shm_gb=_free(root / "dev/shm", total=True) if is_own_root else None,
        huge_pages=int(memory["HugePages_Total"]) if "HugePages_Total" in memory else None,
        disk_free_gb=_free(Path(place)) if is_own_root else None,
        npus=npu_smi.read(npu_smi_output),
        npu_smi_output=npu_smi_output,
        board=npu_smi.board(board.result()) if board else {},
        pci=tuple(_pci(root)),
        nodes=dict(_nodes(root)),
        driver=_info(root, "driver"),
        firmware=_info(root, "firmware"),
        cann=cann,
        docker=docker,
        is_here=is_here,
        gpus=nvidia_smi.read(gpus.result() if gpus else "" if is_own_root else text_of(root / GPU_SMI_OUTPUT)),
    )


# --- NPUs ------------------------------------------------------------------------------------------------


def _npu_smi(root: Path, *arguments: str) -> str:
    """Return the output of npu-smi, which is empty if it is not installed."""
    known = (str(root / path.lstrip("/")) for path in NPU_SMI)
    tool = next((path for path in known if Path(path).is_file()), None) or shutil.which("npu-smi")
    return output_of([tool, "info", *arguments])[1] if tool else ""


def _nvidia_smi() -> str:
    tool = shutil.which("nvidia-smi")
    return output_of([tool])[1] if tool else ""


def _pci(root: Path) -> Iterator[str]:
    """Yield the device numbers of the vendor's accelerators on the PCI bus, which is readable without a driver."""
    for device in sorted((root / "sys/bus/pci/devices").glob("*")):
        vendor_id, kind = text_of(device / "vendor").strip(), text_of(device / "class").strip()
        if vendor_id == _VENDOR_ID and kind.startswith(_ACCELERATORS):
            yield text_of(device / "device").strip().removeprefix("0x")


def _nodes(root: Path) -> Iterator[tuple[str, Node]]:
    for pattern in _NODES:
        for path in sorted((root / "dev").glob(pattern)):
            found = path.stat()
            yield f"/dev/{path.name}", Node(found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode))


# --- software of the vendor ------------------------------------------------------------------------------


def _info(root: Path, part: str) -> dict[str, str]:
    """Return version.info of the driver or the firmware, from the recorded installation folder or the usual one."""
    installed = vendor.values(text_of(root / "etc/ascend_install.info"))
    home = installed.get(f"{part}_install_path_param") or ASCEND
    return vendor.values(text_of(root / home.lstrip("/") / part / "version.info"))


def _cann(root: Path) -> Iterator[Cann]:
    """Yield each package of each version once, even if several links lead to it."""
    seen: set[tuple[str, str | None]] = set()
    base = root / ASCEND.lstrip("/")
    patterns = (
        "*/*/ascend_*_install.info",
        "*/*/*-linux/ascend_*_install.info",
        "cann-*/*-linux/ascend_*_install.info",
    )
    for file in sorted(path for pattern in patterns for path in base.glob(pattern)):
        fields = vendor.values(text_of(file))
        package = fields.get("package_name", file.name).removeprefix("Ascend-cann-").lower()
        if (package, fields.get("version")) in seen:
            continue
        seen.add((package, fields.get("version")))
        required = next((hal for folder in (file.parent, file.parents[1]) if (hal := _required_hal(folder))), None)
        place = fields.get("path") or f"/{file.parent.relative_to(root)}"
        yield Cann(package, fields.get("version"), fields.get("innerversion"), fields.get("arch"), place, required)


def _required_hal(folder: Path) -> str | None:
    for name in ("version.cfg", "compiler/version.info", "runtime/version.info"):
        if found := vendor.values(text_of(folder / name)).get("required_driver_ascendhal_version"):
            return found
    return None


# --- the machine itself ----------------------------------------------------------------------------------


def _arch(root: Path, cann: Sequence[Cann]) -> str | None:
    """Return the architecture of a program of the machine, or of its toolkit."""
    for name in ("usr/bin/env", "bin/sh", "usr/local/bin/npu-smi"):
        try:
            with (root / name).open("rb") as file:
                head = file.read(20)
        except OSError:
            continue
        if head[:4] == b"\x7fELF" and head[18] in _MACHINES:
            return _MACHINES[head[18]]
    return next((item.arch for item in cann if item.arch), None)


def _processor(text: str) -> str | None:
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip().lower() in {"model name", "hardware"} and value.strip():
            return value.strip()
    return None


# of a file that was damaged; Python refuses thousands of digits
_LONGEST_NUMBER = 19


def _memory(text: str) -> dict[str, float]:
    """Return the values of /proc/meminfo, those with a unit in GB."""
    found = {}
    for line in text.splitlines():
        key, _, rest = line.partition(":")
        number, _, unit = rest.strip().partition(" ")
        if number.isdecimal() and len(number) < _LONGEST_NUMBER:
            found[key] = int(number) * 1024 / 10**9 if unit else float(number)
    return found


def _free(path: Path, *, total: bool = False) -> float | None:
    """Return the free or total GB of the disk of a folder, or of its parent if the folder does not exist yet."""
    while not path.exists() and path != path.parent:
        path = path.parent
    try:
        found = os.statvfs(path)
    except OSError:
        return None
    return (found.f_blocks if total else found.f_bavail) * found.f_frsize / 10**9
