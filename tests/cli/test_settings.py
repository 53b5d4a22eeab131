"""The settings files, the variables and their precedence; and the cache."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from envbuilder.cli import COMMANDS, cli, options, settings
from tests.conftest import run, start, succeeded


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Return the future files of a user, and of a project above the working folder."""
    inner = tmp_path / "project" / "inner"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config" / "envbuilder" / settings.FILE, tmp_path / "project" / settings.FILE


def hardware(*words: str, **variables: str) -> set[str]:
    return {name.split("-")[3] for name in run("list", "verl-v0.8.0-vllm-*", *words, **variables).stdout.split()}


def test_the_command_line_wins_over_variables_and_these_over_files(folders: tuple[Path, Path]) -> None:
    user, project = folders
    assert hardware() == {"a2", "a3", "cpu", "cuda"}
    assert run("config", "set", "hw", "a2").returncode == 0
    assert user.read_text() == 'hw = "a2"\n' and hardware() == {"a2"}
    project.write_text('# of the project\nhw = "a3"\n')
    assert hardware() == {"a3"}
    assert hardware(ENVBUILDER_HW="cpu") == {"cpu"}
    assert hardware("--hw", "a2", ENVBUILDER_HW="cpu") == {"a2"}
    assert run("config", "unset", "hw", "--project").returncode == 0
    assert project.read_text() == "# of the project\n" and hardware() == {"a2"}


def test_one_registry_for_all_commands(folders: tuple[Path, Path]) -> None:
    assert run("pull", "--hw", "cpu").returncode == 2
    assert "no registry to pull from is set" in run("pull", "--hw", "cpu").stderr
    run("config", "set", "registry", "registry.example.com/ascend")
    printed = run("run", "--hw", "a3", "--print", "docker").stdout
    assert "registry.example.com/ascend/verl:" in printed
    assert "registry.example.com/ascend/verl:" in run("quickstart", "--hw", "a3", "--nodes", "2").stdout


def test_paths_belong_to_the_file_that_names_them(folders: tuple[Path, Path], tmp_path: Path) -> None:
    _, project = folders
    overlay = tmp_path / "project" / "mine"
    (overlay / "hardware").mkdir(parents=True)
    project.write_text('matrices = "mine"\n')
    assert f"the matrix folder '{overlay}' contains no YAML file" in run("list").stderr


def test_a_public_key_belongs_to_the_file_that_names_it(folders: tuple[Path, Path]) -> None:
    _, project = folders
    project.write_text('verify-key = "registry.example.com/team=team.pub"\n')
    project.with_name("team.pub").write_text("no key")
    result = run("pull", "--hw", "a3", "--registry", "registry.example.com/team")
    assert "there is no file" not in result.stderr and f"{project.with_name('team.pub')}" in result.stderr


def test_a_value_of_several_lines_is_one_value(folders: tuple[Path, Path]) -> None:
    user, _ = folders
    user.parent.mkdir(parents=True)
    user.write_text('# ours\nmirror = [\n  "one.example",  # near\n  "two.example",\n]\n"hw" = "a2"\nengine = "vllm"\n')
    assert run("config", "set", "mirror", "three.example").returncode == 0
    assert run("config", "unset", "hw").returncode == 0
    assert user.read_text() == '# ours\nengine = "vllm"\nmirror = ["three.example"]\n'


