"""The files that `bake` writes for buildx are complete, and an installed buildx accepts them."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.conftest import run, succeeded


def test_a_folder_holds_everything_that_a_build_needs(tmp_path: Path) -> None:
    result = run(
        "bake", "verl-v0.6.*", "-o", str(tmp_path), "--registry", "quay.io/me", "--secret", "id=ca,src=/etc/ssl/ca.pem"
    )
    assert result.returncode == 0, result.stderr
    document = json.loads((tmp_path / "docker-bake.json").read_text())
    assert document["group"]["default"]["targets"] == list(document["target"])
    assert "verl-v0_6_0-sglang-a3-aarch64" in document["target"]
    for target in document["target"].values():
        context = tmp_path / target["context"]
        text = (context / "Dockerfile").read_text()
        read = {*re.findall(r"type=bind,source=([^, ]+)", text), *re.findall(r"^COPY (?!--from)(\S+)", text, re.M)}
        assert {"checks/removed", "checks/expected-conflicts"} <= read
        assert [path for path in read if not (context / path).exists()] == []
        assert ("locks/" in read) == (context / "locks").exists()
        assert target["platforms"] in (["linux/arm64"], ["linux/amd64"])
        assert target["tags"][0].startswith("quay.io/me/verl:candidate-v0.6.")
        assert target["secret"] == ["id=ca,src=/etc/ssl/ca.pem"]


def targets(folder: Path, *words: str) -> list[str]:
    result = succeeded(run("bake", "-o", str(folder), *words))
    assert "unproven candidates" in result.stderr and "envbuilder validate IMAGE --name" in result.stderr
    return list(json.loads((folder / "docker-bake.json").read_text())["target"])


def test_without_a_name_it_takes_the_row_of_a_build(tmp_path: Path) -> None:
    words = ("--hw", "a3", "--engine", "sglang")
    plan = json.loads(succeeded(run("build", *words, "--dry-run", "--json")).stdout)
    wanted = [item["environment"] for item in plan["plans"]]
    assert targets(tmp_path / "one", *words) == [name.replace(".", "_") for name in wanted] and len(wanted) == 1
    assert len(targets(tmp_path / "all", *words, "--all")) > 5
    assert "verl-v0_8_0-sglang-a3-x86_64" in targets(tmp_path / "globs", "verl-v0.8.0-*-a3-*", "--engine", "sglang")


def test_nothing_matches(tmp_path: Path) -> None:
    assert run("bake", "nothing-*", "-o", str(tmp_path / "x")).returncode == 4
    assert not (tmp_path / "x").exists()


def test_buildx_accepts_it(tmp_path: Path) -> None:
    if subprocess.run(["docker", "buildx", "version"], capture_output=True, check=False).returncode != 0:
        pytest.skip(
            "needs buildx: docker-buildx of Debian 13 or later, in the folder cli-plugins of docker's configuration"
        )
    assert run("bake", "verl-v0.6.*", "-o", str(tmp_path)).returncode == 0
    shown = subprocess.run(
        ["docker", "buildx", "bake", "--print"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert set(json.loads(shown.stdout)["target"]) == set(
        json.loads((tmp_path / "docker-bake.json").read_text())["target"]
    )
