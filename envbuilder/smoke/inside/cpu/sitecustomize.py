"""Python loads this by itself in every process of a smoke run on a CPU: the driver and all workers of Ray."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType

from patches import PATCHES

# Installed, but not to be used without CANN; whoever imports them gets an ImportError, and can live with that.
# torch_npu: `libhccl.so: cannot open shared object file`. triton, which is triton-ascend: `0 active drivers ([]). There
# should only be one.`
_HIDDEN = ["torch_npu", "triton"]
# Models with experts, which verl 0.6.1 and later import from vLLM without using them: `module 'triton.language' has no
# attribute 'exp'` (vLLM 0.11), `Parameter block_size has unsupported type list[int]` (vLLM 0.9 with torch 2.5).
_EXPERTS = ("deepseek_v2", "mixtral", "qwen2_moe", "qwen3_moe", "qwen3_vl_moe", "qwen3_next", "kimi_vl")
_HIDDEN += [f"vllm.model_executor.models.{name}" for name in _EXPERTS]
for name in _HIDDEN:
    sys.modules.setdefault(name, None)  # type: ignore[arg-type]


class _Patcher(importlib.abc.MetaPathFinder):
    """Finds the modules that have patches, and applies these once a module was executed."""

    def __init__(self) -> None:
        self._looking: set[str] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in PATCHES or fullname in self._looking:
            return None
        self._looking.add(fullname)
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._looking.discard(fullname)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                for patch in PATCHES[fullname]:
                    patch(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


sys.meta_path.insert(0, _Patcher())