def test_settings_are_listed_with_their_origin(folders: tuple[Path, Path]) -> None:
    user, _ = folders
    assert run("config").stdout == ""
    run("config", "set", "mirror", "one.example", "two.example")
    run("config", "set", "no-progress", "true")
    listed = json.loads(run("config", "--json", ENVBUILDER_HW="a3").stdout)["settings"]
    found = {item["name"]: (item["value"], item["from"]) for item in listed if item["from"] != "default"}
    wanted = {"mirror": ["one.example", "two.example"], "no-progress": True}
    assert found == {**{name: (value, str(user)) for name, value in wanted.items()}, "hw": ("a3", "variable")}
    assert {item["variable"] for item in listed} == {option.envvar for option in options.SETTINGS.values()}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("regstry = 'x'", "there is no setting 'regstry'"),
        ("hw = ['a2', 'a3']", "'hw' takes one value"),
        ("hw = ", "is not TOML"),
        ("[build]\nhw = 'a3'", "there is no setting 'build'"),
        ("hw = 5", "'hw' takes one line of text, not a number"),
        ("matrices = 5", "'matrices' takes one line of text, not a number"),
        ("ca-bundle = 2025-01-01", "'ca-bundle' takes one line of text, not another value"),
        ('matrices = "a\\u0000b"', "'matrices' takes one line of text, not a text with control characters"),
        ("mirror = [['a']]", "'mirror' takes one line of text, not a list"),
        ("sign-key = {a = 1}", "'sign-key' takes one line of text, not another value"),
        ("json = 5", "'json' takes true or false, not a number"),
        ("json = 'maybe'", "'json' takes true or false, not a text"),
        ("verbose = inf", "'verbose' takes a number, not another value"),
        ("quiet = true", "'quiet' takes a number, not true or false"),
        ("quiet = " + "9" * 5000, "is not TOML"),
        ("mirror = " + "[" * 5000 + "]" * 5000, "is not TOML"),
        ("\ufeff\ud7ff\x00", "is not TOML"),
    ],
)
def test_a_wrong_file_is_an_error(folders: tuple[Path, Path], text: str, words: str) -> None:
    _, project = folders
    project.write_text(text)
    result = run("list")
    assert (result.returncode, result.stdout) == (2, "") and words in result.stderr and str(project) in result.stderr


@pytest.mark.parametrize(
    "words", [["regstry", "x"], ["color", "blue"], ["hw", "a2", "a3"], ["ca-bundle", "missing.pem"], ["debug", "maybe"]]
)
def test_a_wrong_value_is_not_written(folders: tuple[Path, Path], words: list[str]) -> None:
    user, _ = folders
    assert run("config", "set", *words).returncode == 2
    assert not user.exists()


def test_every_setting_is_known_before_its_command_is_imported(folders: tuple[Path, Path]) -> None:
    """In a new process: the settings must not depend on the commands that were imported before."""
    folders[1].write_text("".join(f'{key} = "x"\n' for key in ("model-mirror", "wheel-cache", "pip-index")))
    for words in (["list"], ["config"], ["config", "set", "model-mirror", "x"]):
        succeeded(start(*words))


def test_every_option_of_one_name_has_one_variable() -> None:
    """Options that remove or publish have no variable."""
    variables: dict[str, set[object]] = {}

    def gather(command: click.Command) -> None:
        for found in getattr(command, "commands", {}).values():
            gather(found)
        for item in command.params:
            if isinstance(item, click.Option):
                variables.setdefault(item.opts[-1], set()).add(item.envvar)

    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        gather(command)
    for option, found in variables.items():
        if option.removeprefix("--") in options.SETTINGS:
            assert len(found - {None}) == 1, option
    for option in ("--force", "--replace", "--push", "--record", "--all"):
        assert variables[option] == {None}, option


def test_the_cache_is_shown_and_emptied(tmp_path: Path) -> None:
    folder = tmp_path / "envbuilder"
    (folder / "wheels" / "a").mkdir(parents=True)
    (folder / "wheels" / "a" / "x.whl").write_bytes(bytes(3_000_000))
    (folder / "matrix.json").write_bytes(bytes(10))
    (tmp_path / "other").touch()
    sizes = json.loads(run("cache", "size", "--json", XDG_CACHE_HOME=str(tmp_path)).stdout)["bytes"]
    assert sizes == {"wheels": 3_000_000, "sources": 0, "index": 0, "matrix.json": 10}
    assert "3.0 MB" in run("cache", "size", XDG_CACHE_HOME=str(tmp_path)).stdout
    assert run("cache", "prune", "--part", "wheels", XDG_CACHE_HOME=str(tmp_path)).returncode == 0
    assert not (folder / "wheels").exists() and (folder / "matrix.json").exists()
    run("cache", "prune", XDG_CACHE_HOME=str(tmp_path))
    assert not list(folder.iterdir()) and (tmp_path / "other").exists()


