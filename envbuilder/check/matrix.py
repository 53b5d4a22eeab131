"""Rules on the matrices as a whole."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from envbuilder import versions
from envbuilder.check.finding import Finding
from envbuilder.check.rule import matrix_rule
from envbuilder.errors import Where
from envbuilder.language import tr
from envbuilder.matrix import Matrix
from envbuilder.matrix.model import TODO
from envbuilder.matrix.reader import MappingNode, Node, ScalarNode, SequenceNode, place, read


@matrix_rule("duplicate")
def duplicate(matrix: Matrix) -> Iterator[Finding]:
    """A release is listed twice, a row names one hardware twice, or two branches are the same version."""
    for component in matrix.components.values():
        releases: dict[Hashable, Where] = {}
        for release in component.releases:
            what = f"{component.title} {release.version}"
            yield from _repeated(releases, versions.key(release.version), release.where, what, component.name)
    branches: dict[Hashable, Where] = {}
    for branch in matrix.branches:
        version = branch.framework, versions.key(branch.name)
        yield from _repeated(branches, version, branch.where, branch.title, branch.framework)
        for engine, row in branch.engines.items():
            hardware: dict[Hashable, Where] = {}
            for name in row.hardware:
                what = tr("{name} in {branch} with {engine}", name=name, branch=branch.title, engine=engine)
                yield from _repeated(hardware, name, row.where, what, name)


@matrix_rule("branch-name")
def branch_name(matrix: Matrix) -> Iterator[Finding]:
    """The name of a branch's file differs from the version of the framework that it pins."""
    for branch in matrix.branches:
        component = matrix.frameworks[branch.framework].component
        for part in (branch, *branch.engines.values()):
            pin = part.pins.get(component)
            if pin is not None and not versions.same(pin.version, branch.name):
                message = tr(
                    "{framework}/{branch}.yaml pins {component} {version}",
                    framework=branch.framework,
                    branch=branch.name,
                    component=component,
                    version=pin.version,
                )
                hint = tr("rename the file to {version}.yaml, or pin {branch}", version=pin.version, branch=branch.name)
                yield Finding("error", message, hint, components=(component,), where=pin.where)


@matrix_rule("unused-hardware")
def unused_hardware(matrix: Matrix) -> Iterator[Finding]:
    """No row names the hardware, so it has no environments; one without NPUs belongs to every row."""
    used = {name for branch in matrix.branches for row in branch.engines.values() for name in row.hardware}
    for name, hardware in matrix.hardware.items():
        if name not in used and not hardware.cpu_only:
            named = {"name": name, "hardware": hardware.title}
            message = tr("no row names the hardware {name}, so {hardware} has no environments", **named)
            hint = tr("add it to the hardware of a row in frameworks/")
            yield Finding("warning", message, hint, components=(name,), where=hardware.where)


@matrix_rule("todo")
def todo(matrix: Matrix) -> Iterator[Finding]:
    """A value is still TODO: `matrix init` writes this for every value to look up for a new release."""
    for file in matrix.files.values():
        # reading YAML takes long, and few files have a TODO
        if TODO.encode() in file.path.read_bytes() and (root := read(file.path, file.shown, [])):
            for path, node in _marked(root, ()):
                message = f"{'.'.join(path)} is {' '.join(node.value.split())}"
                yield Finding("error", message, where=place(node, file.shown))


@matrix_rule("draft")
def draft(matrix: Matrix) -> Iterator[Finding]:
    """A row is a draft, or a pin is guessed or undecided: a person has to decide on it, and remove the mark."""
    for branch in matrix.branches:
        if branch.status == "draft":
            message, hint = (
                tr("{row} is a draft", row=branch.title),
                tr("compare it with its sources; then remove 'status'"),
            )
            yield Finding("error", message, hint, where=branch.where)
        for part in (branch, *branch.engines.values(), *branch.overrides):
            for name, pin in part.pins.items():
                if pin.draft:
                    named = {"name": name, "version": pin.version, "state": tr(pin.draft)}
                    message = tr("{name} {version} is {state}", **named)
                    hint = tr("decide on a version, write its reason, and remove 'draft'")
                    yield Finding("error", message, hint, components=(name,), where=pin.where)


def _marked(node: Node, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], ScalarNode]]:
    """Yield the values that are TODO, each with the keys that lead to it."""
    if isinstance(node, ScalarNode) and node.value.partition(":")[0] == TODO:
        yield path, node
    elif isinstance(node, SequenceNode):
        for item in node.value:
            yield from _marked(item, path)
    elif isinstance(node, MappingNode):
        for key, item in node.value:
            yield from _marked(item, (*path, key.value))


def _repeated(seen: dict[Hashable, Where], key: Hashable, where: Where, what: str, component: str) -> Iterator[Finding]:
    if key in seen:
        message, hint = tr("{what} is listed twice", what=what), tr("first at {where}", where=seen[key])
        yield Finding("error", message, hint, components=(component,), where=where)
    seen.setdefault(key, where)
