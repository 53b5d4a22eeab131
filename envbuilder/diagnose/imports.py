"""Judges failed imports of parts of an engine: by the importing package, the installed versions, and the paths."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from envbuilder import versions
from envbuilder.check import Finding, perhaps
from envbuilder.diagnose.claims import MAIN
from envbuilder.diagnose.facts import Facts
from envbuilder.diagnose.report import PastedReport
from envbuilder.environment import Catalog, Environment
from envbuilder.language import tr
from envbuilder.matrix.model import Engine

_ERROR = re.compile(
    r"(?:No module named '(?P<module>\w+)\.[\w.]+'|cannot import name '\w+' from (?:partially initialized module )?"
    r"'(?P<package>\w+)[\w.]*'(?P<nowhere> \(unknown location\))?)"
)
_FILE = re.compile(
    r"(?:site-packages|dist-packages|workspace|/src)/(?:[\w.-]+/)??(?P<package>[a-z_]\w*)/[\w/.]+\.py\", line \d+"
)
_SOURCE = "vllm-project/vllm-ascend issues 834, 1600, 10020"


def judge_imports(catalog: Catalog, facts: Facts, report: PastedReport) -> Iterator[Finding]:
    """Yield why a part of an engine is not found."""
    engines = {item.engine: item for item in catalog.engines.values()}
    for item in engines.values():
        yield from _variable(item, facts, report)
    for match in _ERROR.finditer(report.said):
        engine = match["module"] or match["package"]
        if engine in engines:
            yield _judged(catalog, facts, report, match, engines[engine])
            return


def _variable(engine: Engine, facts: Facts, report: PastedReport) -> Iterator[Finding]:
    """Look for the variable that makes a plugin expect another release of its engine."""
    name, have = engine.version_variable, facts.get(engine.engine)
    if name is None or have is None:
        return
    match = re.search(rf"{name}[\"']?[ \t]*[=:][ \t]*[\"']?v?(?P<version>\d[\w.]*)", report.said)
    if match is None or versions.same(have, match["version"]):
        return
    message = tr(
        "{name} is {version}, and {engine} is {have}: the plugin chooses its code by it",
        name=name,
        version=match["version"],
        engine=engine.engine,
        have=have,
    )
    remedy = tr("`unset {name}`, or set it to the release that an engine built from a commit stands for", name=name)
    yield Finding(
        "error", message, remedy, code="vllm-version-variable", source="vllm-project/vllm-ascend issue 10020",
        lines=tuple(sorted({report.place(match.start()), facts.lines[engine.engine]})), ask=f"env | grep {name}",
    )  # fmt: skip


def _judged(catalog: Catalog, facts: Facts, report: PastedReport, match: re.Match[str], item: Engine) -> Finding:
    engine, plugin = item.engine, item.plugin
    title, lines = catalog.components[engine].title, (report.place(match.start()),)
    if match["nowhere"]:
        message = tr(
            "Python finds a folder named {folder} without the package: the working folder hides "
            "{engine}, or {engine} was only partly removed",
            folder=engine,
            engine=title,
        )
        remedy = tr(
            "start Python in another folder than that of the sources; else pip uninstall -y "
            "{engine}, delete what is left of it in site-packages, and install it again",
            engine=engine,
        )
        return Finding(
            "error", message, remedy, code="shadowed-package", source="vllm-project/vllm-ascend issues 527, 718",
            lines=lines, ask=f'cd / && python -c "import {engine}; print({engine}.__path__)"',
        )  # fmt: skip
    is_pair = _is_pair(catalog, facts, engine, plugin)
    if is_pair:
        cause = tr(
            "{engine} and its plugin are a published pair, so another copy of one of them is imported, "
            "or a variable names another release",
            engine=title,
        )
        return Finding(
            "warning",
            perhaps(cause),
            tr("unset variables that name a version of it, and remove editable installs of other checkouts"),
            code="engine-packaging",
            source=_SOURCE,
            lines=lines,
            ask=f'python -c "import {engine}; print({engine}.__file__, {engine}.__version__)"',
        )
    importers = _FILE.findall(report.said[: match.start()][-4000:])
    is_ours = bool(importers) and importers[-1] in {plugin, *(item.component for item in catalog.frameworks.values())}
    certain = is_ours and is_pair is False
    cause = tr(
        "an import needs a part of {engine} that this release does not have, so {engine} and "
        "the packages built on it are not of one row",
        engine=title,
    )
    remedy = tr("take plugin, engine and framework from one row; `envbuilder list` names them")
    return Finding(
        "error" if certain else "warning", cause if certain else perhaps(cause), remedy, code="engine-too-old",
        source=_SOURCE, lines=lines, ask=f"pip list | grep -i {engine}",
    )  # fmt: skip


def _is_row(row: Environment, known: Mapping[str, str]) -> bool:
    return all((pin := row.version(name)) is not None and versions.same(pin, value) for name, value in known.items())


def _is_pair(catalog: Catalog, facts: Facts, engine: str, plugin: str) -> bool | None:
    """Return whether the plugin is published for this engine, or None if the report or the tables do not show it."""
    have, own = facts.get(engine), facts.get(plugin)
    if have is None or own is None:
        return None
    if own == MAIN:
        return False
    for name in (item.component for item in catalog.frameworks.values()):
        # a framework may need a later engine than this pair
        rows = [row for row in catalog.environments if row.framework.component == name and row.engine.engine == engine]
        if name in facts and not any(_is_row(row, {name: facts[name], engine: have}) for row in rows):
            return None
    release = catalog.components[plugin].release(own)
    if release is None or engine not in release.paired:
        return None
    return any(versions.in_family(have, item) for item in release.paired[engine])
