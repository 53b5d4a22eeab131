"""Loads the host kernels wherever torch_npu is imported; Python loads this module in every process of a rehearsal."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from types import ModuleType
from typing import Any


def _compute_on_the_host(module: ModuleType) -> None:
    for name in ("host_kernels", "engine_operators"):
        importlib.import_module(name).install()


def _rotate_without_triton(module: ModuleType) -> None:
    # triton's own interpreter can run the kernel as well, and takes minutes for it
    module.rope_forward_triton = importlib.import_module("engine_operators").rope_forward_triton  # type: ignore[attr-defined]


def _generate_in_order(module: ModuleType) -> None:
    """Keep SGLang from recording graphs, which only a device replays, and from preparing a batch beside another one.

    The host computes when it is called, and streams do not wait for each other. Older releases of verl have no settings
    for it.
    """
    prepare = module.ServerArgs.__post_init__

    def post_init(arguments: Any) -> None:
        arguments.disable_cuda_graph = arguments.disable_overlap_schedule = True
        prepare(arguments)

    module.ServerArgs.__post_init__ = post_init


def _sleep_with_memory(module: ModuleType) -> None:
    """Let vllm-ascend sleep, and keep its memory: the code that frees it is in the extension with the kernels."""
    module.camem_available = True  # type: ignore[attr-defined]
    module.use_memory_pool_with_allocator = lambda *_: nullcontext((None, None))  # type: ignore[attr-defined]


def _built_without_cuda(module: ModuleType) -> None:
    """Make a torch of the package index look like the row's, which is built for a CPU.

    MindSpeed makes `torch.cuda` mean the NPU, so that an engine would take the build for CUDA by its version.
    """
    module.cuda = None  # type: ignore[attr-defined]


def _drive_npus(module: ModuleType) -> None:
    importlib.import_module("triton_backend").drive_npus(module)


def _extend_triton(module: ModuleType) -> None:
    importlib.import_module("triton_backend").extend_language(module)


_AFTER: Mapping[str, Callable[[ModuleType], None]] = {
    "torch.version": _built_without_cuda,
    "torch_npu": _compute_on_the_host,
    "triton.backends": _drive_npus,
    "triton.language.extra": _extend_triton,
    "vllm_ascend.ops.triton.rope": _rotate_without_triton,
    "vllm_ascend.device_allocator.camem": _sleep_with_memory,
    "sglang.srt.server_args": _generate_in_order,
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
