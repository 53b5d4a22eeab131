"""Overlays that would crash, block or exhaust the machine are refused with the file, in a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from envbuilder import paths

SECONDS, MEMORY = 60, 2 * 2**30
SYMPTOM = "- {code: slow, patterns: ['%s'], cause: c, remedy: r, source: a/b}\n"


@pytest.fixture
def overlay(tmp_path: Path) -> Path:
    (tmp_path / "overlay" / "compat").mkdir(parents=True)
    return tmp_path / "overlay"


def refused(folder: Path, *words: str, code: int = 3, given: str = "") -> str:
    """Return the message of a command that must end by itself, with little memory and time."""
    limits = f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({MEMORY}, {MEMORY}));"
    patient = "from envbuilder.matrix import patterns; patterns._SECONDS = 2;"
    program = f"{limits}{patient}from envbuilder.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, *(words or ("check", "-qq")), "--matrices", str(folder)],
        capture_output=True, text=True, check=False, timeout=SECONDS, input=given,
        env={**os.environ, "LANGUAGE": "en"},
    )  # fmt: skip
    assert done.returncode == code and "Traceback" not in done.stderr, (done.returncode, done.stderr[-2000:])
    assert len(done.stderr) < 50_000
    return done.stderr


def test_deep_nesting(overlay: Path) -> None:
    texts = [
        "name: " + "[" * 50_000 + "]" * 50_000, "[" * 50_000, "a: {" * 50_000, "- " * 50_000, "? " * 50_000,
        "\n".join(" " * depth + "a:" for depth in range(1_400)), "[\n" * 50_000,
    ]  # fmt: skip
    for number, text in enumerate(texts):
        (overlay / "compat" / f"deep{number}.yaml").write_text(text, encoding="utf-8")
    shown = refused(overlay)
    assert shown.count("nested more than 40 levels deep") == len(texts)
    assert all(f"--> {overlay}/compat/deep{number}.yaml:" in shown for number in range(len(texts)))


def test_a_million_unknown_keys(overlay: Path) -> None:
    file = overlay / "compat" / "many.yaml"
    file.write_text("".join(f"key{number}: x\n" for number in range(10**6)), encoding="utf-8")
    assert "many.yaml" in (shown := refused(overlay)) and "it has more than 1 MB" in shown


@pytest.mark.parametrize("line", ["key{}: x\n", "same: x\n", "{}: !x a\n", "? [{}]\n: x\n"])
def test_only_the_first_of_many_problems_are_shown(overlay: Path, line: str) -> None:
    text = "".join(line.format(number) for number in range(50_000))
    (overlay / "compat" / "many.yaml").write_text(text, encoding="utf-8")
    shown = refused(overlay)
    assert shown.count("error: ") == 100 and "these are the first 100 problems" in shown


def test_a_file_that_never_ends(overlay: Path) -> None:
    (overlay / "compat" / "endless.yaml").symlink_to("/dev/zero")
    assert "endless.yaml" in (shown := refused(overlay)) and "this is not a file" in shown


def test_a_pipe_that_nobody_writes(overlay: Path) -> None:
    os.mkfifo(overlay / "compat" / "pipe.yaml")
    assert "this is not a file" in refused(overlay)


def test_patterns_that_are_none(overlay: Path) -> None:
    wrong = ["(" * 5_000 + ")" * 5_000, "x{99999999999999999999}", "(x", "x{2,1}", "(?P<a>"]
    (overlay / "symptoms.yaml").write_text("symptoms:\n" + "".join(SYMPTOM % item for item in wrong), encoding="utf-8")
    assert refused(overlay).count("is not a regular expression") == len(wrong)


@pytest.mark.parametrize("pattern", ["(a+)+$", "(?:a*a*a*a*a*a*)b"])
def test_patterns_that_take_forever(overlay: Path, pattern: str) -> None:
    file = overlay / "symptoms.yaml"
    file.write_text(f"symptoms:\n{SYMPTOM % pattern}", encoding="utf-8")
    shown = refused(overlay, "diagnose", "-", given="a" * 1_500 + "!\n")
    assert f"--> {file}:2:" in shown and "the patterns of 'slow' take longer than 2 seconds" in shown


def test_a_pattern_of_an_engine_that_takes_forever(overlay: Path) -> None:
    (overlay / "engines").mkdir()
    text = (paths.matrices() / "engines" / "vllm.yaml").read_text(encoding="utf-8")
    old = next(line for line in text.splitlines() if line.startswith("announces:"))
    (overlay / "engines" / "vllm.yaml").write_text(text.replace(old, "announces: ['(a+)+x']"), encoding="utf-8")
    assert "take longer than 2 seconds" in refused(overlay, "diagnose", "-", given="a" * 1_500 + "!\n")


def test_requirements_that_are_none(overlay: Path) -> None:
    wrong = ["x>=1.*,<", "x; " + "(" * 5_000, "x; a == b", "x[" + "a," * 5_000 + "a]>=", "x @ file:///etc/passwd"]
    quoted = ", ".join("'" + item.replace("'", "''") + "'" for item in wrong)
    for name, old, new in (
        ("frameworks/verl/v0.6.0.yaml", "[uvloop<0.22.0]", f"[{quoted}]"),
        (
            "compat/mindspeed.yaml",
            "releases:\n",
            f"releases:\n- {{version: 9.9.9, date: 2025-01-01, commit: {'0' * 40}, requires: [{quoted}]}}\n",
        ),
    ):
        text = (paths.matrices() / name).read_text(encoding="utf-8")
        assert old in text
        (overlay / name).parent.mkdir(parents=True, exist_ok=True)
        (overlay / name).write_text(text.replace(old, new, 1), encoding="utf-8")
    assert refused(overlay, "check", "verl-v0.6.0-*").count("error: ") == 2 * len(wrong)
