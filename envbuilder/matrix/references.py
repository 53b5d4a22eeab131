"""Checks that span several files of a matrix: names that must exist, values that need a reason."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from envbuilder import versions
from envbuilder.errors import Problem, Where
from envbuilder.language import did_you_mean, tr
from envbuilder.matrix.matrix import Rows
from envbuilder.matrix.model import (
    TODO,
    Append,
    Branch,
    Component,
    Engine,
    Framework,
    Hardware,
    Pin,
    Recipe,
    RecipePart,
    RunSpec,
    Setting,
    Settings,
    SettingsFile,
    SizeRule,
    SmokeRun,
    When,
)
from envbuilder.matrix.patterns import pattern_problems

_PLAIN_NAME = re.compile(r"[A-Za-z0-9]+(?:[_.-][A-Za-z0-9]+)*")


def check_rows(rows: Rows, root: Where) -> Iterator[Problem]:
    defaults = rows.root.defaults
    yield from _named(defaults.framework, rows.frameworks, "framework", root)
    yield from _named(defaults.engine, rows.engines, "engine", root)
    yield from _named(defaults.hardware, rows.hardware, "hardware", root)
    for hardware in rows.hardware.values():
        yield from _named(hardware.family, rows.chips.families, "chip family", hardware.where)
        yield from _run_sources(hardware.run, hardware.sources)
        for name in hardware.systems:
            yield from _named(name, rows.root.systems, "operating system", hardware.where)
        if hardware.stand_in_for is not None:
            yield from _named(hardware.stand_in_for, rows.hardware, "hardware", hardware.where)
    for engine in rows.engines.values():
        yield from (item for text in engine.announces for item in pattern_problems(text, engine.where))
    yield from _reads(rows)
    yield from _hardware_names(rows.hardware)
    yield from _run_sources(rows.host.run, rows.host.sources)
    for settings in (rows.host.image, *rows.host.arches.values()):
        yield from _sources(settings, rows.host.sources)
    for branch in rows.branches:
        yield from _row_names(branch, rows)
    owners: tuple[SettingsFile, ...]
    owners = (*rows.hardware.values(), *rows.engines.values(), *rows.frameworks.values(), *rows.branches)
    for owner in owners:
        for part in _parts(owner):
            yield from _sources(part, owner.sources)
            yield from _requirements(part, owner.where)
        for override in owner.overrides:
            yield from _conditions(override.when, rows)


def _reads(rows: Rows) -> Iterator[Problem]:
    """Yield what is wrong with the rules by which releases are read."""
    owners: tuple[Engine | Framework, ...] = (*rows.engines.values(), *rows.frameworks.values())
    known = {read.name for owner in owners for read in owner.reads}
    for owner in owners:
        for read in owner.reads:
            yield from _conditions(read.when, rows)
            yield from pattern_problems(read.skip or "", read.where)
        for name in (name for names in owner.authority.values() for name in names):
            yield from _named(name, known, "rule of reading", owner.where)


def check_smoke_runs(rows: Rows, smoke_runs: Mapping[str, SmokeRun]) -> Iterator[Problem]:
    for name, run in smoke_runs.items():
        yield from _named(name, rows.frameworks, "framework", run.where)
        for part in run.parts:
            yield from _conditions(part.when, rows)


def check_recipes(rows: Rows, recipes: Iterable[Recipe]) -> Iterator[Problem]:
    seen: dict[tuple[str, str], Recipe] = {}
    for item in recipes:
        yield from _named(item.framework, rows.frameworks, "framework", item.where)
        for engine in item.engines:
            yield from _named(engine, rows.engines, "engine", item.where)
        for when in (item.when, *(part.when for part in item.parts)):
            yield from _conditions(when, rows)
        yield from _recipe_terms(item)
        first = seen.setdefault((item.framework, item.recipe), item)
        if first is not item:
            named = {"recipe": item.recipe, "framework": item.framework, "where": first.where}
            yield Problem(item.where, tr("'{recipe}' of {framework} is already at {where}", **named))
    for item in seen.values():
        if item.rules_of is not None and (item.framework, item.rules_of) not in seen:
            named = {"framework": item.framework, "recipe": item.rules_of}
            yield Problem(item.where, tr("{framework} has no recipe '{recipe}' for 'rules_of'", **named))


def _recipe_terms(item: Recipe) -> Iterator[Problem]:
    """Yield the sources that are neither an address nor defined in the file, and the terms that are not a setting."""
    known_sources = ", ".join(item.sources) or tr("none")
    parts: tuple[Recipe | RecipePart | SizeRule, ...] = (item, *item.parts, *item.rules)
    for part in parts:
        if part.source not in item.sources and "/" not in part.source:
            named = {"source": part.source, "sources": known_sources}
            yield Problem(part.where, tr("there is no source '{source}' (the file has: {sources})", **named))
    known = {"npus", "nodes", "devices", *item.settings, *(name for part in item.parts for name in part.settings)}
    for rule in item.rules:
        texts = (rule.of, *(text for text in (rule.by, rule.at_least) if text))
        for term in (term for text in texts for term in text.replace("+ ", "* ").split(" * ")):
            if term.strip() not in known:
                yield Problem(rule.where, tr("'{term}' is not a setting of this recipe", term=term.strip()))


def check_components(components: Mapping[str, Component]) -> Iterator[Problem]:
    for component in components.values():
        if component.kind == "git" and component.repository is None:
            yield Problem(component.where, tr("a git component needs a 'repository'"))
        if component.stated_version:
            yield from pattern_problems(component.stated_version.pattern, component.where)
        for release in component.releases:
            for text in (*release.requires, *release.build_requires, *release.metadata_requires):
                yield from _requirement(text, release.where)


def _hardware_names(hardware: Mapping[str, Hardware]) -> Iterator[Problem]:
    """Yield the names that two of the hardware and products share, as --hw could mean either."""
    seen: dict[str, Where] = {}
    for key, item in hardware.items():
        for name in (key, *item.aliases, *item.products):
            if name in seen:
                message = tr("'{name}' is already a name of the hardware at {where}", name=name, where=seen[name])
                yield Problem(item.where, message)
            seen[name] = item.where


def _row_names(branch: Branch, rows: Rows) -> Iterator[Problem]:
    framework = rows.frameworks[branch.framework]
    for name, row in branch.engines.items():
        yield from _named(name, rows.engines, "engine", row.where)
        for hardware in row.hardware:
            yield from _named(hardware, rows.hardware, "hardware", row.where)
        engine = rows.engines.get(name)
        roles = (framework.component, *((engine.engine, engine.plugin) if engine else ()))
        layers = (row, branch, framework, *((engine,) if engine else ()))
        for role in roles:
            if not any(role in layer.pins for layer in layers):
                message = tr("no pin for '{role}', which every environment of this row needs", role=role)
                yield Problem(row.where, message)
    for issue in branch.known_issues:
        yield from _conditions(issue.when, rows)
        yield from (item for text in issue.messages for item in pattern_problems(text, issue.where))


def _parts(owner: SettingsFile) -> Iterable[Settings]:
    yield owner
    yield from owner.overrides
    if isinstance(owner, Hardware):
        yield from owner.arches.values()
    if isinstance(owner, Branch):
        yield from owner.engines.values()


def _requirements(part: Settings, where: Where) -> Iterator[Problem]:
    for items in (part.requirements, part.build_packages, part.force):
        place = items.where if isinstance(items, Append) else where
        for text in items.append if isinstance(items, Append) else items:
            yield from _requirement(text, place)


def _requirement(text: str, where: Where) -> Iterator[Problem]:
    if _PLAIN_NAME.fullmatch(text):
        return
    # packaging takes long to import
    from envbuilder.requirements import parse

    try:
        parse(text)
    except ValueError as error:
        yield Problem(where, str(error))


def _run_sources(run: RunSpec | None, named: Mapping[str, str]) -> Iterator[Problem]:
    for part in (run, run.multi_node if run else None):
        if part is not None:
            yield from _sources(Settings(variables=part.variables), named)


def _sources(part: Settings, named: Mapping[str, str]) -> Iterator[Problem]:
    pins: list[tuple[str, Pin | Setting]] = [*part.pins.items(), *part.variables.items()]
    for name, value in pins:
        if value.source not in named and "/" not in value.source and value.source != TODO:
            message = tr(
                "'{name}' names the source '{source}', which the file does not define (it defines: {known})",
                name=name,
                source=value.source,
                known=", ".join(named) or tr("none"),
            )
            yield Problem(value.where, message)
        if isinstance(value, Pin) and value.documented is not None and value.because is None and not _agrees(value):
            message = tr("'{name}' differs from the documented version; give the reason with 'because'", name=name)
            yield Problem(value.where, message)


def _agrees(pin: Pin) -> bool:
    documented = pin.documented or ""
    try:
        return versions.satisfies(pin.version, documented)
    except ValueError:  # a version or a remark, not a range
        return versions.same(pin.version, documented)


def _conditions(when: When | None, rows: Rows) -> Iterator[Problem]:
    if when is None:
        return
    for name in when.framework:
        yield from _named(name, rows.frameworks, "framework", when.where)
    for name in when.engine:
        yield from _named(name, rows.engines, "engine", when.where)
    for name in when.hardware:
        yield from _named(name, rows.hardware, "hardware", when.where)
    for name in when.family:
        yield from _named(name, rows.chips.families, "chip family", when.where)


def _named(name: str, known: Iterable[str], what: str, where: Where) -> Iterator[Problem]:
    names = list(known)
    if name not in names:
        hint = did_you_mean(name, names).rstrip() or tr("known: {names}", names=", ".join(sorted(names)))
        yield Problem(where, tr("there is no {what} '{name}'; {hint}", what=tr(what), name=name, hint=hint))
