"""The table [environment] of envbuilder.toml: what it may say, and what is refused with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from envbuilder.environment import Filters
from envbuilder.errors import MatrixError
from envbuilder.project.file import ProjectFile, read_project

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def read(folder: Path, text: str) -> ProjectFile:
    file = folder / "envbuilder.toml"
    file.write_text(text, encoding="utf-8")
    found = read_project(file)
    assert found is not None
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "My Project"
    (made / "fork").mkdir(parents=True)
    (made / "fork" / "setup.py").touch()
    (made / "scripts").mkdir()
    return made


def test_a_whole_file(folder: Path) -> None:
    found = read(
        folder,
        f"""
registry = "registry.example.com/team"
[environment]
framework = "verl"
hw = "a3"
packages = ["swanlab", "math-verify>=0.8"]
system-packages = ["tmux"]
pins = {{ transformers = "4.57.6" }}
variables = {{ SWANLAB_MODE = "offline; rm -rf /" }}
[environment.sources]
verl = "fork"
vllm-ascend = "https://git.example/vllm-ascend.git@{COMMIT}"
[environment.files]
scripts = "/workspace/scripts"
""",
    )
    assert found.name == "my-project" and found.filters == Filters("verl", hardware="a3")
    assert [wish.text for wish in found.packages] == ["swanlab", "math-verify>=0.8"]
    assert str(found.packages[1].where).endswith("envbuilder.toml:6:24")
    assert found.pins == {"transformers": "4.57.6"} and found.system_packages == ("tmux",)
    assert found.sources["verl"].folder == folder / "fork" and found.sources["vllm_ascend"].commit == COMMIT
    assert found.files == {"scripts": "/workspace/scripts"}
    assert found.variables == {"SWANLAB_MODE": "offline; rm -rf /"}


def test_a_file_without_the_table_describes_no_project(folder: Path) -> None:
    (folder / "envbuilder.toml").write_text('hw = "a3"\n')
    assert read_project(folder / "envbuilder.toml") is None


def test_requirements_of_a_file(folder: Path) -> None:
    (folder / "requirements.txt").write_text("# ours\nswanlab  # logs\n\nmath-verify>=0.8\n")
    found = read(folder, '[environment]\nrequirements = "requirements.txt"\n')
    assert [(wish.text, wish.where.line) for wish in found.packages] == [("swanlab", 2), ("math-verify>=0.8", 4)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("pakages = []", "no key 'pakages' in [environment]; did you mean 'packages'?"),
        ("packages = 'swanlab'", "'packages' takes a list of texts"),
        ("packages = ['swanlab==']", "'swanlab==' is not a requirement"),
        ("packages = ['x @ https://x.example/x.whl']", "names an address"),
        ("packages = []\nrequirements = 'r.txt'", "give 'packages' or 'requirements', and not both"),
        ("requirements = 'r.txt'", "r.txt cannot be read"),
        ("system-packages = ['tmux; reboot']", "'tmux; reboot' is not the name of a package of the system"),
        ("pins = { torch = '>=2' }", "'torch' takes one version, such as 1.2.3, and not '>=2'"),
        ("sources = { verl = 'nothing' }", "there is no folder 'nothing'"),
        ("sources = { verl = 'scripts' }", "'scripts' has no Python project"),
        ("sources = { verl = 'https://git.example/verl.git@main' }", "names no commit"),
        ("variables = { 'A B' = '1' }", "'A B' is not the name of a variable"),
        ("variables = { LD_PRELOAD = '/x.so' }", "'LD_PRELOAD' decides which code runs"),
        ("variables = { A = 1 }", "'variables' takes a table of texts"),
        (r'variables = { A = "1\n2" }', "'variables' takes a table of texts"),
        ("files = { 'scripts' = 'workspace' }", "'workspace' is not an absolute path in the image"),
        ("files = { 'scripts' = '/a/../opt' }", "'/a/../opt' is not an absolute path in the image"),
        ("files = { '../..' = '/workspace' }", "'../..' is outside of the project"),
        ("files = { 'scripts' = '/opt/envbuilder/src' }", "'/opt/envbuilder/src' has files of the row"),
        ("files = { 'nothing' = '/workspace' }", "there is no file 'nothing'"),
        ("name = 'A/B'", "'A/B' cannot be a part of the name of an image"),
        ("hw = 3", "'hw' takes one line of text"),
    ],
)
def test_bad_input(folder: Path, line: str, message: str) -> None:
    with pytest.raises(MatrixError) as error:
        read(folder, f"[environment]\n{line}\n")
    assert message in error.value.message
    assert (error.value.where is not None and error.value.where.line >= 2) or "cannot be read" in message


def test_all_problems_are_reported_at_once(folder: Path) -> None:
    with pytest.raises(MatrixError) as error:
        read(folder, "[environment]\nhw = 3\nos = 4\n")
    assert [problem.where.line for problem in error.value.problems] == [2, 3]


def test_a_file_that_is_no_toml(folder: Path) -> None:
    with pytest.raises(MatrixError, match="it cannot be read"):
        read(folder, "[environment\n")
    with pytest.raises(MatrixError, match="nested too deeply"):
        read(folder, f"environment = {'[' * 50_000}\n")


def test_the_digest_follows_what_a_lock_depends_on(folder: Path) -> None:
    one = read(folder, "[environment]\npackages = ['x']\n")
    same = read(folder, "# a comment\n[environment]\npackages = [ 'x' ]\nvariables = { A = '1' }\n")
    other = read(folder, "[environment]\npackages = ['x>=1']\n")
    assert one.digest == same.digest != other.digest
