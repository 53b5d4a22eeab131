"""The commands of a project, with the real uv and a package index on this machine."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from envbuilder import platforms
from tests.conftest import Result, run, succeeded
from tests.helpers.package_index import serving_wheels
from tests.helpers.wheels import small_wheel

ROW = "verl-v0.6.0-sglang-cpu-x86_64"
DIMENSIONS = ("--hw", "cpu", "--branch", "v0.6.0", "--engine", "sglang")
# a build that needs no other package
PYPROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "verl"
dynamic = ["version", "dependencies"]
"""
BACKEND = """
import pathlib, zipfile
def build_wheel(folder, config_settings=None, metadata_directory=None):
    lines = ["Metadata-Version: 2.1", "Name: verl", "Version: {version}", *{requires}]
    info = "verl-{version}.dist-info"
    name = "verl-{version}-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(folder) / name, "w") as wheel:
        wheel.writestr(info + "/METADATA", "\\n".join(lines) + "\\n")
        wheel.writestr(info + "/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(info + "/RECORD", "")
    return name
"""


class Folder(NamedTuple):
    """The folder of a project, and the wheels of its index."""

    path: Path
    wheels: Path

    def __call__(self, *words: str, **variables: str) -> Result:
        return run(*words, **variables)

    def text(self, name: str = "envbuilder.toml") -> str:
        return (self.path / name).read_text()

    def packages(self) -> dict[str, str]:
        found: dict[str, str] = json.loads(succeeded(run("show", "--arch", "x86_64", "--json")).stdout)["environment"][
            "project"
        ]["packages"]
        return found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Folder]:
    path, wheels = tmp_path / "mine", tmp_path / "wheels"
    path.mkdir()
    small_wheel(wheels, "log-book", "1.0", requires=("numpy>=1.20", "paper>=1"))
    small_wheel(wheels, "log-book", "2.0", requires=("numpy>=2.3",))
    small_wheel(wheels, "paper", "1.5")
    monkeypatch.chdir(path)
    monkeypatch.setenv("ENVBUILDER_ARCH", "x86_64")
    with serving_wheels(wheels) as index:
        monkeypatch.setenv("ENVBUILDER_INDEX_URL", index)
        yield Folder(path, wheels)


@pytest.fixture
def project(folder: Folder) -> Folder:
    succeeded(folder("init", *DIMENSIONS))
    return folder


def test_a_project_from_nothing(project: Folder) -> None:
    assert 'branch = "v0.6.0"' in project.text() and "# packages" in project.text()
    assert project.packages() == {}
    assert succeeded(project("lock", "--check")).stderr.endswith("envbuilder.lock is fresh\n")


def test_a_second_init_is_refused(project: Folder) -> None:
    before = project.text()
    again = project("init", *DIMENSIONS)
    assert again.returncode == 2 and "describes an environment already" in again.stderr and project.text() == before


def test_init_keeps_the_settings_of_the_folder(folder: Folder) -> None:
    (folder.path / "envbuilder.toml").write_text("# mine\nquiet = 1\n")
    succeeded(folder("init", *DIMENSIONS))
    assert folder.text().startswith("# mine\nquiet = 1\n\n") and "[environment]" in folder.text()


def test_without_npus_the_hardware_must_be_named(folder: Folder) -> None:
    refused = folder("init")
    assert refused.returncode == 2 and "--hw a2|a3|" in refused.stderr and list(folder.path.iterdir()) == []


def test_packages_of_the_row_stay(project: Folder) -> None:
    """The newest release needs another numpy than the row has, so that an older one is chosen."""
    succeeded(project("add", "log-book"))
    assert project.packages() == {"log-book": "1.0", "paper": "1.5"}
    succeeded(project("remove", "log-book"))
    assert project.packages() == {}


