"""Invented releases of OpenRLHF in a folder of matrices, to test which one is the default."""

from __future__ import annotations

import shutil
from pathlib import Path

from envbuilder import paths
from envbuilder.matrix import evidence


def invent(folder: Path, *branches: str) -> None:
    """Write rows, as copies of a real one, over the built-in matrices."""
    rows = folder / "frameworks" / "openrlhf"
    rows.mkdir(parents=True)
    for name in branches:
        shutil.copy(paths.matrices() / "frameworks" / "openrlhf" / "v0.7.5.yaml", rows / f"{name}.yaml")


def lock(folder: Path, branch: str, arch: str = "aarch64") -> None:
    (folder / "locks" / "openrlhf" / branch / f"vllm-a2-{arch}").mkdir(parents=True, exist_ok=True)


def rehearse(folder: Path, branch: str, arch: str = "aarch64", depth: str = "engine") -> None:
    """Record a rehearsal of a release, which needs a lock."""
    lock(folder, branch, arch)
    evidence.record(folder, f"openrlhf/{branch}/vllm-a2-{arch}", "rehearsed", details={"depth": depth})
