"""The oldest supported Python runs every command's help and every reading command."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import A2_VLLM, A3_SGLANG, Result, succeeded

pytestmark = pytest.mark.extended

OLDEST = "3.10"
ROOT = Path(__file__).resolve().parents[2]
Run = Callable[..., Result]


def interpreter() -> str | None:
    """Return a Python of the oldest version, on the path or among those of pyenv."""
    of_pyenv = sorted(Path.home().glob(f".pyenv/versions/{OLDEST}.*/bin/python{OLDEST}"))
    candidates = [shutil.which(f"python{OLDEST}"), *map(str, of_pyenv)]
    return next((item for item in candidates if item and works(item)), None)


def works(python: str) -> bool:
    """Return whether it starts: pyenv has commands on the path whose Python is not installed."""
    return subprocess.run([python, "-c", ""], check=False, capture_output=True).returncode == 0


@pytest.fixture(scope="module")
def envbuilder(tmp_path_factory: pytest.TempPathFactory) -> Run:
    python = interpreter()
    if python is None:
        pytest.skip(f"needs Python {OLDEST}")
    place = tmp_path_factory.mktemp("oldest") / "venv"
    subprocess.run([python, "-m", "venv", str(place)], check=True)
    options = ["--quiet", "--constraint", str(ROOT / "constraints.txt")]
    subprocess.run([str(place / "bin" / "pip"), "install", *options, str(ROOT)], check=True)

    def run(*arguments: str, program: str = "envbuilder") -> Result:
        command = [str(place / "bin" / program), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=place)

    return run


HELP = """
from click.testing import CliRunner
from envbuilder.cli import COMMANDS, cli
for name in [*COMMANDS, "matrix schema", "matrix outdated", "matrix draft"]:
    result = CliRunner().invoke(cli, [*name.split(), "--help"], catch_exceptions=False)
    assert result.exit_code == 0 and result.output.startswith("Usage: "), (name, result.output)
"""


def test_help_of_every_command(envbuilder: Run) -> None:
    succeeded(envbuilder("-c", HELP, program="python"))


@pytest.mark.parametrize(
    "arguments",
    [
        ("list", "--json"),
        ("show", A3_SGLANG),
        ("show", A3_SGLANG, "--json"),
        ("diff", A2_VLLM, A3_SGLANG),
        ("check", "--json"),
        ("compat", "torch_npu", "2.8.0"),
        ("config", "--all"),
        ("lock", "--all", "--check"),
        ("render", A3_SGLANG),
        ("render", A3_SGLANG, "--format", "script"),
        ("build", A3_SGLANG, "--dry-run"),
        ("doctor", "--json"),
        ("run", A3_SGLANG, "--print", "compose"),
        ("quickstart", A3_SGLANG, "--recipe", "grpo"),
        ("matrix", "schema"),
    ],
    ids=" ".join,
)
def test_reading_command(envbuilder: Run, arguments: tuple[str, ...]) -> None:
    result = succeeded(envbuilder(*arguments))
    assert result.stdout


def test_diagnose(envbuilder: Run, tmp_path: Path) -> None:
    report = tmp_path / "report.txt"
    report.write_text("torch==2.5.1\nlibatb.so: cannot open shared object file\n")
    assert "nnal-missing" in envbuilder("diagnose", str(report)).stdout


def test_images(envbuilder: Run, engine: None) -> None:
    """It reads times in the format of docker, which Python 3.10 cannot parse."""
    succeeded(envbuilder("images"))
