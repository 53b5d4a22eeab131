"""Every example of the READMEs runs, and both READMEs show the same ones."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.conftest import start

ROOT = Path(__file__).resolve().parents[2]


def examples(name: str) -> list[str]:
    text = (ROOT / name).read_text(encoding="utf-8")
    return re.findall(r"^\$ envbuilder (.+)$", text, re.MULTILINE)


@pytest.mark.parametrize("example", examples("README.md"))
def test_the_example_runs(example: str) -> None:
    result = start(*shlex.split(example))
    # a new release may have no lock yet, which other tests report, but no lock may be stale
    without_lock = result.returncode == 3 and "--check" in example and " 0 stale" in result.stderr
    assert result.returncode == 0 or without_lock, result.stderr
    assert result.stdout or result.stderr


def test_both_readmes_have_the_same_examples() -> None:
    assert examples("README.md") == examples("README.zh-CN.md")
    targets = [
        re.findall(r"^    (make \w+)", (ROOT / name).read_text(encoding="utf-8"), re.M)
        for name in ("README.md", "README.zh-CN.md")
    ]
    assert targets[0] == targets[1]
    assert len(targets[0]) == 2


def test_links_of_the_readmes_exist() -> None:
    for name in ("README.md", "README.zh-CN.md", "CONTRIBUTING.md"):
        for link in re.findall(r"\]\(([^)#]+)\)", (ROOT / name).read_text(encoding="utf-8")):
            assert (ROOT / link).exists(), f"{name}: {link}"


def test_ci_calls_the_test_command_of_the_readme() -> None:
    assert "make test" in (ROOT / ".ci/run").read_text(encoding="utf-8")
