"""Names of architectures, and the NPUs of this machine."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from envbuilder import platforms


@pytest.mark.parametrize(
    ("name", "expected"), [("amd64", "x86_64"), ("arm64", "aarch64"), ("x86_64", "x86_64"), ("riscv64", "riscv64")]
)
def test_an_architecture_has_one_name(name: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert platforms.arch(name) == expected
    monkeypatch.setattr(platform, "machine", lambda: name)
    assert platforms.arch() == expected
    assert platforms.cpu_features().split()[0] == expected


def test_npus_are_sorted_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [Path(f"/dev/davinci{number}") for number in (10, 2, 0)]
    monkeypatch.setattr(Path, "glob", lambda folder, pattern: iter(nodes))
    assert [path.name for path in platforms.npus()] == ["davinci0", "davinci2", "davinci10"]
