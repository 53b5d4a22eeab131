"""Loads the host kernels wherever torch_npu is imported; Python loads this module in every process of a rehearsal."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType


def _compute_on_the_host(module: ModuleType) -> None:
    for name in ("host_kernels", "engine_operators"):
        importlib.import_module(name).install()


def _rotate_without_triton(module: ModuleType) -> None:
    # triton's own interpreter can run the kernel as well, more slowly
    if os.environ.get("TRITON_INTERPRET") != "1":
        module.rope_forward_triton = importlib.import_module("engine_operators").rope_forward_triton  # type: ignore[attr-defined]


_AFTER: Mapping[str, Callable[[ModuleType], None]] = {
    "torch_npu": _compute_on_the_host,
    "vllm_ascend.ops.triton.rope": _rotate_without_triton,
}


class _Finder(importlib.abc.MetaPathFinder):
    """A finder that calls a function right after a module was executed."""

    def __init__(self) -> None:
        self._looking: set[str] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in _AFTER or fullname in self._looking:
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
                _AFTER[fullname](module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


sys.meta_path.insert(0, _Finder())
