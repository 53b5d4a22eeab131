"""Packages of which an interrupted installation has left only a part: forgotten, so that they are installed again."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Collection
from pathlib import Path


def mend(venv: Path, whole: Collection[str]) -> list[str]:
    """The packages that are not whole. An installer believes the folder of their metadata, so that goes. Those that
    were installed before are left alone: what a wheel says of its own files may be wrong."""
    broken = []
    for metadata in _metadata(venv):
        if metadata.name not in whole and not _is_whole(metadata.parent, metadata):
            shutil.rmtree(metadata)
            broken.append(metadata.name.removesuffix(".dist-info"))
    return broken


def packages_in(venv: Path) -> list[str]:
    return [metadata.name for metadata in _metadata(venv)]


def _metadata(venv: Path) -> list[Path]:
    return sorted(venv.glob("lib/python*/site-packages/*.dist-info"))


def _is_whole(packages: Path, metadata: Path) -> bool:
    """Whether everything is there that it says it has, in the size that it says."""
    try:
        rows = csv.reader((metadata / "RECORD").read_text(encoding="utf-8").splitlines())
        return (metadata / "METADATA").is_file() and all(_is_there(packages, row) for row in rows)
    except (OSError, ValueError, csv.Error):
        # a power cut leaves files of the right length that hold nothing
        return False


def _is_there(packages: Path, row: list[str]) -> bool:
    if not row or row[0].endswith(".pyc"):
        return True
    size = (packages / row[0]).stat().st_size
    return len(row) <= 2 or not row[2].isdecimal() or int(row[2]) == size
