"""A stand-in of pyACL, with the functions that vllm-ascend and Ray call."""

from __future__ import annotations

import ctypes
import sys
from types import ModuleType

_library = ctypes.CDLL("libascendcl.so")
_library.aclrtGetSocName.restype = ctypes.c_char_p
# `acl.rt` is imported as a module
__path__: list[str] = []


def init(config: str | None = None) -> int:
    return int(_library.aclInit(None))


def finalize() -> int:
    return int(_library.aclFinalize())


def get_soc_name() -> str:
    return bytes(_library.aclrtGetSocName()).decode()


def _device_count() -> tuple[int, int]:
    count = ctypes.c_uint32()
    code = _library.aclrtGetDeviceCount(ctypes.byref(count))
    return count.value, code


def _memcpy(to: int, most: int, source: int, size: int, kind: int) -> int:
    places = (ctypes.c_void_p(to), ctypes.c_size_t(most), ctypes.c_void_p(source), ctypes.c_size_t(size))
    return int(_library.aclrtMemcpy(*places, kind))


rt = ModuleType("acl.rt")
rt.get_device_count, rt.get_soc_name, rt.memcpy = _device_count, get_soc_name, _memcpy  # type: ignore[attr-defined]
sys.modules["acl.rt"] = rt
