"""Runs the plan of an environment on this host, part by part in one folder, without a container."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path

from envbuilder.errors import EnvbuilderError, HostError, UsageError
from envbuilder.files import write_text
from envbuilder.install.journal import Journal
from envbuilder.install.parts import Part, activation, parts_of
from envbuilder.install.repair import packages_in, repair_packages
from envbuilder.language import tr
from envbuilder.network import UV_SETTINGS
from envbuilder.plan import Plan, SourceArchive
from envbuilder.plan.plan import SOURCES
from envbuilder.process import start, undisturbed
from envbuilder.progress import Progress
from envbuilder.render import render_installation

# two files in the folder, and the variable that `activate` sets to the folder
_INSTALLATION, _ACTIVATE, PREFIX = "installation.json", "activate", "ENVBUILDER_PREFIX"
_LAST_LINES = 30


@dataclass(frozen=True)
class Work:
    """A plan to install, its inputs, and the folder to install it in."""

    plan: Plan
    sources: Mapping[str, SourceArchive]
    prefix: Path
    python: str
    # environment variables of the commands, in addition to those of this process
    variables: Mapping[str, str]

    @cached_property
    def parts(self) -> list[Part]:
        return parts_of(self.plan, self.sources, self.prefix)

    @property
    def environment(self) -> dict[str, str]:
        home = self.prefix
        own = {
            "ENVBUILDER_PYTHON": self.python,
            "VIRTUAL_ENV": str(home / "venv"),
            # variables have priority over a user's configuration files
            "UV_PYTHON": str(home / "venv" / "bin" / "python3"),
            "PIP_USER": "0",
            "PATH": f"{home / 'venv' / 'bin'}:{os.environ.get('PATH', '')}",
            # the commands use no device, and loading the backend of one would fail
            "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
        }
        # of a user's configuration of uv, only the indexes apply: they are among the variables
        return {**undisturbed(), "UV_NO_CONFIG": "1", **UV_SETTINGS, **self.variables, **own}


@dataclass(frozen=True)
class Installation:
    """A finished installation: its folder, its environment, and the labels that its image would have."""

    prefix: str
    environment: str
    labels: Mapping[str, str]


def installation_here() -> Installation | None:
    """Return the installation whose `activate` this shell has sourced, or None."""
    prefix = os.environ.get(PREFIX)
    if not prefix:
        return None
    try:
        found = json.loads((Path(prefix) / _INSTALLATION).read_text(encoding="utf-8"))
        return Installation(prefix, str(found["environment"]), dict(found["labels"]))
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise HostError(
            tr("{prefix} holds no finished installation: {reason}", prefix=prefix, reason=error),
            hint=tr("run envbuilder install again to finish it"),
        ) from error


def check_same(prefix: Path, environment: str) -> None:
    """Refuse a folder that holds a finished installation of another environment."""
    try:
        found = json.loads((prefix / _INSTALLATION).read_text(encoding="utf-8"))["environment"]
    except (OSError, ValueError, LookupError, TypeError):
        return
    if found != environment:
        named = {"environment": environment, "prefix": prefix}
        raise UsageError(
            tr("{prefix} holds {found}", prefix=prefix, found=found),
            hint=tr("choose another folder for {environment} with --prefix, or delete {prefix}", **named),
        )


def states(work: Work) -> list[tuple[str, bool]]:
    """Return the title of each part, and whether it is done."""
    journal = Journal(work.prefix)
    same = _mismatch(work, journal) is None
    return [(part.title, same and number < len(journal.done)) for number, part in enumerate(work.parts)]


def install(work: Work, progress: Progress, turn: int) -> Path:
    """Run the parts that are not done yet, and return the file to be sourced afterwards.

    `turn` is the descriptor of the folder's lock, which the started processes inherit.
    """
    journal = _journal(work, progress)
    _write_inputs(work)
    keys = _keys(work.parts)
    progress.expect([part.title for part in work.parts])
    for number, (part, key) in enumerate(zip(work.parts, keys, strict=True)):
        progress.started(part.title)
        if number < len(journal.done):
            progress.ended(part.title, "done before")
            continue
        if journal.begun is not None:
            _clear(work, part, journal, progress)
        journal.begin(key, part.title)
        _run_part(work, part, progress, turn)
        journal.end(key, part.title, packages_in(work.prefix / "venv"))
        progress.ended(part.title, "done")
    return _finish(work)


def _keys(parts: Sequence[Part]) -> list[str]:
    return list(accumulate(parts, lambda before, part: part.key(before), initial=""))[1:]


def _mismatch(work: Work, journal: Journal) -> str | None:
    """Return why an earlier installation cannot be continued, or None if it can."""
    keys = [*_keys(work.parts), ""]
    left = [*journal.done, *([journal.begun] if journal.begun else [])]
    first = next(
        (number for number, (ours, theirs) in enumerate(zip(keys, left, strict=False)) if ours != theirs), None
    )
    if first is not None:
        title = tr(work.parts[first].title) if first < len(work.parts) else tr("the end")
        return (
            tr("the plan has changed since, from '{title}' on", title=title)
            if first
            else tr("the plan has changed since, from '{title}' on, or the folder was moved", title=title)
        )
    if journal.done and not (work.prefix / "venv" / "bin" / "python3").exists():
        return tr("the virtual environment is missing")
    return None


def _journal(work: Work, progress: Progress) -> Journal:
    """Return the journal of the folder; remove an earlier installation that cannot be continued."""
    journal = Journal(work.prefix)
    mismatch = _mismatch(work, journal)
    if mismatch is not None:
        progress.say(tr("{mismatch}: everything is installed again", mismatch=mismatch))
        # the journal last: if this is interrupted, the next run repeats it
        for name in (_INSTALLATION, _ACTIVATE):
            (work.prefix / name).unlink(missing_ok=True)
        for name in ("venv", "src", "wheels"):
            shutil.rmtree(work.prefix / name, ignore_errors=True)
        journal.forget()
    return journal


def _write_inputs(work: Work) -> None:
    """Write the files that the commands read; each time, because that is cheap."""
    for path, text in work.plan.files.items():
        write_text(work.prefix / path, text)
    folder = work.prefix / SOURCES
    folder.mkdir(parents=True, exist_ok=True)
    for source in work.sources.values():
        place = folder / source.archive.name
        if not place.exists() or place.stat().st_size != source.archive.stat().st_size:
            shutil.copyfile(source.archive, place)


def _clear(work: Work, part: Part, journal: Journal, progress: Progress) -> None:
    for name in part.clears:
        shutil.rmtree(work.prefix / name, ignore_errors=True)
    broken = repair_packages(work.prefix / "venv", journal.packages)
    if broken:
        progress.say(tr("incomplete, and installed again: {names}", names=", ".join(broken)))


def _run_part(work: Work, part: Part, progress: Progress, turn: int) -> None:
    lines: list[str] = []
    command = ["bash", "-c", f"set -eo pipefail\n{part.commands}\n"]
    log_file = work.prefix / "install.log"
    with (
        log_file.open("a", encoding="utf-8") as log,
        start(command, variables=work.environment, cwd=work.prefix, inherited=[turn]) as process,
    ):
        log.write(f"==> {part.title}\n")
        assert process.stdout is not None  # noqa: S101
        try:
            for line in process.stdout:
                log.write(line)
                lines = [*lines[-_LAST_LINES:], line.rstrip()]
                progress.said(part.title, line.rstrip())
        except BaseException:
            os.killpg(process.pid, signal.SIGTERM)
            raise
    if process.returncode != 0:
        raise EnvbuilderError(
            "\n".join([tr("'{part}' failed", part=part.title), *(f"  | {line}" for line in lines)]),
            hint=tr("run the same command again to continue; the whole log: {log}", log=log_file),
        )


def _finish(work: Work) -> Path:
    for name in work.plan.discarded_sources:
        shutil.rmtree(work.prefix / "src" / name, ignore_errors=True)
    write_text(work.prefix / _INSTALLATION, render_installation(work.plan) + "\n")
    write_text(work.prefix / _ACTIVATE, activation(work.plan, work.prefix))
    return work.prefix / _ACTIVATE
