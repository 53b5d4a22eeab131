"""A platform for verl 0.9, which describes every device by one: a CPU that Ray counts as an NPU."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch


class Device(str):
    """A device number: `torch.device(it)` is the CPU, while `f"cpu:{it}"` is a valid name."""

    __slots__ = ()

    def __format__(self, _: str) -> str:
        return "0"


class OneDevice:
    """The methods about the one device, which is available but must not be detected by verl itself."""

    device_module = torch.cpu

    def is_available(self) -> bool:
        return True

    def is_platform_available(self, use_smi_check: bool = False) -> bool:
        return False

    def current_device(self) -> Device:
        return Device("cpu")

    def device_count(self) -> int:
        return 1

    def set_device(self, _: Any) -> None:
        pass

    def synchronize(self, _: Any = None) -> None:
        pass

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    manual_seed_all = manual_seed


class Names:
    """The names of the device: a CPU for torch and gloo, an NPU for Ray."""

    device_name = "cpu"
    vendor_name = "smoke"

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "ASCEND_RT_VISIBLE_DEVICES"

    def ray_resource_name(self) -> str:
        return "NPU"

    def ray_noset_envvars(self) -> list[str]:
        return []


class Lacks:
    """Empty methods for what a CPU lacks: an allocator, a capability, a profiler, IPC, a runtime."""

    def set_allocator_settings(self, _: Any) -> None:
        pass

    def empty_cache(self) -> None:
        pass

    def get_device_capability(self, _: Any = 0) -> tuple[None, None]:
        return None, None

    @contextlib.contextmanager
    def nvtx_range(self, _: Any) -> Iterator[None]:
        yield

    def profiler_start(self) -> None:
        pass

    def profiler_stop(self) -> None:
        pass

    def is_ipc_supported(self) -> bool:
        return False

    def cudart(self) -> None:
        return None


def make(base: Any) -> Any:
    # `base` is abstract and comes last, so that the other classes implement its methods
    class Platform(OneDevice, Names, Lacks, base):
        pass

    return Platform
