"""Finds packages that an interrupted installation left incomplete, so that they are installed again."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Collection
from pathlib import Path


def repair_packages(venv: Path, whole: Collection[str]) -> list[str]:
    """Remove the metadata of incomplete packages, and return their names.

    For an installer, a package with metadata is installed. The packages in `whole` are not checked, because the list of
    files in a wheel may be wrong.
    """
    broken = []
    for metadata in _metadata(venv):
        if metadata.name not in whole and not _is_whole(metadata):
            shutil.rmtree(metadata)
            broken.append(metadata.name.removesuffix(".dist-info"))
    return broken


def packages_in(venv: Path) -> list[str]:
    return [metadata.name for metadata in _metadata(venv)]


def _metadata(venv: Path) -> list[Path]:
    return sorted(venv.glob("lib/python*/site-packages/*.dist-info"))


def _is_whole(metadata: Path) -> bool:
    """Return whether all files of a package exist, with the size that its metadata records."""
    try:
        rows = csv.reader((metadata / "RECORD").read_text(encoding="utf-8").splitlines())
        return (metadata / "METADATA").is_file() and all(_is_complete(metadata.parent, row) for row in rows)
    except (OSError, ValueError, csv.Error):
        # after a power failure, RECORD may have the right length and contain only zeros
        return False


def _is_complete(packages: Path, row: list[str]) -> bool:
    if not row or row[0].endswith(".pyc"):
        return True
    size = (packages / row[0]).stat().st_size
    return len(row) <= 2 or not row[2].isdecimal() or int(row[2]) == size
