"""Help and messages in Chinese: complete for help, current for messages, and nothing else changes."""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from envbuilder.cli import COMMANDS, EXIT_CODES, GROUPS, cli
from envbuilder.cli.help import long_name
from envbuilder.cli.language import read, translated
from tests.conftest import run

CATALOGUE = read("zh")
PACKAGE = Path(inspect.getfile(translated)).parents[1]
CHINESE = re.compile(r"[\u4e00-\u9fff]")


def helps() -> Iterator[str]:
    """Yield every text of the help, a paragraph at a time."""
    yield from (*GROUPS, *COMMANDS.values(), *EXIT_CODES.values())
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        for item in (command, *getattr(command, "commands", {}).values()):
            yield from (" ".join(part.split()) for part in inspect.cleandoc(item.help or "").split("\n\n"))
            yield from (
                option.help
                for option in item.params
                if isinstance(option, click.Option) and option.help and long_name(option) != "help"
            )


def test_every_text_of_the_help_is_translated() -> None:
    missing = [text for text in dict.fromkeys(helps()) if text not in CATALOGUE]
    assert missing == []
    assert [text for text, other in CATALOGUE.items() if not CHINESE.search(other)] == []


def texts() -> set[str]:
    """Return the strings of the code as the catalogue has them: {} for every value."""
    found: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.update(
                    (node.value, *(" ".join(part.split()) for part in inspect.cleandoc(node.value).split("\n\n")))
                )
            elif isinstance(node, ast.JoinedStr):
                found.add("".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values))
    return found


def test_no_translation_is_of_a_text_that_the_code_no_longer_has() -> None:
    known = {re.sub(r"(\{\})+", "{}", text).strip() for text in texts()}
    # a plural, and a guess before the known names, are put together from parts
    composed = {
        "did you mean '{}'? known: {}",
        "known: {}",
        "nearest: {}",
        "{} environments; `envbuilder show ID` shows more",
    }
    composed |= {"{} environment; `envbuilder show ID` shows more"}
    assert [text for text in CATALOGUE if text not in known and text not in composed] == []


def test_values_stay_in_their_places() -> None:
    for text, other in CATALOGUE.items():
        numbers = {int(number) for number in re.findall(r"\{(\d)\}", other)}
        assert numbers == set(range(text.count("{}"))), text


@pytest.mark.parametrize("variable", ["LANG", "LC_ALL", "LANGUAGE"])
def test_the_language_of_the_user(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    english = run("list", "--hw", "a22")
    chinese = run("list", "--hw", "a22", **{variable: "zh_CN.UTF-8"})
    assert "no environment has the hardware 'a22'" in english.stderr and not CHINESE.search(english.stderr)
    assert "没有哪个环境的 hardware 是“a22”" in chinese.stderr and "是不是想输入“a2”" in chinese.stderr
    assert (chinese.returncode, chinese.stdout) == (english.returncode, english.stdout)
    shown = run("build", "--help", **{variable: "zh_CN"}).stdout
    assert "按锁文件和源码构建环境的镜像，并验证。" in shown and "--registry-mirror" in shown
    assert not CHINESE.search(run("build", "--help", **{variable: "en_US.UTF-8"}).stdout)


def test_what_programs_read_is_the_same() -> None:
    words = ("show", "verl-v0.8.0-vllm-a3-aarch64", "--json")
    assert json.loads(run(*words, LANGUAGE="zh_CN").stdout) == json.loads(run(*words).stdout)
