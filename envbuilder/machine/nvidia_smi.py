"""Reads the table of nvidia-smi: the GPUs of a machine, their driver, and the newest CUDA that it runs."""

from __future__ import annotations

import re
from typing import NamedTuple

_DRIVER = re.compile(r"Driver Version:\s*(\d[\d.]*)")
_CUDA = re.compile(r"CUDA Version:\s*(\d[\d.]*)")
# number and name, and whether it is persistent; the next cell is the place on the bus
_GPU = re.compile(r"^\|\s*(\d{1,3})\s+(\S.*?)\s+(?:On|Off|N/A)\s*\|\s*[0-9A-Fa-f]{4,8}:")
_MEMORY = re.compile(r"/\s*(\d{1,9})\s*MiB")


class Gpu(NamedTuple):
    number: int
    name: str
    memory_mb: int | None = None


class GpuReading(NamedTuple):
    """The content of the table; without devices, `failure` is the line that says why."""

    devices: tuple[Gpu, ...] = ()
    driver_version: str | None = None
    cuda_version: str | None = None
    failure: str | None = None


def read(text: str) -> GpuReading:
    """Return the content of an output of nvidia-smi, which may be cut, empty, or an error message."""
    devices: list[Gpu] = []
    for line in text.splitlines():
        if found := _GPU.match(line):
            # a long name is cut with dots
            devices.append(Gpu(int(found[1]), found[2].rstrip(".")))
        elif devices and devices[-1].memory_mb is None and (memory := _MEMORY.search(line)):
            devices[-1] = devices[-1]._replace(memory_mb=int(memory[1]))
    driver, cuda = _DRIVER.search(text), _CUDA.search(text)
    first = next((line.strip() for line in text.splitlines() if line.strip()), None)
    return GpuReading(
        tuple(devices), driver[1] if driver else None, cuda[1] if cuda else None, None if devices else first
    )