def test_a_locked_version_stays_until_it_is_upgraded(project: Folder) -> None:
    succeeded(project("add", "paper"))
    small_wheel(project.wheels, "paper", "1.6")
    succeeded(project("lock"))
    assert project.packages() == {"paper": "1.5"}
    succeeded(project("lock", "--upgrade"))
    assert project.packages() == {"paper": "1.6"}


def test_what_stands_against_a_package_is_named(project: Folder) -> None:
    before = project.text(), project.text("envbuilder.lock")
    refused = project("add", "log-book>=2")
    assert refused.returncode == 3
    assert f"log-book>=2 cannot be installed beside {ROW}" in refused.stderr
    assert "the row has numpy 1.26.4, which must not move" in refused.stderr
    assert "the newest release that fits is log-book 1.0" in refused.stderr and "--allow-change numpy" in refused.stderr
    assert (project.text(), project.text("envbuilder.lock")) == before


def test_a_package_of_the_row_moves_only_when_that_is_allowed(project: Folder) -> None:
    small_wheel(project.wheels, "numpy", "2.4.0")
    succeeded(project("add", "log-book>=2", "--allow-change", "numpy"))
    assert project.packages() == {"log-book": "2.0", "numpy": "2.4.0"}
    shown = succeeded(project("show")).stdout
    assert "1.26.4 -> 2.4.0" in shown and "the evidence of the row does not cover this project: numpy differ" in shown
    succeeded(project("lock"))
    assert project.packages()["numpy"] == "2.4.0", "the lock keeps what was allowed"
    unknown = project("lock", "--allow-change", "nunpy")
    assert unknown.returncode == 4 and "did you mean 'numpy'?" in unknown.stderr


def test_a_pin_moves_a_package_of_the_row(project: Folder) -> None:
    small_wheel(project.wheels, "numpy", "1.26.3")
    (project.path / "envbuilder.toml").write_text(project.text() + 'pins = { numpy = "1.26.3" }\n')
    stale = project("show")
    assert stale.returncode == 3 and "it is older than envbuilder.toml" in stale.stderr
    succeeded(project("lock"))
    assert project.packages() == {"numpy": "1.26.3"}
    why = succeeded(project("show", "--why", "numpy")).stdout
    assert "project: 1.26.3" in why and "envbuilder.toml" in why
    assert "1 environment: 0 errors" in succeeded(project("check")).stderr


@pytest.mark.parametrize(
    ("package", "code", "message"),
    [
        ("nothing-at-all", 3, "no index has a package 'nothing_at_all'"),
        ("paper; python_version < '3'", 3, "does not hold for"),
        ("paper[none]", 0, ""),
        ("pap er", 2, "is not a requirement"),
    ],
)
def test_packages_that_cannot_be_had(project: Folder, package: str, code: int, message: str) -> None:
    found = project("add", package)
    assert found.returncode == code and message in found.stderr
    assert ("pa" in project.text("envbuilder.lock").partition("[environments]")[2]) == (code == 0)


def test_an_index_that_cannot_be_reached(project: Folder) -> None:
    found = project("add", "paper", "--index-url", "http://127.0.0.1:9/simple/", UV_HTTP_RETRIES="0")
    assert found.returncode == 7 and "cannot be reached" in found.stderr


def test_dimensions_that_are_typed_come_first(project: Folder) -> None:
    refused = project("show", "--branch", "v0.7.0")
    assert refused.returncode == 3 and "it has nothing for verl-v0.7.0-sglang-cpu-x86_64" in refused.stderr
    row = json.loads(succeeded(project("show", ROW, "--json")).stdout)["environment"]
    assert row["project"] is None, "with an identifier, the row"


def test_the_training_of_the_documents_runs_in_the_image_of_the_project(folder: Folder) -> None:
    succeeded(folder("init", "--hw", "a3", "--branch", "v0.6.0", "--engine", "sglang"))
    assert "envbuilder run envbuilder/mine:v0.6.0-cann" in succeeded(folder("quickstart")).stdout


