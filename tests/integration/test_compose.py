"""Printed compose files are accepted by docker-compose 1.29, which Debian 12 has; Compose v2 accepts more."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import A2_VLLM, A3_SGLANG, OPENRLHF, run

PRINTED = [
    ("run", A3_SGLANG, "--npus", "2", "--print", "compose"),
    ("run", "--hw", "cpu", "--print", "compose", "--volume", "/data:/data:ro", "--volume", "cache:/cache", "--", "ls"),
    ("run", A2_VLLM, "--multi-node", "--print", "compose"),
    ("quickstart", A3_SGLANG, "--recipe", "sft", "--format", "compose"),
    ("quickstart", A3_SGLANG, "--recipe", "grpo", "--nodes", "2", "--npus", "8", "--format", "compose"),
    ("quickstart", OPENRLHF, "--recipe", "grpo", "--format", "compose"),
]


@pytest.mark.parametrize("arguments", PRINTED, ids=lambda words: " ".join(words[:4]))
def test_docker_compose_accepts_it(arguments: tuple[str, ...], tmp_path: Path) -> None:
    program = shutil.which("docker-compose")
    assert program, "make test installs docker-compose"
    (tmp_path / "docker-compose.yml").write_text(run(*arguments).stdout)
    checked = subprocess.run([program, "config", "--quiet"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")
