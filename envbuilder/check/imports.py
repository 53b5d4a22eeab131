"""The rule on imports between source trees: what one component imports from another at the pinned releases."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from envbuilder.check.finding import Finding
from envbuilder.check.rule import RuleContext, rule
from envbuilder.check.source_tree import Import, SourceModule, SourceTree
from envbuilder.language import tr
from envbuilder.matrix.model import NPU, Severity


class _Missing(NamedTuple):
    """An import that fails, in a module that the environment imports."""

    owner: str
    module: SourceModule
    imported: Import
    provider: str
    severity: Severity


@rule("import-missing")
def import_missing(context: RuleContext) -> Iterator[Finding]:
    """A module that this row uses imports a name that another component of the row does not define.

    Only `check --sources` has the source trees. An import that always runs is an error; in a module that the engine
    skips when it fails, such as one of its models, it is a warning; within a function or `try` it is an info, because
    it may never run or may handle the failure.
    """
    if context.trees is None:
        return
    uses = context.environment.used_modules()
    world = _World(context.trees, on_npu=context.provides(NPU))
    for name in uses.modules:
        owner = world.owner(name)
        if owner is not None and not context.trees[owner].has(name):
            named = {"component": context.shown(owner), "name": name}
            yield context.finding("error", tr("{component} has no module {name}, which the row uses", **named), owner)
    for item in world.missing(uses.modules, uses.scanned):
        missing = item.imported
        what = (
            tr("{name} of {module}", name=missing.name, module=missing.module)
            if missing.name
            else tr("the module {module}", module=missing.module)
        )
        named = {"owner": context.shown(item.owner), "what": what, "provider": context.shown(item.provider)}
        message = tr("{owner} imports {what}, which {provider} does not have", **named)
        hint = tr("{path}:{line}; pin releases of both that fit", path=item.module.path, line=missing.line)
        yield context.finding(item.severity, message, item.owner, item.provider, hint=hint, of_versions=False)


class _World:
    """All source trees of an environment."""

    def __init__(self, trees: Mapping[str, SourceTree], *, on_npu: bool) -> None:
        self._trees = trees
        self._owners = {top: name for name, tree in trees.items() for top in tree.tops}
        self._on_npu = on_npu

    def owner(self, module: str) -> str | None:
        return self._owners.get(module.partition(".")[0])

    def missing(self, used: Iterable[str], scanned: Iterable[str]) -> Iterator[_Missing]:
        """Yield the failing imports of the used modules, of all modules that they import, and of scanned packages."""
        seen: set[str] = set()
        yield from self._walk(used, seen, "error")
        tried = (
            name
            for package in scanned
            if (owner := self.owner(package))
            for name in self._trees[owner].modules
            if name.startswith(f"{package}.")
        )
        yield from self._walk(tried, seen, "warning")

    def _walk(self, names: Iterable[str], seen: set[str], severity: Severity) -> Iterator[_Missing]:
        waiting = [part for name in names for part in _with_parents(name)]
        while waiting:
            name = waiting.pop()
            owner = self.owner(name)
            module = self._trees[owner].modules.get(name) if owner else None
            if owner is None or module is None or name in seen:
                continue
            seen.add(name)
            for item in module.imports(on_npu=self._on_npu):
                provider = self.owner(item.module)
                if provider is None:
                    continue
                if provider != owner and not self._has(provider, item):
                    yield _Missing(owner, module, item, provider, severity if item.hard else "info")
                if item.hard:
                    waiting += _with_parents(f"{item.module}.{item.name}" if item.name else item.module)

    def _has(self, provider: str, item: Import) -> bool:
        tree = self._trees[provider]
        if not tree.has(item.module):
            return False
        if item.name in {None, "*"} or tree.has(f"{item.module}.{item.name}"):
            return True
        names = self._names(item.module, set())
        return item.name in names or "__getattr__" in names

    def _names(self, module: str, seen: set[str]) -> set[str]:
        """Return the names of a module with those of the modules from which it imports `*`."""
        owner = self.owner(module)
        found = self._trees[owner].modules.get(module) if owner else None
        if found is None or module in seen:
            return set()
        seen.add(module)
        return set(found.names).union(*(self._names(other, seen) for other in found.wholly_imported))


def _with_parents(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts) + 1)]
