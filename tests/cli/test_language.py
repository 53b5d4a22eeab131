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
from envbuilder.cli.language import columns, lines, read, translated
from envbuilder.docker.failures import HINTS, hint_with_log
from envbuilder.matrix import load
from tests.conftest import run

CATALOGUE = read("zh")
PACKAGE = Path(inspect.getfile(translated)).parents[1]
CHINESE = re.compile(r"[\u4e00-\u9fff\uff00-\uffef]")


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


def pieces(node: ast.AST) -> Iterator[str]:
    """Yield the text of an expression as the catalogue has it: {} for every value."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        parts = (str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        yield re.sub(r"(\{\})+", "{}", "".join(parts))
    elif isinstance(node, ast.IfExp):
        yield from (*pieces(node.body), *pieces(node.orelse))


def code() -> Iterator[tuple[Path, ast.AST]]:
    """Yield what the package says here; the files within containers speak English."""
    for path in PACKAGE.rglob("*.py"):
        if "inside" not in path.parts:
            yield from ((path, node) for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


# a name, a command or an option alone, or values alone: there is nothing to translate
COMMAND = re.compile(r"(envbuilder [a-z]+|docker pull|docker login|apt-get install|pip install|tar|--[a-z]+)\b[^,]*")
VALUES = re.compile(r"(?=.*\{\})[^a-z]*[a-z]*[^a-z]*")
# of these modules every error speaks to developers alone
INTERNAL = {"record.py", "types.py", "text.py"}


def test_every_message_is_translated() -> None:
    missing = []
    for path, node in code():
        if not isinstance(node, ast.Call) or path.name in INTERNAL:
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if (name.endswith("Error") and name != "AttributeError") or name in {"talk", "warn", "heading", "entry"}:
            said = [
                *node.args[name == "warn" :],
                *(item.value for item in node.keywords if item.arg in {"hint", "message"}),
            ]
        elif name == "Finding" and {"doctor", "diagnose"} & set(path.parts):
            said = node.args[1:]
        else:
            continue
        for text in (text.strip() for part in said for text in pieces(part)):
            text = text.removeprefix("perhaps: ")
            known = text in CATALOGUE or text.removeprefix("{}") in CATALOGUE
            if not known and not COMMAND.fullmatch(text) and not VALUES.fullmatch(text):
                missing.append((path.name, text))
    assert missing == []


def test_no_translation_is_of_a_text_that_the_code_no_longer_has() -> None:
    known = {text for _, node in code() for text in pieces(node)}
    known |= {" ".join(text.split()) for symptom in load().symptoms for text in (symptom.cause, symptom.remedy)}
    known |= {" ".join(part.split()) for text in known for part in inspect.cleandoc(text).split("\n\n")}
    # a list is put together from parts
    parts = {part for text in known for part in text.split("{}")}
    said = "\n".join(parts)
    unknown = [text for text in CATALOGUE if not all(part.strip(" ,;") in said for part in text.split("{}"))]
    assert [text for text in unknown if not re.fullmatch(r"\{\} \w+s", text)] == []


def test_every_cause_and_remedy_is_translated() -> None:
    texts = {" ".join(text.split()) for symptom in load().symptoms for text in (symptom.cause, symptom.remedy)}
    is_command = re.compile(r"(pip install|export|unset) \S+( \S+)*")
    assert [text for text in sorted(texts) if text not in CATALOGUE and not is_command.fullmatch(text)] == []


def test_every_hint_on_a_failed_step_is_translated(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [hint for hint in HINTS.values() if hint not in CATALOGUE] == []
    monkeypatch.setenv("LANGUAGE", "zh")
    hint = hint_with_log(["No space left on device"], Path("/x/build.log"))
    assert (
        translated(hint) == "引擎所在的磁盘已满：运行 docker system prune，或迁移它的数据目录；完整日志：/x/build.log"
    )
    assert translated(hint_with_log([], Path("/x/build.log"))) == "完整日志：/x/build.log"


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


def test_a_message_within_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGUAGE", "zh")
    text = "2 environments, such as x: it is for aarch64, and this machine is x86_64"
    assert translated(text) == "2 个环境，例如 x：它用于 aarch64，而本机是 x86_64"
    assert translated("1 environment; `envbuilder show ID` shows more").startswith("1 个环境；")


@pytest.mark.parametrize("width", [20, 33, 80])
def test_lines_of_chinese_fit(width: int) -> None:
    text = "它需要 Atlas A3 (Ascend 910C, 910_93) 的芯片，而没有发现 NPU；见 `envbuilder doctor`。"
    found = lines(text, width)
    assert all(columns(line) <= width + 2 for line in found)
    assert "".join(found).replace(" ", "") == text.replace(" ", "")
    assert not any(line.startswith(("，", "；", "。")) for line in found)
