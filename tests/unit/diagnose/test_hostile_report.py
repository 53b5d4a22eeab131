"""Reports that are too long, in another encoding, or full of numbers: an answer, or a plain error, in bounded time."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import run, succeeded

SECONDS, MEMORY = 60, 2 * 2**30
FAULT = "torch==2.8.0\ntorch_npu==2.7.1\n"


def diagnosed(text: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Diagnose a text in a process with little memory and CPU time."""
    limits = (
        f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({MEMORY}, {MEMORY}));"
        f"resource.setrlimit(resource.RLIMIT_CPU, ({SECONDS}, {SECONDS}));"
    )
    return subprocess.run(
        [sys.executable, "-c", f"{limits}from envbuilder.cli import main; main()", "diagnose", "-", *words],
        input=text, capture_output=True, text=True, check=False, env={**os.environ, "LANGUAGE": "en"},
    )  # fmt: skip


def test_millions_of_empty_lines() -> None:
    lines = 19_000_000
    result = succeeded(diagnosed("\n" * lines + FAULT, "--json"))
    assert '"torch-npu-torch"' in result.stdout and f'"number": {lines + 1}' in result.stdout


@pytest.mark.parametrize("line", ["{}", "Exception in {}: vllm {} torch {}.{} /a/b/{}:{} pip install {}"])
def test_a_long_log_whose_lines_are_all_different(line: str) -> None:
    source = random.Random(1)  # noqa: S311
    words = ["".join(source.choices("abcdefghij", k=9)) for _ in range(1_000)]
    lines = (line.format(*source.choices(words, k=7)) for _ in range(17_000_000 // (len(line) * 2 + 18)))
    result = succeeded(diagnosed(FAULT + "\n".join(lines)))
    assert "torch is 2.8.0, and torch_npu 2.7.1 is compiled against torch 2.7.1" in result.stdout
    assert "the report is long: its lines" in result.stdout


def test_a_report_without_an_end() -> None:
    result = run("diagnose", "/dev/zero")
    assert result.returncode == 2 and "/dev/zero has more than 20 MB" in result.stderr and "tail -c" in result.stderr
    assert diagnosed("\n" * 50_000_000).returncode == 2


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_the_encoding_of_a_report(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "report.txt").write_bytes((FAULT * 3).replace("\n", "\r\n").encode(encoding))
    assert "torch is 2.8.0, and torch_npu 2.7.1" in succeeded(run("diagnose", str(tmp_path / "report.txt"))).stdout


def test_a_big_endian_mark(tmp_path: Path) -> None:
    (tmp_path / "report.txt").write_bytes(b"\xfe\xff" + FAULT.encode("utf-16-be"))
    assert "torch is 2.8.0, and torch_npu 2.7.1" in succeeded(run("diagnose", str(tmp_path / "report.txt"))).stdout


@pytest.mark.parametrize(
    "text",
    [
        "torch==9.{0}", "torch=={0}.1\ntorch_npu=={0}.2", "numpy=={0}.0\ntorch==2.1.0", "CANN {0}.1", "driver: {0}.1.2",
        "--device /dev/davinci{0} ASCEND_RT_VISIBLE_DEVICES={0}", "vllm=={0}.1.rc{0}", "soc_version {0}", "python{0}.{0}",
        "| npu-smi 24.1 Version: 24.1 |\n| {0} 910B1 | OK |\n| {0} {0} | 0000:C1:00.0 | 0 {0} / {0} |\n| {0} {0} | {0} | x |",
    ],
)  # fmt: skip
def test_numbers_of_thousands_of_digits(tmp_path: Path, text: str) -> None:
    (tmp_path / "report.txt").write_text(text.format("9" * 5_000), encoding="utf-8")
    result = succeeded(run("diagnose", str(tmp_path / "report.txt")))
    assert "Traceback" not in result.stderr
    result = run("doctor", "--npu-smi", str(tmp_path / "report.txt"))
    assert result.returncode in {0, 5} and "Traceback" not in result.stderr


@pytest.mark.parametrize("command", [["diagnose", "-"], ["doctor", "--npu-smi", "-"], ["list"], ["keys", "new", "a"]])
@pytest.mark.parametrize("how", ["<&-", "0>/dev/null", "<&- >&-", "</", ">&- 2>&-"])
def test_a_closed_standard_input(tmp_path: Path, command: list[str], how: str) -> None:
    shell = f'cd {tmp_path}; exec {sys.executable} -m envbuilder "$@" {how}'
    done = subprocess.run(["bash", "-c", shell, "x", *command], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr and done.returncode in {0, 1, 2}, done.stderr