def test_a_rehearsal_is_for_this_machine(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ENVBUILDER_ARCH")
    succeeded(folder("init", "--hw", "a3", "--branch", "v0.6.0", "--engine", "sglang"))
    shown = folder("build", "--rehearse", "--dry-run")
    assert "image       envbuilder/mine:v0.6.0-" in shown.stdout and f"-{platforms.arch()}-rehearsal" in shown.stdout


def test_the_image_for_npus_sets_up_the_toolkit_as_its_row(folder: Folder) -> None:
    """In a build every bash reads the settings of the network instead."""
    succeeded(folder("init", "--hw", "a3", "--branch", "v0.6.0", "--engine", "sglang"))
    rendered = succeeded(folder("render")).stdout
    during, after = "ENV BASH_ENV=/run/secrets/network\n", "BASH_ENV=/opt/envbuilder/setup.sh\nLABEL "
    assert rendered.index(during) < rendered.index("RUN ") < rendered.index(after)
    on_cpu = succeeded(folder("render", "--hw", "cpu")).stdout
    assert "ENV BASH_ENV" not in on_cpu and "BASH_ENV=/opt" not in on_cpu


def test_a_row_that_no_longer_exists(project: Folder) -> None:
    (project.path / "envbuilder.toml").write_text(project.text().replace("v0.6.0", "v0.0.1"))
    assert project("lock").returncode == 4


def test_a_lock_that_was_changed_by_hand(project: Folder) -> None:
    file = project.path / "envbuilder.lock"
    file.write_text(file.read_text() + "\n")
    refused = project("show")
    assert refused.returncode == 3 and "it was changed by hand" in refused.stderr
    assert "hint: run: envbuilder lock" in refused.stderr
    succeeded(project("lock"))
    succeeded(project("show"))


def test_a_file_of_others_is_refused(project: Folder) -> None:
    (project.path / "envbuilder.toml").chmod(0o666)
    refused = project("show")
    assert refused.returncode == 2 and "every user can write it" in refused.stderr
    succeeded(project("show", ENVBUILDER_TRUSTED_FOLDER=str(project.path)))


def test_images_of_many_rows_are_not_of_a_project(project: Folder) -> None:
    refused = project("bake", "-o", "x")
    assert refused.returncode == 2 and "bake does not work for projects" in refused.stderr


def test_an_install_script(project: Folder) -> None:
    succeeded(project("add", "paper"))
    script = succeeded(project("render", "--format", "script")).stdout
    assert "paper==1.5" in script and "numpy==1.26.4" in script, "a host has no image of the row"
    assert script == succeeded(project("install", "--script")).stdout


def test_commands_that_need_a_project(folder: Folder) -> None:
    for words in (("add", "paper"), ("remove", "paper"), ("upgrade",)):
        refused = folder(*words)
        assert refused.returncode == 2 and "hint: envbuilder init writes one" in refused.stderr, words
    assert folder("diff").returncode == folder("push", "--registry", "r.example/x").returncode == 2


# --- own sources -----------------------------------------------------------------------------------------


@pytest.fixture
def fork(folder: Folder) -> Folder:
    write_fork(folder.path)
    succeeded(folder("init", *DIMENSIONS))
    return folder


def write_fork(path: Path, version: str = "0.6.0", requires: tuple[str, ...] = ()) -> None:
    (path / "verl").mkdir(exist_ok=True)
    (path / "verl" / "__init__.py").write_text("")
    (path / "pyproject.toml").write_text(PYPROJECT)
    lines = [f"Requires-Dist: {item}" for item in requires]
    (path / "backend.py").write_text(BACKEND.format(version=version, requires=lines))


def test_a_fork_in_the_folder_takes_the_place_of_the_source(fork: Folder) -> None:
    assert 'sources = { verl = "." }' in fork.text()
    rendered = succeeded(fork("render")).stdout
    assert "rm -rf src/verl" in rendered and "sources/verl.tar.gz" in rendered
    assert "the evidence of the row does not cover this project: verl differ" in succeeded(fork("show")).stdout


def test_a_project_with_the_name_of_a_framework_keeps_the_image_of_the_row(fork: Folder) -> None:
    """A clone of a fork is in a folder of that name."""
    file = fork.path / "envbuilder.toml"
    file.write_text(f'{fork.text()}name = "verl"\n')
    printed = succeeded(fork("run", "--print", "docker")).stdout
    assert "envbuilder/verl-project:v0.6.0-" in printed and "envbuilder/verl:v0.6.0-" not in printed


def test_the_requirements_of_a_fork_are_locked(fork: Folder) -> None:
    write_fork(fork.path, requires=("paper", "numpy<2", "torch"))
    succeeded(fork("lock"))
    assert fork.packages() == {"paper": "1.5"}
    write_fork(fork.path, requires=("numpy>=2.3",))
    refused = fork("lock")
    assert refused.returncode == 3
    assert "the project's verl requires numpy>=2.3, and the row has numpy 1.26.4" in refused.stderr


def test_a_lock_is_older_than_the_requirements_of_a_fork(fork: Folder) -> None:
    file = fork.path / "pyproject.toml"
    file.write_text(f"{file.read_text()}dependencies = []\n")
    (fork.path / "requirements-npu.txt").write_text("paper\n")
    refused = fork("show")
    assert refused.returncode == 3 and "hint: run: envbuilder lock" in refused.stderr
    assert "pyproject.toml, requirements-npu.txt of verl changed since" in refused.stderr
    # what states no requirements changes nothing
    file.write_text(PYPROJECT)
    (fork.path / "requirements-npu.txt").unlink()
    (fork.path / "verl" / "__init__.py").write_text("MINE = 1\n")
    succeeded(fork("show"))


def test_a_script_cannot_have_a_fork(fork: Folder) -> None:
    refused = fork("install", "--script")
    assert refused.returncode == 2 and "`envbuilder install` takes them from the folder" in refused.stderr


def test_a_fork_of_another_release_is_named(fork: Folder) -> None:
    write_fork(fork.path, version="0.9.0")
    assert "is verl 0.9.0, and the row is made for v0.6.0" in succeeded(fork("lock")).stderr


def test_a_fork_that_cannot_be_built(fork: Folder) -> None:
    (fork.path / "backend.py").write_text("raise RuntimeError('no compiler')\n")
    before = fork.text("envbuilder.lock")
    refused = fork("lock")
    assert refused.returncode == 3 and "cannot be built" in refused.stderr and "no compiler" in refused.stderr
    assert fork.text("envbuilder.lock") == before


def test_commands_that_read_run_nothing_of_a_fork(fork: Folder) -> None:
    hostile = "import pathlib; pathlib.Path('ran').touch()\n"
    for name in ("backend.py", "verl/__init__.py"):
        (fork.path / name).write_text(hostile)
    subprocess.run(["git", "init", "-q", "."], check=True)
    subprocess.run(["git", "config", "core.fsmonitor", "touch ran; false"], check=True)
    for words in (
        ("show",),
        ("check",),
        ("render",),
        ("lock", "--check"),
        ("run", "--print", "docker"),
        ("show", "--json"),
    ):
        succeeded(fork(*words))
    succeeded(fork("run", "--print", "docker", "--dev"))
    # a file that may state requirements is read, and makes the lock old
    (fork.path / "setup.py").write_text(hostile)
    assert fork("show").returncode == fork("render").returncode == 3
    assert not list(fork.path.rglob("ran"))


def test_an_unknown_source_names_the_known_ones(fork: Folder) -> None:
    (fork.path / "envbuilder.toml").write_text(fork.text().replace("verl = ", "torch = "))
    refused = fork("lock")
    assert refused.returncode == 3 and "no source tree of 'torch'" in refused.stderr and "verl" in refused.stderr


def test_the_imports_of_a_fork_are_checked(fork: Folder) -> None:
    mirror = fork.path.parent / "mirror"
    mirror.mkdir()
    found = fork("check", "--sources", "--git-mirror", str(mirror), "--source", "git")
    assert (
        found.returncode == 3 and "verl v0.6.0 has no module verl.trainer.main_ppo, which the row uses" in found.stdout
    )


def test_a_container_with_the_sources_of_the_folder(fork: Folder) -> None:
    printed = succeeded(fork("run", "--print", "docker", "--dev")).stdout
    assert (
        f"--volume {fork.path}:/opt/envbuilder/src/verl" in printed and f"--user {os.getuid()}:{os.getgid()}" in printed
    )
    assert "envbuilder/mine:v0.6.0-" in printed


def test_an_editor_opens_the_project(fork: Folder) -> None:
    assert (
        succeeded(fork("run", "--print", "devcontainer", "--dev", "--env", "A=1")).stdout
        == ".devcontainer/devcontainer.json\n"
    )
    comment, _, text = fork.text(".devcontainer/devcontainer.json").partition("\n")
    found = json.loads(text)
    assert comment.startswith("// Written by envbuilder")
    assert found["image"].startswith("envbuilder/mine:v0.6.0-") and found["containerEnv"]["A"] == "1"
    assert f"type=bind,source={fork.path},target=/opt/envbuilder/src/verl" in found["mounts"]
    (fork.path / ".devcontainer/devcontainer.json").write_text("{}")
    refused = fork("run", "--print", "devcontainer")
    assert refused.returncode == 2 and "was not written by envbuilder" in refused.stderr


# --- another release -------------------------------------------------------------------------------------


def test_a_project_moves_to_another_release(project: Folder) -> None:
    succeeded(project("add", "paper"))
    moved = succeeded(project("upgrade", "--to", "v0.7.1"))
    assert "verl-v0.6.0-sglang-cpu-x86_64 -> verl-v0.7.1-sglang-cpu-x86_64" in moved.stdout
    assert 'branch = "v0.7.1"' in project.text() and project.packages() == {"paper": "1.5"}
    again = succeeded(project("upgrade", "--to", "v0.7.1"))
    assert "the project is on verl-v0.7.1-sglang-cpu-x86_64 already" in again.stderr


def test_an_addition_that_no_longer_fits_moves_nothing(project: Folder) -> None:
    small_wheel(project.wheels, "old-times", "1.0", requires=("ray==2.46.0",))
    succeeded(project("add", "old-times"))
    before = project.text(), project.text("envbuilder.lock")
    refused = project("upgrade", "--to", "v0.9.0")
    assert refused.returncode == 3 and "old-times cannot be installed beside" in refused.stderr
    assert (project.text(), project.text("envbuilder.lock")) == before


# --- values of others ------------------------------------------------------------------------------------

HOSTILE = """it's $(touch /tmp/x) `id` ${HOME} "; RUN true # \\\\"""


def test_values_are_quoted(project: Folder) -> None:
    name = "a b'; $(id) `id`"
    (project.path / name).touch()
    values = {"MOOD": HOSTILE}
    text = f"variables = {{ MOOD = {json.dumps(HOSTILE)} }}\nfiles = {{ {json.dumps(name)} = {json.dumps(f'/w/{name}')} }}\n"
    (project.path / "envbuilder.toml").write_text(project.text() + text)
    dockerfile = succeeded(project("render")).stdout
    (copy,) = (line.strip(" &\\") for line in dockerfile.splitlines() if "cp --recursive" in line)
    assert shlex.split(copy) == ["cp", "--recursive", "--no-target-directory", "files/1", f"/w/{name}"]
    escaped = HOSTILE.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$")
    assert f'MOOD="{escaped}"' in dockerfile
    script = succeeded(project("render", "--format", "script")).stdout
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)
    assert shlex.quote(HOSTILE) in script
    assert json.loads(succeeded(project("show", "--json")).stdout)["environment"]["project"]["variables"] == values
