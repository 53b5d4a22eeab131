"""Every example of the READMEs runs, and both READMEs show the same ones."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from envbuilder.cli import cli
from envbuilder.environment import Catalog, Filters
from envbuilder.matrix import Matrix
from tests.conftest import run, start

ROOT = Path(__file__).resolve().parents[2]


def examples(name: str) -> list[str]:
    text = (ROOT / name).read_text(encoding="utf-8")
    return re.findall(r"^\$ envbuilder (.+)$", text, re.MULTILINE)


@pytest.mark.parametrize("example", examples("README.md"))
def test_the_example_runs_without_an_engine(example: str) -> None:
    result = start(*shlex.split(example), DOCKER_HOST="unix:///no-engine.sock")
    # a new release may have no lock yet, which other tests report, but no lock may be stale
    without_lock = result.returncode == 3 and "--check" in example and " 0 stale" in result.stderr
    assert result.returncode == 0 or without_lock, result.stderr
    assert result.stdout or result.stderr


# the commands of generated pages are tested with them
GENERATED = {"cli.md", "cli.zh.md", "json.md", "matrix.md", "rules.md"}
PAGES = sorted(path for path in (ROOT / "docs").rglob("*.md") if path.name not in GENERATED)
READMES = [ROOT / "README.md", ROOT / "README.zh-CN.md"]
COMMAND = re.compile(r"^(?:\$ )?(envbuilder [a-z].+)$", re.MULTILINE)


@pytest.mark.parametrize("page", [*READMES, *PAGES], ids=lambda path: path.name)
def test_the_commands_of_a_page_are_valid(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those with a prompt run; the others need an engine, a network or files, and are parsed."""
    monkeypatch.chdir(tmp_path)
    for name in ("npu.log", "gpu.log", "verl.bundle", "verl.tar", "report.txt", "team.key", "team.pub"):
        (tmp_path / name).touch()
    blocks = "".join(
        re.findall(r"^```(?:console)?\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    )
    for line in COMMAND.findall(blocks):
        _, name, *words = shlex.split(line, comments=True)
        command = cli.get_command(click.Context(cli), name)
        assert command is not None, line
        if f"$ {line}" in blocks:
            # those of the READMEs run as a test each
            assert page in READMES or run(name, *words).returncode == 0, line
        elif not isinstance(command, click.Group):
            command.make_context(name, words)


def test_english_and_chinese_pages_have_the_same_commands() -> None:
    for page in PAGES:
        other = page.with_suffix(".zh.md")
        if other.exists():
            both = [
                set(re.findall(r"^\$ (.+)$", item.read_text(encoding="utf-8"), re.MULTILINE)) for item in (page, other)
            ]
            assert both[0] == both[1], page


def test_both_readmes_have_the_same_examples() -> None:
    assert examples("README.md") == examples("README.zh-CN.md")
    targets = [
        re.findall(r"^    (make \w+)", (ROOT / name).read_text(encoding="utf-8"), re.M)
        for name in ("README.md", "README.zh-CN.md")
    ]
    assert targets[0] == targets[1]
    assert len(targets[0]) == 2


def test_both_readmes_have_the_same_blocks() -> None:
    """The one in Chinese has one more, with mirrors, and is short enough to be read."""

    def commands(name: str) -> list[str]:
        lines = re.findall(r"^((?:uv|envbuilder) [^#\n]+)", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE)
        return [line.strip() for line in lines if "--index-url" not in line and "config set" not in line]

    assert commands("README.md") == commands("README.zh-CN.md")
    assert commands("README.md")[1:4] == ["envbuilder doctor", "envbuilder build", "envbuilder quickstart --run"]
    assert len((ROOT / "README.zh-CN.md").read_text(encoding="utf-8").splitlines()) <= 120


def test_the_table_names_the_row_of_each_architecture(matrix: Matrix) -> None:
    """Where a command chooses another release on another architecture, the table has both."""
    (row,) = re.findall(r"^.*`envbuilder build --hw cpu` (.*)$", (ROOT / "README.md").read_text(encoding="utf-8"), re.M)
    for arch in ("aarch64", "x86_64"):
        chosen = Catalog(matrix).pick(None, Filters(hardware="cpu", arch=arch))
        assert re.search(rf"\b{arch}[^:;]*: {re.escape(chosen.branch.title)},", row), chosen.id


def test_links_of_the_readmes_exist() -> None:
    for name in ("README.md", "README.zh-CN.md", "CONTRIBUTING.md"):
        for link in re.findall(r"\]\(([^)#]+)\)", (ROOT / name).read_text(encoding="utf-8")):
            # those above the repository are pages of its host, such as its issues; sources are elsewhere
            assert link.startswith(("../../", "https://")) or (ROOT / link).exists(), f"{name}: {link}"


def test_ci_calls_the_test_command_of_the_readme() -> None:
    assert "make test" in (ROOT / ".ci/run").read_text(encoding="utf-8")
