"""A platform for verl 0.9, which has one for every kind of device: here a CPU that Ray counts as an NPU."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch


class Device(str):
    """A device number: `torch.device(number)` is the CPU, while `f"cpu:{number}"` is a valid name."""

    __slots__ = ()

    def __format__(self, _: str) -> str:
        return "0"


class OneDevice:
    """The methods of a platform for one device: a CPU for torch and gloo, an NPU for Ray.

    It is available, but verl must not detect it.
    """

    device_module = torch.cpu
    device_name = "cpu"
    vendor_name = "smoke"

    def is_available(self) -> bool:
        return True

    def is_platform_available(self, use_smi_check: bool = False) -> bool:
        return False

    def current_device(self) -> Device:
        return Device("cpu")

    def device_count(self) -> int:
        return 1

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    manual_seed_all = manual_seed

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "ASCEND_RT_VISIBLE_DEVICES"

    def ray_resource_name(self) -> str:
        return "NPU"

    def ray_noset_envvars(self) -> list[str]:
        return []

    def get_device_capability(self, _: Any = 0) -> tuple[None, None]:
        return None, None

    @contextlib.contextmanager
    def nvtx_range(self, _: Any) -> Iterator[None]:
        yield

    def is_ipc_supported(self) -> bool:
        return False

    def _nothing(self, *_: Any, **__: Any) -> None:
        pass

    # a CPU has no runtime, no profiler, and no allocator to set
    cudart = empty_cache = profiler_start = profiler_stop = set_allocator_settings = set_device = synchronize = _nothing


def make(base: Any) -> Any:
    # `base` is abstract and comes last, so that the other class implements its methods
    class Platform(OneDevice, base):
        pass

    return Platform
