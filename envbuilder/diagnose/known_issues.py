"""Finds the known issues of rows that a report shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from envbuilder import versions
from envbuilder.check import Finding, perhaps
from envbuilder.diagnose.claims import MAIN
from envbuilder.diagnose.report import PastedReport
from envbuilder.environment import Catalog, Environment
from envbuilder.language import tr
from envbuilder.matrix.model import KnownIssue

CODE = "known-issue"


def judge_known_issues(catalog: Catalog, facts: Mapping[str, str], report: PastedReport) -> Iterator[Finding]:
    """Yield each known issue whose messages are in the report; certain if the report has a release with it."""
    for issue, rows in issues_with_messages(catalog):
        if (at := issue.place_in(report.said)) is None:
            continue
        component = rows[0].framework.component
        found = facts.get(component, MAIN)
        having = [row for row in rows if versions.same(row.version(component) or "", found)]
        if found != MAIN and not having:
            continue
        releases = tr(", ").join(dict.fromkeys(row.branch.title for row in having or rows))
        what, workaround = (" ".join(text.split()) for text in (issue.what, issue.workaround or ""))
        message = tr("{releases}: {issue}", releases=releases, issue=tr(what))
        yield Finding(
            "error" if having else "warning", message if having else perhaps(message),
            tr(workaround) if workaround else None, code=CODE, source=issue.source, lines=(report.place(at),),
        )  # fmt: skip


def issues_with_messages(catalog: Catalog) -> Iterator[tuple[KnownIssue, list[Environment]]]:
    """Yield the known issues that show themselves in messages, each with the environments that have it."""
    found: dict[str, tuple[KnownIssue, list[Environment]]] = {}
    for row in catalog.environments:
        for issue in row.known_issues:
            if issue.messages:
                found.setdefault(issue.what, (issue, []))[1].append(row)
    yield from found.values()
