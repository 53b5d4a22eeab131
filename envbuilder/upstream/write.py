"""Writes a drafted row and the entries of compat tables that it needs: all of them, or none."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from envbuilder import paths, versions
from envbuilder.files import workspace, write_text
from envbuilder.matrix import Matrix, load
from envbuilder.upstream.draft import Drafted
from envbuilder.upstream.entries import NewEntry, new_entries

_RELEASE = re.compile(r"- \{?version: '?([^',}\s]+)")


def texts(matrix: Matrix, drafts: Sequence[Drafted], row: str) -> dict[str, str]:
    """Return the files of a draft by their paths in the matrices."""
    target = drafts[0].target
    found = {f"frameworks/{target.framework}/{target.branch}.yaml": row}
    for entry in {(item.component, item.version): item for drafted in drafts for item in new_entries(drafted)}.values():
        name = f"compat/{entry.component}.yaml"
        text = found.get(name) or matrix.files[name].path.read_text(encoding="utf-8")
        found[name] = with_entry(text, entry)
    return found


def with_entry(text: str, entry: NewEntry) -> str:
    """Return a compat table with one more release, in the order of versions, or in place of its candidate."""
    lines = ["releases:" if line == "releases: []" else line for line in text.splitlines()]
    starts = [(number, found[1]) for number, line in enumerate(lines) if (found := _RELEASE.match(line))]
    stub = next((number for number, version in starts if versions.same(version, entry.version)), None)
    if stub is not None:
        del lines[stub]
        at = stub
    else:
        later = (number for number, version in starts if versions.key(version) > versions.key(entry.version))
        at = next(later, len(lines))
    lines[at:at] = entry.text.splitlines()
    return "\n".join(lines) + "\n"


@contextmanager
def on_trial(folder: Path, files: Mapping[str, str]) -> Iterator[Path]:
    """Make a copy of a folder of matrices that has other files, too; the folder stays as it is."""
    with workspace() as trial:
        if folder.resolve() != paths.matrices().resolve():
            for source in folder.rglob("*.yaml"):
                place = trial / source.relative_to(folder)
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, place)
        for name, text in files.items():
            write_text(trial / name, text)
        yield trial


def write(folder: Path, files: Mapping[str, str]) -> list[Path]:
    """Write files into a folder of matrices; if they are not valid there, none is written."""
    with on_trial(folder, files) as trial:
        load(trial, everything=True)
    written = [folder / name for name in files]
    for path, text in zip(written, files.values(), strict=True):
        write_text(path, text)
    return written
