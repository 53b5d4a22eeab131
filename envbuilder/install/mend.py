"""Packages of which an interrupted installation has left only a part: forgotten, so that they are installed again."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path


def mend(venv: Path) -> list[str]:
    """The packages that were not whole. An installer believes the folder of their metadata, so that goes."""
    broken = []
    for packages in sorted(venv.glob("lib/python*/site-packages")):
        for metadata in sorted(packages.glob("*.dist-info")):
            if not _is_whole(packages, metadata):
                shutil.rmtree(metadata)
                broken.append(metadata.name.removesuffix(".dist-info"))
    return broken


def _is_whole(packages: Path, metadata: Path) -> bool:
    """Whether everything is there that it says it has, in the size that it says."""
    try:
        text = (metadata / "RECORD").read_text(encoding="utf-8")
    except OSError:
        return False
    for row in csv.reader(text.splitlines()):
        if not row or row[0].endswith(".pyc"):
            continue
        try:
            size = (packages / row[0]).stat().st_size
        except OSError:
            return False
        if len(row) > 2 and row[2].isdecimal() and int(row[2]) != size:
            return False
    return (metadata / "METADATA").is_file()
