"""`build --rehearse` on a machine of another architecture, without a registry, an engine or git hosts."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from envbuilder import platforms
from envbuilder.errors import EnvbuilderError
from envbuilder.matrix import load
from tests.conftest import Edit, environment, run
from tests.helpers.repositories import make_bare, repository

WORDS = ("build", "--hw", "atlas-800t-a3", "--engine", "sglang", "--rehearse", "--dry-run")
SOURCES = {"sgl_kernel_npu": "sgl-kernel-npu", "mindspeed": "MindSpeed", "megatron_lm": "Megatron-LM"}


def _no_engine() -> None:
    raise EnvbuilderError("no docker engine answers")


def _mmdebstrap(monkeypatch: pytest.MonkeyPatch, program: str | None) -> None:
    real = shutil.which
    monkeypatch.setattr(
        "shutil.which", lambda name, *more, **path: program if name == "mmdebstrap" else real(name, *more, **path)
    )


@pytest.fixture(autouse=True)
def laptop(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine of x86_64 without an engine and an emulator, and with mmdebstrap; other indexes answer."""
    real: Callable[..., str] = platforms.arch
    monkeypatch.setattr("envbuilder.platforms.arch", lambda machine="x86_64": real(machine))
    monkeypatch.setattr("envbuilder.inputs.debian_base.emulator", lambda _: None)
    _mmdebstrap(monkeypatch, "/usr/bin/mmdebstrap")
    monkeypatch.setattr("envbuilder.build.foresee.Docker", _no_engine)
    monkeypatch.setattr("envbuilder.inputs.other_indexes._answers", lambda *_: True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def mirrored(tmp_path: Path, edit: Edit) -> list[str]:
    """Return options that name a mirror with all repositories of the default row, and the matrices with their commits."""
    row = environment(load(), "verl-v0.9.1-sglang-a3-x86_64")
    for name, folder in SOURCES.items():
        place = tmp_path / "mirror" / f"{folder}.git"
        commit = repository(place, {"setup.py": name})
        make_bare(place)
        release = row.release(name)
        assert release is not None
        matrices = edit(f"compat/{name}.yaml", f"commit: {release.commit}", f"commit: {commit}")
    return ["--git-mirror", str(tmp_path / "mirror"), "--matrices", str(matrices)]


def test_a_product_of_another_architecture_is_rehearsed_as_its_family(mirrored: list[str]) -> None:
    result = run(*WORDS, *mirrored)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("verl-v0.9.1-sglang-a3-x86_64\n")
    assert "Atlas 800T A3 exists for aarch64 alone: rehearsing Atlas A3 on x86_64\n" in result.stderr
    text = " ".join(result.stdout.split())
    assert "base image envbuilder/stand-in:cann8.5.0-" in text
    assert "made here on the packages of Debian bookworm in place of quay.io/ascend/cann:8.5.0-a3-" in text
    assert "kernels of sgl-kernel-npu (needs kernel-compiler" in text
    assert f"Megatron-LM 0.16.2: from {mirrored[1]}" in text
    assert "no docker engine answers, and a build needs one" in text
    assert "emulat" not in result.stderr


def test_a_given_architecture_is_kept(mirrored: list[str]) -> None:
    named = run(*WORDS, "--arch", "aarch64", *mirrored)
    assert named.returncode != 0
    assert "a base image for aarch64 cannot be made here" in named.stderr
    family = run("build", "--hw", "a3", "--engine", "sglang", "--rehearse", "--dry-run", *mirrored)
    assert family.stdout.startswith("verl-v0.9.1-sglang-a3-x86_64\n") and "exists for" not in family.stderr


def test_a_dry_run_ends_with_the_error_of_the_build(mirrored: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    missing = Path(mirrored[1]) / "MindSpeed.git"
    missing.rename(missing.with_name("other"))
    result = run(*WORDS, *mirrored)
    assert result.returncode == 7
    assert result.stdout.startswith("verl-v0.9.1-sglang-a3-x86_64\n"), "the plan comes first"
    assert "1 source cannot be fetched" in result.stderr
    assert "MindSpeed 0.16.0.20260710, https://gitcode.com/Ascend/MindSpeed.git: the git mirror" in result.stderr
    missing.with_name("other").rename(missing)
    _mmdebstrap(monkeypatch, None)
    result = run(*WORDS, *mirrored)
    assert result.returncode != 0 and "mmdebstrap, which makes the base image, is not installed" in result.stderr
    # it is not needed on another image
    result = run(*WORDS, *mirrored, "--base-image", "company/debian:12")
    assert result.returncode == 0, result.stderr
    assert "made here on company/debian:12 in place of" in " ".join(result.stdout.split())


def test_an_environment_that_cannot_be_rehearsed_says_why() -> None:
    without_plugin = run("build", "--hw", "cpu", "--rehearse", "--dry-run")
    assert without_plugin.returncode != 0
    assert "has no torch_npu, which a rehearsal is for\nhint: rehearse an environment for NPUs: --hw a2\n" in (
        without_plugin.stderr
    )
    other_python = run("build", "verl-v0.9.1-vllm-a3-x86_64", "--rehearse", "--dry-run")
    assert other_python.returncode == 3
    assert "no base image with Python 3.12 can be made" in other_python.stderr
    assert "--base-image an image with Python 3.12" in other_python.stderr


def test_the_hint_for_an_emulator_is_a_command_that_exists(
    mirrored: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for is_checkout, command in ((False, "apt-get install qemu-user-static"), (True, "tools/emulate.sh aarch64")):
        monkeypatch.setattr("envbuilder.paths.is_checkout", lambda found=is_checkout: found)
        assert run(*WORDS, "--arch", "aarch64", *mirrored).stderr.rstrip().endswith(command)


def test_a_plan_without_a_rehearsal_asks_nothing_of_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("envbuilder.build.foresee.require_sources", lambda *_: pytest.fail("asked"))
    result = run("build", "--hw", "atlas-800t-a3", "--engine", "sglang", "--dry-run")
    assert result.returncode == 0
    text = " ".join(result.stdout.split())
    assert text.startswith("verl-v0.9.1-sglang-a3-aarch64 ")
    assert "from git sgl-kernel-npu 2026.03.10.rc1, MindSpeed" in text
    assert "in no package index; --git-mirror names a mirror" in text
    mirror = run("build", "--hw", "a2", "--dry-run", "--registry-mirror", "mirror.example").stdout
    assert "base image  mirror.example/ascend/cann:" in mirror
