"""Drafts a row of a release, compares an existing row with a draft, and tries a draft as far as this machine can."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from envbuilder import paths, versions
from envbuilder.cli.arguments import IndexArguments, MatrixFolder, PinArguments, Talk
from envbuilder.cli.console import Console
from envbuilder.cli.json import document
from envbuilder.environment import Catalog, Filters
from envbuilder.errors import EnvbuilderError, NoMatchError, UsageError
from envbuilder.language import counted, tr
from envbuilder.lock.drafts import resolved
from envbuilder.lock.uploads import IndexUploads
from envbuilder.matrix import Matrix
from envbuilder.matrix.model import Branch
from envbuilder.matrix.record import Record
from envbuilder.process import start
from envbuilder.upstream.audit import ComparedPin, compare, differing
from envbuilder.upstream.draft import Drafted, Sources, draft
from envbuilder.upstream.readers import RowTarget
from envbuilder.upstream.row import row_text
from envbuilder.upstream.write import texts, write

_CHECK, _REHEARSAL = "check", "build --rehearse"


class DraftArguments(Record):
    """What is drafted, and where it is read and written."""

    framework: str
    tag: str
    engine: str | None
    hw: str | None
    pins: PinArguments
    git_mirror: str | None
    index: IndexArguments
    matrices: MatrixFolder
    talk: Talk

    @property
    def sources(self) -> Sources:
        uploads = IndexUploads(self.index.open())
        return Sources(uploads, self.git_mirror, paths.cache_folder() / "repositories")

    @property
    def again(self) -> tuple[str, ...]:
        """Return the words that select the row and the matrices on the command line."""
        return (f"{self.framework}-{self.tag}-*", *self.matrices.words)


def hardware_of(matrix: Matrix, given: DraftArguments) -> dict[str, tuple[str, ...]]:
    """Return the engines to draft, each with its hardware: those given, or else those of the newest row."""
    if given.framework not in matrix.frameworks:
        names = ", ".join(matrix.frameworks)
        raise NoMatchError(
            tr("no framework is named '{framework}'", framework=given.framework), hint=tr("known: {names}", names=names)
        )
    if not matrix.frameworks[given.framework].reads:
        raise UsageError(
            tr("{framework} has no rules of reading", framework=given.framework),
            hint=tr("add 'reads' to frameworks/{framework}.yaml", framework=given.framework),
        )
    rows = [item for item in matrix.branches if item.framework == given.framework]
    own = [item for item in rows if item.name == given.tag]
    newest = max(own or rows or matrix.branches, key=lambda item: (item.date, versions.key(item.name)))
    engines = [given.engine] if given.engine else [name for name in newest.engines if matrix.engines[name].reads]
    for name in engines:
        if name not in matrix.engines:
            raise NoMatchError(tr("there is no {what} '{name}'; {hint}", what=tr("engine"), name=name,
                                  hint=tr("known: {names}", names=", ".join(matrix.engines))))  # fmt: skip
    return {name: _hardware(matrix, given, newest, name) for name in engines}


def _hardware(matrix: Matrix, given: DraftArguments, newest: Branch, engine: str) -> tuple[str, ...]:
    if given.hw is None:
        row = newest.engines.get(engine) or next(iter(newest.engines.values()))
        return row.hardware
    known = {name: item for name, item in matrix.hardware.items() if not item.cpu_only}
    names = [name for name, item in known.items() if given.hw in (name, *item.aliases, *item.products)]
    if not names:
        raise NoMatchError(
            tr("no hardware with NPUs is named '{name}'", name=given.hw),
            hint=tr("known: {names}", names=", ".join(known)),
        )
    return tuple(names)


def write_draft(given: DraftArguments, matrix: Matrix, folder: Path, *, json: bool) -> list[Drafted]:
    """Write the row and the entries that it needs, and print their files and what a person has to decide."""
    hardware, console = hardware_of(matrix, given), given.talk.console
    drafts = _drafts(given, matrix, hardware)
    files = write(folder, texts(matrix, drafts, row_text(matrix, drafts, hardware)))
    if json:
        console.data(document(files=[str(file) for file in files], pins=[_pins(drafted) for drafted in drafts]))
    else:
        for file in files:
            console.out(str(file))
        _report(console, drafts)
    return drafts


def _drafts(given: DraftArguments, matrix: Matrix, hardware: Mapping[str, Sequence[str]]) -> list[Drafted]:
    by_hand, sources = given.pins.versions, given.sources
    return [
        draft(matrix, RowTarget(given.framework, given.tag, engine, matrix.hardware[names[0]].family), sources, by_hand)
        for engine, names in hardware.items()
    ]


def _report(console: Console, drafts: Iterable[Drafted]) -> None:
    """Print how many pins have which state, and each that a person has to decide on."""
    for drafted in drafts:
        pins = drafted.pins.values()
        open_ = [pin for pin in pins if pin.status in {"guessed", "undecided"}]
        clean = sum(pin.clean for pin in pins)
        fields = {"engine": drafted.target.engine, "pins": counted(len(drafted.pins), "pin"), "clean": clean}
        console.talk(tr("{engine}: {pins}, of which {clean} are stated and nothing contradicts them", **fields))
        for note in drafted.notes:
            console.talk(f"  {note}")
        for pin in open_:
            console.talk(f"  {pin.component} {pin.version}: {tr(pin.status)}; {pin.because}")


def _pins(drafted: Drafted) -> dict[str, Any]:
    return {
        "engine": drafted.target.engine,
        "notes": list(drafted.notes),
        "pins": {
            name: {
                "version": pin.version, "status": pin.status, "commit": pin.commit, "source": pin.place,
                "because": pin.because or None, "contradictions": list(pin.contradictions),
            }
            for name, pin in drafted.pins.items()
        },
    }  # fmt: skip


def audit(given: DraftArguments, matrix: Matrix, *, json: bool) -> None:
    """Print where a row differs from a draft of it; nothing is written."""
    hardware, console = hardware_of(matrix, given), given.talk.console
    catalog = Catalog(matrix)
    found = {}
    for drafted in _drafts(given, matrix, hardware):
        engine = drafted.target.engine
        filters = Filters(given.framework, given.tag, engine, hardware[engine][0])
        found[engine] = compare(catalog.select((), filters)[0], drafted)
    if json:
        listed = {engine: [_compared(pin) for pin in differing(pins)] for engine, pins in found.items()}
        console.data(document(differences=listed))
        return
    rows = [_row(engine, pin) for engine, pins in found.items() for pin in differing(pins)]
    if rows:
        header = (tr("ENGINE"), tr("COMPONENT"), tr("ROW"), tr("DRAFT"), tr("STATE"), tr("SOURCE"))
        console.table(header, rows)
    for engine, pins in found.items():
        equal = sum(pin.equal for pin in pins)
        console.talk(
            tr("{engine}: {equal} of {pins} are equal", engine=engine, equal=equal, pins=counted(len(pins), "pin"))
        )


def _row(engine: str, pin: ComparedPin) -> tuple[str, ...]:
    if pin.equal and pin.absent:
        state = tr("there is no {source}", source=pin.absent)
    elif pin.equal:
        state = tr("no file states the documented {version}", version=pin.documented or "")
    else:
        state = tr(pin.drafted.status)
    return engine, pin.component, pin.pinned, pin.drafted.version or "-", state, pin.drafted.place or str(pin.where)


def _compared(pin: ComparedPin) -> dict[str, Any]:
    drafted = pin.drafted
    return {
        "component": pin.component, "row": pin.pinned, "draft": drafted.version or None, "status": drafted.status,
        "source": drafted.place or None, "because": pin.because, "contradictions": list(drafted.contradictions),
        "documented": pin.documented, "documented_found": pin.documented_found, "absent_source": pin.absent,
        "where": str(pin.where),
    }  # fmt: skip


def try_draft(given: DraftArguments, folder: Path, matrix: Matrix, drafts: list[Drafted]) -> int:
    """Resolve the ranges of a draft, check, lock and rehearse its row; return the first exit code that is not 0."""
    console, hardware = given.talk.console, hardware_of(matrix, given)
    try:
        done = resolved(matrix, folder, drafts, hardware, given.index.open())
        write(folder, texts(matrix, done, row_text(matrix, done, hardware)))
    except EnvbuilderError as error:
        console.talk(tr("the ranges cannot be resolved: {reason}", reason=error.message))
    mirror = ("--git-mirror", given.git_mirror) if given.git_mirror else ()
    index = ("--index-url", given.index.index_url) if given.index.index_url else ()
    steps = {
        _CHECK: ("check", *given.again),
        f"{_CHECK} --sources": ("check", "--sources", *given.again, *mirror, *index),
        "lock": ("lock", *given.again, *index),
        _REHEARSAL: ("build", "--rehearse", *given.again, *mirror),
    }
    engine = _has_engine()
    codes = {name: _step(console, words) for name, words in steps.items() if name != _REHEARSAL or engine}
    console.section(tr("what was tried"))
    for name in steps:
        console.entry(name, _outcome(codes.get(name)), width=18)
    # `check` refuses every draft
    return next((code for name, code in codes.items() if code and not name.startswith(_CHECK)), 0)


def _step(console: Console, words: Sequence[str]) -> int:
    """Run a command of this program, print its output, and return its exit code."""
    console.heading(" ".join(("envbuilder", *words)))
    program = start([sys.executable, "-m", "envbuilder", *words])
    assert program.stdout is not None  # noqa: S101  `start` asks for it
    for line in program.stdout:
        console.out(line.rstrip("\n"))
    return program.wait()


def _has_engine() -> bool:
    from envbuilder.docker.engine import Docker

    try:
        return bool(Docker().arch)
    except EnvbuilderError:
        return False


def _outcome(code: int | None) -> str:
    if code is None:
        return tr("not run: no engine answers")
    return tr("passed") if code == 0 else tr("exit code {code}", code=code)
