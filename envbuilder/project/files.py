"""The files of a project that its image has copies of."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from envbuilder.environment.additions import Additions


def lay_out_files(additions: Additions, folder: Path) -> None:
    """Copy the files into a build context, numbered in the order of the project's file."""
    for number, source in enumerate(additions.files, 1):
        path, target = additions.folder / source, folder / str(number)
        folder.mkdir(exist_ok=True)
        if path.is_dir():
            shutil.copytree(path, target, symlinks=True)
        else:
            shutil.copy(path, target)


def hashes_of_files(additions: Additions) -> Iterator[tuple[str, str]]:
    """Yield the path of each file in the image, with its SHA-256."""
    for source, target in additions.files.items():
        path = additions.folder / source
        for item in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if item.is_file() and not item.is_symlink():
                inner = "" if item == path else f"/{item.relative_to(path)}"
                yield f"{target}{inner}", hashlib.sha256(item.read_bytes()).hexdigest()
