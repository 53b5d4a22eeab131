"""Writes an environment, and links to its sources, as Markdown for issues and documents."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from urllib.parse import quote

from envbuilder.environment import Environment
from envbuilder.environment.proof import PROVES
from envbuilder.language import tr
from envbuilder.plan import Plan

# owner/repository@commit:path#lines, where path and lines may be missing
_FILE = re.compile(r"(?P<repository>[\w.-]+/[\w.-]+)@(?P<ref>[\w./+-]+?)(:(?P<path>[^#]+?)(?P<lines>#L[\d-]+L?\d*)?)?")
_THREAD = re.compile(r"(?P<repository>[\w.-]+/[\w.-]+)#(?P<number>\d+)")
# every sign of an address except those that end a link
_ADDRESS = ":/?#[]@!$&'*+,;=%~"
_HOST = "https://github.com"
# releases of the package index, and packages of a distribution
_PACKAGES = ("pypi/", "debian/")


def escaped(text: str) -> str:
    """Return a text whose HTML is shown, and not obeyed, outside of `code`."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else html.escape(part, quote=False) for part in parts)


def code(text: str) -> str:
    """Return any text as code in a line, within more backquotes than it has."""
    fence = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    return f"{fence} {text} {fence}" if "`" in text else f"`{text}`"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def address(source: str) -> str | None:
    """Return the web address of a source, or of its first file; None for a package."""
    if source.startswith(_PACKAGES):
        return None
    source = source.partition(", ")[0]
    if "://" in source:
        return source
    if thread := _THREAD.fullmatch(source):
        return f"{_HOST}/{thread['repository']}/issues/{thread['number']}"
    if file := _FILE.fullmatch(source):
        if file["path"] is None:
            return f"{_HOST}/{file['repository']}/tree/{file['ref']}"
        return f"{_HOST}/{file['repository']}/blob/{file['ref']}/{quote(file['path'])}{file['lines'] or ''}"
    # a page of another host, without its scheme
    return f"https://{source}" if "." in source.partition("/")[0] and " " not in source else None


def link(text: str, source: str) -> str:
    found = address(source)
    return f"[{text}]({quote(found, safe=_ADDRESS)})" if found else f"{text} ({escaped(source)})"


def environment_table(environment: Environment, plan: Plan) -> str:
    pins = [
        (
            f"`{pin.name}`",
            f"`{pin.full}`",
            escaped(pin.documented or ""),
            escaped(" ".join((pin.because or "").split())),
            link(tr("source"), pin.source),
        )
        for pin in environment.pins.values()
    ]
    proven = environment.proven
    status = f"`{proven}`, {tr(PROVES[proven])}" if proven else tr("nothing recorded")
    facts = [tr("- base image: {image}", image=f"`{plan.base_image}`"), tr("- status: {level}", level=status)]
    for issue in environment.known_issues:
        what = " ".join(issue.what.split())
        if issue.workaround:
            what = tr("{what} Workaround: {workaround}", what=what, workaround=issue.workaround)
        facts.append(tr("- known issue: {what} {source}", what=escaped(what), source=link(tr("source"), issue.source)))
    commands = (f"$ envbuilder {name} {environment.id}" for name in ("show", "build"))
    header = (tr("component"), tr("version"), tr("documented as"), tr("reason"), "")
    shell = ("```console", *commands, "```")
    return "\n\n".join((f"### {escaped(plan.title)}", table(header, pins), "\n".join(facts), "\n".join(shell)))
