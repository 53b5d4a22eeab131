"""envbuilder check"""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING

from envbuilder.check import Finding, SourceTree, Wheels, check_environment, check_matrix
from envbuilder.cli import options
from envbuilder.cli.arguments import Dimensions, IndexArguments, MatrixFolder, PinArguments, SourceArguments, Talk
from envbuilder.cli.console import Console
from envbuilder.cli.json import document, finding
from envbuilder.environment import Catalog, Environment
from envbuilder.errors import MatrixError, Where
from envbuilder.language import and_more, counted, tr

if TYPE_CHECKING:
    from envbuilder.inputs.source_archives import SourceOptions
    from envbuilder.inputs.source_trees import SourceTrees


@options.command("check")
@options.identifiers
@options.filters
@options.pins
@options.option("--online", is_flag=True, help="Ask the package index whether each wheel exists.")
@options.option("--sources", "of_sources", is_flag=True, help="Fetch the sources, and check the imports between them.")
@options.index
@options.sources
@options.as_json
@options.matrices
@options.talk
def command(
    identifiers: tuple[str, ...], dimensions: Dimensions, pins: PinArguments, online: bool, of_sources: bool,
    index: IndexArguments, sources: SourceArguments, json_: bool, matrices: MatrixFolder, talk: Talk,
) -> int:  # fmt: skip
    """Check environments against the rules: errors cannot work, warnings work outside the published pairing.

    Errors give exit code 3. Warnings that the row gives a reason for are accepted; -v shows these, and infos, which are
    about expected states.
    """
    console, matrix = talk.console, matrices.load(everything=True)
    environments = dimensions.selected(Catalog(matrix), identifiers, talk, pins.versions)
    findings = check_matrix(matrix)
    wheels = _wheels(environments, index) if online else None
    trees = _trees(environments, sources.options(index), console) if of_sources else None
    for environment in environments:
        read = {**trees.of(environment), **_own(environment, sources.git_mirror)} if trees else None
        findings += check_environment(environment, wheels, read)
    if json_:
        console.data(document(findings=[finding(item) for item in findings]))
    else:
        _print(console, findings, len(environments))
    return MatrixError.exit_code if any(item.severity == "error" for item in findings) else 0


def _wheels(environments: list[Environment], index: IndexArguments) -> Wheels:
    # requests loads slowly, and only --online needs it
    from envbuilder.lock.online import OnlineWheels

    wheels = OnlineWheels(index.open())
    wheels.fetch(environments)
    return wheels


def _trees(environments: list[Environment], sources: SourceOptions, console: Console) -> SourceTrees:
    from envbuilder.inputs.source_trees import SourceTrees

    trees = SourceTrees(sources, console.talk)
    for reason in trees.read(environments):
        console.talk(tr("imports not checked: {reason}", reason=reason), -1)
    return trees


def _own(environment: Environment, git_mirror: str | None) -> dict[str, SourceTree]:
    """Return the source trees that a project has in place of the row's."""
    from envbuilder.project.difference import own_trees

    return own_trees(environment, git_mirror)


def _print(console: Console, findings: list[Finding], count: int) -> None:
    """Print one entry per message of environments, with those that share it, and one per place in the matrices."""
    groups: dict[tuple[str, str, str, str | None, Where | None], list[Finding]] = {}
    for item in findings:
        if item.severity in {"error", "warning"} or console.verbosity > 0:
            own = None if item.environment else item.where
            groups.setdefault((item.severity, item.code, item.message, item.hint, own), []).append(item)
    for (severity, code, message, hint, _), items in groups.items():
        console.out(f"{console.style(f'{tr(severity)}[{code}]', severity)} {message}")
        console.out(f"  --> {items[0].where}")
        if hint:
            console.wrapped(tr("hint: ") + hint, 2)
        names = [item.environment for item in items if item.environment]
        if names and count > 1:
            console.wrapped(tr("in: {environments}", environments=and_more(names[:2], len(names) - 2)), 2)
    counts = Counter(item.severity for item in findings)
    accepted = tr("{number} accepted", number=counts["accepted"])
    words = counted(counts["error"], "error"), counted(counts["warning"], "warning"), accepted
    findings_ = tr(", ").join((*words, counted(counts["info"], "info")))
    text = tr("{environments}: {findings}", environments=counted(count, "environment"), findings=findings_)
    console.talk(console.style(text, "error" if counts["error"] else "title", sys.stderr))
