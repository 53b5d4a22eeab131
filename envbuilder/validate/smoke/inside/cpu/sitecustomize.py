"""Installs the patches; Python loads this module in every process of a smoke run on a CPU, also in workers of Ray."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import ModuleType

# each registers its patches
import patch_sglang  # noqa: F401
import patch_torch  # noqa: F401
import patch_verl  # noqa: F401
import patch_vllm  # noqa: F401
from patching import HIDDEN_FROM, PATCHES, REPLACED

# Installed, but unusable without CANN: importing them raises an ImportError, which every importer handles.
# torch_npu: `libhccl.so: cannot open shared object file`. triton, which is triton-ascend: `0 active drivers ([]). There
# should only be one.`; SGLang needs triton, and gets it with a driver of `patch_sglang`.
for name in ("torch_npu",) if "SGLANG_USE_CPU_ENGINE" in os.environ else ("torch_npu", "triton"):
    sys.modules.setdefault(name, None)  # type: ignore[arg-type]

_PATCHED = PATCHES.keys() | HIDDEN_FROM.keys() | REPLACED.keys()


@contextmanager
def _hidden(names: Sequence[str]) -> Iterator[None]:
    """Make importing these modules fail, except those that are already imported."""
    absent = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(absent))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]


def _execute_replaced(spec: importlib.machinery.ModuleSpec, module: ModuleType) -> None:
    """Execute a module with a part of its text replaced."""
    text = spec.loader.get_source(spec.name).replace(*REPLACED[spec.name])  # type: ignore[union-attr]
    exec(compile(text, str(spec.origin), "exec"), module.__dict__)  # noqa: S102


class _Patcher(importlib.abc.MetaPathFinder):
    """A finder that applies the patches of a module right after it was executed."""

    def __init__(self) -> None:
        self._looking: set[str] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in _PATCHED or fullname in self._looking:
            return None
        self._looking.add(fullname)
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._looking.discard(fullname)
        if spec is not None and spec.loader is not None:
            execute: Callable[[ModuleType], None] = spec.loader.exec_module
            if fullname in REPLACED:
                execute = partial(_execute_replaced, spec)

            def exec_module(module: ModuleType) -> None:
                with _hidden(HIDDEN_FROM.get(fullname, ())):
                    execute(module)
                for patch in PATCHES.get(fullname, ()):
                    patch(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


sys.meta_path.insert(0, _Patcher())
