"""Tiny git repositories."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path


def git(folder: Path, *arguments: str) -> str:
    names = ["-c", "user.name=t", "-c", "user.email=t@example", "-c", "protocol.file.allow=always"]
    command = ["git", *names, "-C", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def repository(folder: Path, files: dict[str, str], submodules: dict[str, tuple[Path, str]] | None = None) -> str:
    """Make a repository and return its commit; a submodule is cloned from a folder and recorded with an address."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    for path, (place, address) in (submodules or {}).items():
        git(folder, "submodule", "--quiet", "add", str(place), path)
        git(folder, "config", "--file", ".gitmodules", f"submodule.{path}.url", address)
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "x")
    return git(folder, "rev-parse", "HEAD")


def make_bare(folder: Path) -> None:
    """Replace a repository by a bare one, as a mirror holds them."""
    bare = folder.with_suffix(".bare")
    git(folder, "clone", "-q", "--bare", str(folder), str(bare))
    shutil.rmtree(folder)
    bare.rename(folder)
