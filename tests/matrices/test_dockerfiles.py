"""The committed build contexts: current, complete, free of findings of hadolint, and readable."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import start, succeeded
from tests.helpers.rendered import instructions

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILES = sorted((ROOT / "dockerfiles").glob("*/*/*/Dockerfile"))
LONGEST_LINE = 120
# commands that reach the network, unless an option restricts them to local files
NETWORK = re.compile(r"\b(git fetch|apt-get update|bash build.sh|(?:uv )?pip (?:install|wheel)\b(?![^&]*--no-index))")


def test_dockerfiles_are_current() -> None:
    succeeded(start("render", "--all", "-o", str(ROOT / "dockerfiles"), "--check"))


@pytest.mark.slow
def test_hadolint_has_no_findings() -> None:
    assert DOCKERFILES
    hadolint = Path(sys.executable).with_name("hadolint")
    command = [str(hadolint), "--no-color", *map(str, DOCKERFILES)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout


def test_no_line_is_too_long_to_read() -> None:
    lines = {path: path.read_text(encoding="utf-8").splitlines() for path in DOCKERFILES}
    long = [
        f"{path}:{number}"
        for path, text in lines.items()
        for number, line in enumerate(text, 1)
        if len(line) > LONGEST_LINE
    ]
    assert long == []


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: "-".join(path.parts[-4:-1]))
def test_dockerfiles_are_plain(path: Path) -> None:
    """One command per line, without tricks, and nothing that hides a failure."""
    text = path.read_text(encoding="utf-8")
    for trick in ("eval", "|| true", "nice ", "apt-helper", "touch", "xargs", "awk", "SOURCE_DATE_EPOCH"):
        assert not re.search(rf"(^|[\s(]){re.escape(trick)}", text), trick
    assert re.findall(r"^SHELL (.*)", text, re.M) == ['["/bin/bash", "-o", "pipefail", "-c"]']
    # a command in parentheses may go on in the next line, and is one
    joined = [line for line in text.splitlines() if re.search(r"&&(?! \\$)", re.sub(r"'[^']*'", "", line))]
    assert joined == []


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: "-".join(path.parts[-4:-1]))
def test_dockerfiles_have_one_label_and_few_arguments(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    found = instructions(text)
    assert sum(line.startswith("LABEL ") for line in found) == 1
    # the part before the first FROM, and then each stage
    for stage in re.split(r"^FROM ", "\n".join(found), flags=re.M):
        assert stage.count("\nARG ") + stage.startswith("ARG ") <= 1, stage


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: "-".join(path.parts[-4:-1]))
def test_secrets_are_mounted_where_the_network_is_reached(path: Path) -> None:
    runs = [line for line in instructions(path.read_text(encoding="utf-8")) if line.startswith("RUN ")]
    reaching = [line for line in runs if NETWORK.search(line)]
    assert reaching and len(reaching) < len(runs)
    for secret in ("network", "ca"):
        assert [line for line in runs if f"--mount=type=secret,id={secret} " in line] == reaching


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: "-".join(path.parts[-4:-1]))
def test_the_folder_holds_exactly_the_files_that_are_read(path: Path) -> None:
    """`docker build` needs only the folder, and no file in it is unused."""
    text = "\n".join(instructions(path.read_text(encoding="utf-8")))
    read = {
        path.name,
        *re.findall(r"--mount=type=bind,source=([^,\s]+)", text),
        *(name.rstrip("/") for words in re.findall(r"^COPY (?!--)(.+) \S+$", text, re.M) for name in words.split()),
    }
    assert [name for name in read if not (path.parent / name).exists()] == []
    files = {item.relative_to(path.parent) for item in path.parent.rglob("*") if item.is_file()}
    unread = [file for file in files if not {str(file), str(file.parent)} & read]
    assert unread == [], "unused files"
