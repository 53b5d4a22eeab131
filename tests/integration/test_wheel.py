"""The wheel and the source archive: an installed envbuilder works without a checkout, and its hints are true there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from envbuilder import platforms
from envbuilder.lock.index import uv_program
from tests.conftest import Result
from tests.helpers.fake_host import described_server
from tests.integration.conftest import cut_off, make_toy
from tests.integration.conftest import installed as installed_in

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel with `uv tool install`, outside of the checkout."""
    home = tmp_path_factory.mktemp("home")
    folders = {"UV_TOOL_DIR": str(home / "uv" / "tools"), "UV_TOOL_BIN_DIR": str(home / "bin")}
    words = [uv_program(), "tool", "install", "--quiet", "--constraints", str(ROOT / "constraints.txt"), str(wheel)]
    subprocess.run(words, check=True, cwd=home, env={**os.environ, **folders})
    return home / "bin" / "envbuilder"


def ran(program: Path, *words: str) -> Result:
    variables = {"HOME": str(program.parent), "PATH": "/usr/bin:/bin", "DOCKER_HOST": "tcp://127.0.0.1:9"}
    return subprocess.run([program, *words], capture_output=True, text=True, check=False, cwd="/", env=variables)


def test_both_archives_hold_everything(wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-any.whl")
    (archive,) = wheel.parent.glob("ascend_envbuilder-*.tar.gz")
    names = set(zipfile.ZipFile(wheel).namelist())
    for name in (
        "_data/matrices/matrix.yaml",
        "_data/templates/Dockerfile.j2",
        "cli/examples.yaml",
        "locale/zh/LC_MESSAGES/envbuilder.po",
    ):
        assert f"envbuilder/{name}" in names
    with tarfile.open(archive) as content:
        sources = {name.partition("/")[2] for name in content.getnames()}
    for name in ("README.md", "LICENSE", "CHANGELOG.md", "matrices/matrix.yaml", "tests/conftest.py"):
        assert name in sources


def test_an_installed_command_works_on_its_own(installed: Path) -> None:
    here = [sys.executable, "-m", "envbuilder", "list"]
    expected = subprocess.run(here, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    assert ran(installed, "list").stdout == expected
    for words in (["check"], ["show", "--hw", "a3"], ["doctor", "--json"], ["config", "--all"], ["build", "--help"]):
        assert ran(installed, *words).returncode in {0, 1}, words
    rendered = ran(installed, "render", "--hw", "atlas-800t-a3").stdout
    # the Dockerfile contains the digest of the lock
    (folder,) = re.findall(r"^#   docker build (\S+)$", rendered, re.M)
    assert rendered == (ROOT / folder / "Dockerfile").read_text(encoding="utf-8")


def test_hints_name_commands_of_this_installation(installed: Path, tmp_path: Path) -> None:
    no_engine = ran(installed, "images")
    assert no_engine.returncode == 5 and "tools/engine.sh" not in no_engine.stderr
    logs = [tmp_path / name for name in ("npu.log", "gpu.log")]
    for log in logs:
        log.write_text("")
    picture = ran(installed, "compare", *map(str, logs), "--plot", str(tmp_path / "a.png"))
    assert picture.returncode == 5
    assert re.search(r"uv tool install --force 'ascend-envbuilder\[plot\] @ file://\S+\.whl'", picture.stderr)
    keys = ran(installed, "keys", "new", str(tmp_path / "team"))
    assert keys.returncode == 5 and "'ascend-envbuilder[sign] @ file://" in keys.stderr


def test_all_commands_choose_what_the_driver_of_a_server_runs(installed: Path, tmp_path: Path) -> None:
    """An Atlas 800T A2 with an old driver: none offers the default of the README, which needs a newer one."""
    machine = ("--machine", str(described_server(tmp_path, "24.1.0")))
    (best,) = set(re.findall(r"^  envbuilder build (\S+)$", ran(installed, "doctor", *machine).stdout, re.MULTILINE))
    assert ran(installed, "list", "--with", "driver=24.1.0", best).stdout == f"{best}\n"
    for words in (("build", "--dry-run"), ("show",), ("quickstart",)):
        for hardware in ((), ("--hw", "a2")):
            chosen = ran(installed, *words, *hardware, *machine)
            assert chosen.returncode == 0 and best in chosen.stdout, (words, hardware, chosen.stderr)
            assert f"chose {best}: " in chosen.stderr and "needs driver" in chosen.stderr
    refused = ran(installed, "build", "--hw", "a2", "--branch", "v0.9.1", *machine)
    assert refused.returncode == 5 and f"`envbuilder build {best}` runs here" in refused.stderr


def test_a_laptop_rehearses_what_a_server_will_run(installed: Path) -> None:
    """It has no NPU, no engine, and reaches no git host."""
    said = ran(installed, "doctor", "--json")
    best, *_ = json.loads(said.stdout)["environments"]
    for words in (("build", "--hw", "cpu", "--dry-run"), ("show", "--hw", "cpu")):
        assert ran(installed, *words).stdout.startswith(best["id"]), words
    server = ("build", "--hw", "atlas-800t-a3", "--engine", "sglang", "--dry-run")
    assert re.match(r"verl-v\S+-sglang-a3-aarch64\n", ran(installed, *server).stdout)
    planned = ran(installed, *server, "--rehearse", "--git-mirror", "/nowhere")
    assert re.match(rf"verl-v\S+-sglang-a3-{platforms.arch()}\n", planned.stdout)
    assert "no docker engine answers, and a build needs one" in " ".join(planned.stdout.split())
    assert planned.returncode == 7 and "sgl-kernel-npu.git" in planned.stderr
    assert "emulat" not in planned.stderr and "tools/" not in planned.stderr


def test_a_site_without_a_network_installs_from_one_file(installed: Path, tmp_path: Path) -> None:
    """Its operator reads Chinese."""
    toy = make_toy(tmp_path)
    chinese = {**os.environ, "LANGUAGE": "zh", "HOME": str(tmp_path)}
    file, prefix = tmp_path / "toy.bundle", tmp_path / "toy"
    words = [str(installed), "bundle", *toy.arguments, "-o", str(file)]
    made = subprocess.run(words, capture_output=True, text=True, check=False, env=chinese)
    assert made.returncode == 0 and "下载" in made.stderr, made.stderr
    install = [str(installed), "install", "--offline", str(file), "--matrices", str(toy.matrices)]
    there = cut_off([*install, "--prefix", str(prefix)], tmp_path / "home", LANGUAGE="zh")
    assert there.returncode == 0, there.stderr
    assert {"toy", "reel", "tqdm"} <= {line.partition("==")[0] for line in installed_in(prefix)}
    without = cut_off(
        [str(installed), "pull", "--hw", "a3", "--registry", "registry.example.com/x"], tmp_path / "home", LANGUAGE="zh"
    )
    assert without.returncode in {5, 7} and re.search("[\u4e00-\u9fff]", without.stderr), without.stderr
