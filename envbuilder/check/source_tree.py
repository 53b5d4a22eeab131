"""Python source trees: their modules with imports and definitions, read from syntax trees only."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from envbuilder.matrix.model import CPU, GPU, NPU

# the names with which code tests for a device, such as `_is_npu` and `is_cuda_available()`
_NAMES = (NPU, CPU, GPU, "cuda", "hip", "rocm", "xpu", "hpu", "tpu", "musa", "mps")
_DEVICE = re.compile(rf"(?:^|_)is_({'|'.join(_NAMES)})(?:_|$)")


@dataclass(frozen=True)
class Import:
    """The import of one name from a module, or of the module itself if `name` is None."""

    module: str
    name: str | None
    line: int
    # whether it always runs when the importing module is imported, and its failure is not handled
    hard: bool


class SourceModule:
    """One Python file of a source tree."""

    def __init__(self, name: str, path: str, text: bytes) -> None:
        self.name = name
        self.path = path
        self._text = text
        self._found: dict[bool, tuple[Import, ...]] = {}

    def imports(self, *, on_npu: bool) -> tuple[Import, ...]:
        # syntax trees are not kept: they are large, and few modules need theirs again
        if on_npu not in self._found:
            self._found[on_npu] = tuple(self._imports(_parse(self._text).body, True, on_npu))
        return self._found[on_npu]

    @cached_property
    def names(self) -> frozenset[str]:
        """Return every name that the module can define; `__getattr__` means any name."""
        found: set[str] = set()
        tree = _parse(self._text)
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) or (isinstance(node, _FUNCTIONS) and node.name != "__getattr__"):
                found.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.add(node.id)
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                found |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
        # in a class, __getattr__ means something else
        return frozenset(found | {node.name for node in tree.body if isinstance(node, _FUNCTIONS)})

    @cached_property
    def wholly_imported(self) -> tuple[str, ...]:
        """Return the modules of `from ... import *`."""
        found = (*self.imports(on_npu=True), *self.imports(on_npu=False))
        return tuple({item.module for item in found if item.name == "*"})

    def _absolute(self, node: ast.ImportFrom) -> str:
        """Return the full name of the module that `from ... import` names."""
        if not node.level:
            return node.module or ""
        parts = self.name.split(".")
        above = node.level - self.path.endswith("__init__.py")
        return ".".join((*parts[: len(parts) - above], *filter(None, (node.module,))))

    def _imports(self, body: list[ast.stmt], hard: bool, on_npu: bool) -> Iterator[Import]:
        for node in body:
            if isinstance(node, ast.Import):
                yield from (Import(alias.name, None, node.lineno, hard) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                module = self._absolute(node)
                yield from (Import(module, alias.name, node.lineno, hard) for alias in node.names)
            elif isinstance(node, ast.If):
                holds = _holds(node.test, on_npu)
                if holds is not False:
                    yield from self._imports(node.body, hard and holds is True, on_npu)
                if holds is not True:
                    yield from self._imports(node.orelse, hard and holds is False, on_npu)
            elif isinstance(node, (ast.ClassDef, ast.With)):
                yield from self._imports(node.body, hard, on_npu)
            else:
                # a function may never run, and `try` may handle the failure
                for name in ("body", "orelse", "finalbody"):
                    yield from self._imports(getattr(node, name, []), False, on_npu)
                for handler in getattr(node, "handlers", []):
                    yield from self._imports(handler.body, False, on_npu)


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def _parse(text: bytes) -> ast.Module:
    """Return the syntax tree; a file for a newer Python seems to import nothing and to define any name."""
    with warnings.catch_warnings():
        # the code is not ours
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text)
        except SyntaxError:
            return ast.parse("def __getattr__(name): ...")


def _holds(test: ast.expr, on_npu: bool) -> bool | None:
    """Return whether a condition holds on this hardware; None if that is unknown."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _holds(test.operand, on_npu)
        return None if inner is None else not inner
    if isinstance(test, ast.BoolOp):
        answers = [_holds(value, on_npu) for value in test.values]
        decisive = isinstance(test.op, ast.Or)
        return decisive if decisive in answers else None if None in answers else not decisive
    tested = test.func if isinstance(test, ast.Call) else test
    name = tested.attr if isinstance(tested, ast.Attribute) else tested.id if isinstance(tested, ast.Name) else ""
    device = _DEVICE.search(name)
    if device is None:
        return False if name == "TYPE_CHECKING" else None
    return on_npu if device[1] == NPU else False if on_npu else None


class SourceTree:
    """The Python packages of one component."""

    def __init__(self, files: Mapping[str, bytes], packages: tuple[str, ...]) -> None:
        """`packages` are folders of the tree."""
        found = (_module(folder, path, text) for path, text in files.items() for folder in packages)
        self.modules = {module.name: module for module in found if module}
        self.tops = frozenset(name.partition(".")[0] for name in self.modules)
        # packages may lack __init__.py
        self.folders = frozenset(
            name.rsplit(".", depth)[0] for name in self.modules for depth in range(1, name.count(".") + 1)
        )

    def has(self, name: str) -> bool:
        return name in self.modules or name in self.folders


def _module(folder: str, path: str, text: bytes) -> SourceModule | None:
    if not (path.startswith(f"{folder}/") and path.endswith(".py")):
        return None
    inner = path[folder.rfind("/") + 1 :].removesuffix(".py").removesuffix("/__init__")
    return SourceModule(inner.replace("/", "."), path, text)
