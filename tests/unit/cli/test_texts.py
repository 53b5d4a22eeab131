"""Small texts of commands: true for whoever reads them, and complete on a narrow terminal."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from envbuilder import paths
from envbuilder.cli.changes import show_change
from envbuilder.cli.console import Console
from envbuilder.matrix import load
from envbuilder.plan.diff import Change
from tests.conftest import run, succeeded


def test_a_reason_that_another_machine_recorded_is_not_about_this_one(tmp_path: Path) -> None:
    row = "openrlhf-v0.6.2-vllm-a2-x86_64"
    for words in (("lock", "--check", row), ("bake", row, "-o", str(tmp_path))):
        result = succeeded(run(*words))
        assert "on the machine that tried to lock it: needs torchvision 0.20.1+cpu" in result.stderr
        assert "this machine" not in result.stderr


def test_a_warning_says_what_it_means_and_what_to_do() -> None:
    words = ("verl-v0.9.0-vllm-cpu-x86_64", "--dry-run")
    result = succeeded(run("build", *words))
    assert "warning[file-not-seen] the hash of torchaudio-2.10.0+cpu-" in result.stderr
    assert "its index was out of reach when the row was locked\n  hint: nothing to do: if the index" in result.stderr
    assert "the source: ByteDance-Seed/VeOmni:uv.lock" in result.stderr


def test_an_installed_wheel_names_files_that_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load().hardware["a3"].where.file == "matrices/hardware/a3.yaml"
    monkeypatch.setattr("envbuilder.paths.is_checkout", lambda: False)
    assert load(everything=True).hardware["a3"].where.file == str(paths.matrices() / "hardware/a3.yaml")


def test_settings_are_shown_as_they_are_set(tmp_path: Path) -> None:
    place = {"XDG_CONFIG_HOME": str(tmp_path)}
    succeeded(run("config", "set", "mirror", "one.example", "two.example", **place))
    succeeded(run("config", "set", "no-progress", "yes", **place))
    shown = succeeded(run("config", **place)).stdout
    assert "one.example two.example" in shown and "['" not in shown
    assert "no-progress  true" in shown


@pytest.mark.parametrize(
    ("variables", "host"),
    [({"SSH_CONNECTION": "192.0.2.7 50000 192.0.2.8 22"}, "192.0.2.8"), ({"SSH_CONNECTION": ""}, "server")],
)
def test_the_page_of_a_server_is_copied(
    variables: dict[str, str], host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("webbrowser.open", lambda _: pytest.fail("a browser of the server was opened"))
    monkeypatch.setattr("platform.node", lambda: "server")
    result = succeeded(run("choose", XDG_STATE_HOME=str(tmp_path), **variables))
    command = f"scp {host}:{tmp_path}/envbuilder/chooser.html ."
    assert f"on your computer, run `{command}` and open the copy" in result.stderr


def test_a_change_that_is_too_long_breaks_between_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    change = Change("steps", "MindSpeed: fetch commit", "a" * 40, "b" * 40)
    monkeypatch.setattr(Console, "is_terminal", property(lambda _: True))
    monkeypatch.setattr(Console, "width", property(lambda _: 80))
    show_change(change, Console(color="never"))
    assert capsys.readouterr().out.splitlines() == [
        f"    MindSpeed: fetch commit {'a' * 40} ->", f"    {'b' * 40}"
    ]  # fmt: skip
    show_change(Change("pins", "verl", "v1", "v2"), Console(color="never"))
    assert capsys.readouterr().out == "    verl  v1 -> v2\n"


def test_an_incomplete_name_suggests_environments_for_npus() -> None:
    hint = run("show", "verl").stderr.splitlines()[1]
    assert hint.startswith("hint: nearest: verl-v0.9.1-vllm-a2-aarch64, ") and "-cpu-" not in hint
    assert "nearest: verl-v0.9.1-vllm-cpu-aarch64, " in run("show", "verl-cpu").stderr


@pytest.mark.parametrize("page", ["offline.md", "offline.zh.md"])
def test_each_block_of_the_offline_guide_is_for_one_machine(page: str) -> None:
    text = (paths.matrices().parent / "docs" / "guides" / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```\n(.+?)```$", text, re.M | re.S)
    assert len(blocks) == 12 and all(block.count("\n") == 1 for block in blocks)
    assert [block for block in blocks if " pull " in block and "--registry" not in block] == []