def test_changes_at_the_same_time_are_all_kept(folders: tuple[Path, Path], tmp_path: Path) -> None:
    """Eight scripts of two users at once, each with ten settings of its own."""
    user, _ = folders
    names = sorted(
        name for name, option in options.SETTINGS.items() if isinstance(option.type, click.types.StringParamType)
    )
    code = (
        "import sys; from envbuilder.cli import settings\n"
        "for number in range(10): settings.change(settings.user_file(), f'{sys.argv[1]}-{number}', 'x')"
    )
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", code, name], env={**os.environ, "XDG_STATE_HOME": str(tmp_path / f"state-{at % 2}")}
        )
        for at, name in enumerate(names[:8])
    ]
    assert [item.wait() for item in writers] == [0] * 8
    assert len(user.read_text().splitlines()) == 80


SECRET = "s3cret"  # noqa: S105


@pytest.mark.parametrize(
    ("name", "address", "shown"),
    [
        ("proxy", f"http://ann:{SECRET}@proxy.example:3128", "http://***@proxy.example:3128"),
        ("proxy", f"ann:{SECRET}@proxy.example:3128", "***@proxy.example:3128"),
        ("pip-index", f"https://{SECRET}@index.example/simple", "https://***@index.example/simple"),
        ("pip-index", f"https://ann:a/b@{SECRET}@index.example/simple", "https://***@index.example/simple"),
        ("git-mirror", f"ssh://ann:{SECRET}@git.example/a@b", "ssh://***@git.example/a@b"),
        ("index-url", "https://index.example:8080/simple/@team", "https://index.example:8080/simple/@team"),
        ("index-url", "https://index.example/simple/@team", "https://index.example/simple/@team"),
    ],
)
def test_passwords_are_not_listed(folders: tuple[Path, Path], name: str, address: str, shown: str) -> None:
    user, _ = folders
    printed = [succeeded(run("config", "set", name, address)), run("config"), run("config", "--json")]
    printed += [
        run("config", *words, **{f"ENVBUILDER_{name.upper().replace('-', '_')}": address}) for words in ([], ["--json"])
    ]
    assert not [item for item in printed if SECRET in item.stdout + item.stderr]
    assert all(shown in item.stdout for item in printed[1:])
    assert address in user.read_text()


def test_passwords_of_a_list_are_not_listed(folders: tuple[Path, Path]) -> None:
    succeeded(run("config", "set", "mirror", f"http://ann:{SECRET}@one.example", "two.example"))
    printed = run("config").stdout + run("config", "--json").stdout
    assert SECRET not in printed and printed.count("http://***@one.example") == 2 and printed.count("two.example") == 2
    folders[1].write_text(f'proxy = ["http://ann:{SECRET}@proxy.example"]\n')
    wrong = run("list")
    assert wrong.returncode == 2 and SECRET not in wrong.stderr


def test_only_the_user_can_read_the_settings_of_the_user(folders: tuple[Path, Path]) -> None:
    user, project = folders
    before = os.umask(0o022)
    try:
        run("config", "set", "hw", "a2")
        project.touch()
        run("config", "set", "hw", "a2", "--project")
    finally:
        os.umask(before)
    assert user.stat().st_mode & 0o777 == 0o600 and project.stat().st_mode & 0o777 == 0o644
    user.chmod(0o644)
    run("config", "set", "hw", "a2")
    assert user.stat().st_mode & 0o777 == 0o600
