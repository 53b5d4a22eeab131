"""Replaces SGLang's kernels for accelerators, which it imports everywhere and cannot call on a CPU.

Every name and every submodule can be imported, and every call raises an error: what SGLang computes, it computes with
its own code in torch.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any


def _missing(module: str, name: str) -> Callable[..., Any]:
    def call(*_: Any, **__: Any) -> Any:
        raise RuntimeError(f"{module}.{name} is a kernel for accelerators, and this is a CPU")

    call.__name__ = call.__qualname__ = name
    return call


class _Kernels(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _missing(self.__name__, name)


class _Submodules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, fullname: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        # SGLang has its own scalar_type where this one is missing
        if fullname.startswith(f"{__name__}.") and fullname != f"{__name__}.scalar_type":
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return _Kernels(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


sys.modules[__name__].__class__ = _Kernels
__path__: list[str] = []
sys.meta_path.insert(0, _Submodules())
