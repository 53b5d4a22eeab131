"""What triton-ascend adds to triton, for rows whose triton-ascend is out of reach: a driver, and operators of kernels.

Triton's own interpreter runs the kernels. One that calls an operator of triton-ascend fails under the operator's name.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any, NoReturn

# as in sources/runtime.c; an AI core has two vector cores
_CORES = {"num_aicore": 24, "num_vectorcore": 48}
_OPERATORS = ("extract_slice", "get_element", "insert_slice")
_CANN = "triton.language.extra.cann"


def drive_npus(backends: ModuleType) -> None:
    """Replace the backends of triton, which are for GPUs, in its module `triton.backends`."""
    if "ascend" in backends.backends:
        return
    # triton reads it where a kernel is defined, and that is later
    os.environ["TRITON_INTERPRET"] = "1"
    from triton.backends.compiler import GPUTarget
    from triton.backends.driver import DriverBase

    class NpuDriver(DriverBase):
        utils = SimpleNamespace(get_device_properties=lambda device: dict(_CORES))

        @classmethod
        def is_active(cls) -> bool:
            return True

        def get_current_target(self) -> Any:
            return GPUTarget("npu", "stand-in", 0)

        def get_active_torch_device(self) -> Any:
            import torch

            return torch.device("npu", self.get_current_device())

        def get_current_device(self) -> int:
            import torch

            return int(torch.npu.current_device())

        def get_benchmarker(self) -> NoReturn:
            raise NotImplementedError("stand-in of CANN: a benchmark of triton")

        def map_python_to_cpp_type(self, ty: str) -> NoReturn:
            raise NotImplementedError("stand-in of CANN: the compiler of triton-ascend")

    [other] = {item.compiler for item in backends.backends.values() if "nvidia" in item.compiler.__module__}
    backends.backends.clear()
    backends.backends["ascend"] = backends.Backend(compiler=other, driver=NpuDriver)


def extend_language(extra: ModuleType) -> None:
    """Add the operators of triton-ascend to `triton.language.extra`."""
    if importlib.util.find_spec(_CANN) is not None:
        return
    cann, extension = ModuleType(_CANN), ModuleType(f"{_CANN}.extension")
    for name in _OPERATORS:
        setattr(extension, name, _missing(name))
    cann.extension = extension  # type: ignore[attr-defined]
    extra.cann = cann  # type: ignore[attr-defined]
    sys.modules.update({cann.__name__: cann, extension.__name__: extension})


def _missing(name: str) -> Callable[..., NoReturn]:
    def operator(*_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError(f"stand-in of CANN: {name} of triton-ascend")

    return operator
