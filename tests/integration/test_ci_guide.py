"""The files of the guide for CI, run as scripts with the wheel alone, a real engine and a real registry."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import pytest

from envbuilder.lock.index import uv_program
from envbuilder.registry.client import Registry
from envbuilder.signing.keys import make_keys
from tests.helpers.ci_guide import GITHUB, GITLAB, jobs, run_job
from tests.helpers.pulls import forget
from tests.integration.conftest import Toy

ROOT = Path(__file__).resolve().parents[2]
PASSWORD = "word"  # noqa: S105
# a runner of GitHub has pipx, and root that needs no password
PIPX = """#!/bin/sh
exec {uv} tool install --quiet --force --constraints {constraints} "$2"
"""
SUDO = "#!/bin/sh\n"


class Runner(NamedTuple):
    """What a CI system gives its jobs, and the folder in which they run."""

    folder: Path
    given: dict[str, str]
    variables: dict[str, str]
    image: str


@pytest.fixture
def runner(toy: Toy, there: str, wheel: Path, tmp_path: Path) -> Iterator[Runner]:
    programs, docker_config = tmp_path / "programs", tmp_path / "docker"
    for folder in (programs, docker_config):
        folder.mkdir()
    texts = {"pipx": PIPX.format(uv=uv_program(), constraints=ROOT / "constraints.txt"), "sudo": SUDO}
    for name, text in texts.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    # the plugins of docker are in the folder of its settings
    plugins = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker") / "cli-plugins"
    if plugins.is_dir():
        (docker_config / "cli-plugins").symlink_to(plugins)
    private, public = make_keys(PASSWORD.encode())
    for name, content in (("SIGN_KEY", private), ("VERIFY_KEY", public)):
        (tmp_path / name).write_bytes(content)
    registry = f"{there}/team"
    variables = {
        **os.environ,
        "PATH": f"{tmp_path / 'bin'}:{programs}:{os.environ['PATH']}",
        "UV_TOOL_DIR": str(tmp_path / "tools"),
        "UV_TOOL_BIN_DIR": str(tmp_path / "bin"),
        "PIP_CONSTRAINT": str(ROOT / "constraints.txt"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "DOCKER_CONFIG": str(docker_config),
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_ACTOR": "ann",
        "CI_REGISTRY": there,
        "CI_REGISTRY_USER": "ann",
        "CI_REGISTRY_PASSWORD": "x",
        "ENVIRONMENT": toy.id,
        "ENVBUILDER": f"ascend-envbuilder[sign] @ {wheel.as_uri()}",
        "ENVBUILDER_REGISTRY": registry,
        "ENVBUILDER_MATRICES": str(toy.matrices),
        "ENVBUILDER_GIT_MIRROR": str(toy.mirror),
        "ENVBUILDER_KEY_PASSWORD": PASSWORD,
    }
    # the installed package finds its own files
    variables.pop("PYTHONPATH", None)
    given = {
        "github.repository_owner": "team",
        "secrets.GITHUB_TOKEN": "x",
        "secrets.SIGN_KEY": private.decode().rstrip("\n"),
        "secrets.SIGN_KEY_PASSWORD": PASSWORD,
        "vars.VERIFY_KEY": public.decode().rstrip("\n"),
        "CI_REGISTRY_IMAGE": registry,
    }
    yield Runner(tmp_path, given, variables, toy.image(registry))
    forget(toy.image(registry))


@pytest.mark.parametrize("name", [GITHUB, pytest.param(GITLAB, marks=pytest.mark.extended)])
def test_the_jobs_build_prove_sign_push_and_pull(name: str, runner: Runner, there: str) -> None:
    # GitLab writes variables of the type File to files
    files = {key: str(runner.folder / key) for key in ("SIGN_KEY", "VERIFY_KEY")} if name == GITLAB else {}
    for job in jobs(name, runner.given):
        result = run_job(job, runner.folder / job.name, {**runner.variables, **files})
        assert result.returncode == 0, f"{job.name}: {result.stdout}{result.stderr}"
        # the next job is on another machine
        forget(runner.image)
    assert result.stdout.splitlines()[-1].startswith("Python 3.") and f"signed as {runner.image}" in result.stderr
    ((build, proof),) = ((path, path.with_name("proof.xml")) for path in runner.folder.glob("*/build.json"))
    (built,) = json.loads(build.read_text())["builds"]
    repository, _, tag = runner.image.removeprefix(f"{there}/").rpartition(":")
    assert Registry(there).manifest(repository, tag).digest == built["digest"]
    suites = list(ElementTree.fromstring(proof.read_text()))  # noqa: S314
    assert [suite.get("name") for suite in suites][:2] == ["static", "import"]
    assert {suite.get("failures") for suite in suites} == {"0"}
    assert list(runner.folder.glob("*/plan.json")) and list(runner.folder.glob("*/proof.html"))


def test_an_image_of_another_key_is_not_used(runner: Runner) -> None:
    image, use = jobs(GITHUB, {**runner.given, "vars.VERIFY_KEY": make_keys(b"")[1].decode().rstrip("\n")})
    assert run_job(image, runner.folder / image.name, runner.variables).returncode == 0
    forget(runner.image)
    result = run_job(use, runner.folder / use.name, runner.variables)
    assert result.returncode == 6 and "none of the signatures of" in result.stderr
