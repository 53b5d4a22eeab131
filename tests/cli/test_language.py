"""Help and messages in Chinese: each is a translated template, and nothing else changes."""

from __future__ import annotations

import ast
import inspect
import json
import re
import string
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest

from envbuilder import language
from envbuilder.cli import COMMANDS, EXIT_CODES, GROUPS, cli
from envbuilder.cli.columns import columns, lines
from envbuilder.cli.help import long_name
from envbuilder.cli.options import SETTINGS
from envbuilder.docker.failures import CAUSES, build_failure
from envbuilder.environment.packages import source_builds
from envbuilder.language import counted, did_you_mean, english, read, speaking, tr
from envbuilder.lock.explain import failure
from envbuilder.matrix import Matrix, load
from envbuilder.validate.smoke.judge import judge_engine
from tests.conftest import A3_SGLANG, environment, run

CATALOGUE = read("zh")
CPU = "verl-v0.8.0-vllm-cpu-x86_64"
PACKAGE = Path(inspect.getfile(language)).parent
CHINESE = re.compile(r"[\u4e00-\u9fff\uff00-\uffef]")
# what runs in containers, and what a report quotes, is in English
ENGLISH_PARTS = {"inside", "suite"}


def helps() -> Iterator[str]:
    """Yield every text of the help, a paragraph at a time."""
    yield from (*GROUPS, *COMMANDS.values(), *EXIT_CODES.values())
    # one that no command has is only in the list of settings
    yield from (str(option.help) for option in SETTINGS.values())
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


def data() -> Iterator[str]:
    """Yield the texts of the matrices that messages quote."""
    matrix = load(everything=True)
    for symptom in matrix.symptoms:
        yield from (symptom.cause, symptom.remedy)
    yield from (family.note for family in matrix.chips.families.values() if family.note and not family.supported)
    yield from (setting.because for setting in matrix.host.settings)
    releases = (release for component in matrix.components.values() for release in component.releases)
    yield from (release.note for release in releases if release.note)
    for branch in matrix.branches:
        for issue in branch.known_issues:
            yield " ".join(issue.what.split())
            if issue.messages and issue.workaround:
                yield " ".join(issue.workaround.split())
    for recipe in matrix.recipes:
        yield from recipe.notes
        yield from (" ".join(part.draws.split()) for part in recipe.parts if part.draws)
        yield from (part.because for part in recipe.parts if part.because)
        yield from (rule.because for rule in recipe.rules)


def fields(template: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(template) if name}


# --- the code --------------------------------------------------------------------------------------------


@cache
def modules() -> dict[Path, ast.Module]:
    paths = (path for path in PACKAGE.rglob("*.py") if not ENGLISH_PARTS & set(path.parts))
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def named(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def literals(node: ast.AST) -> Iterator[str]:
    """Yield every text in an expression."""
    yield from (item.value for item in ast.walk(node) if isinstance(item, ast.Constant) and isinstance(item.value, str))


@cache
def constants(name: str, path: Path) -> tuple[str, ...]:
    """Return the texts of a constant of a module, or of the modules that it may come from."""
    own = [text for tree in (modules()[path],) for text in assigned(name, tree)]
    return tuple(own or (text for tree in modules().values() for text in assigned(name, tree)))


def assigned(name: str, tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if name in map(named, targets):
                values = node.value.values if isinstance(node.value, ast.Dict) else [node.value]
                yield from (text for item in values for text in literals(item))


def calls(*functions: str) -> Iterator[tuple[Path, ast.Call]]:
    for path, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and named(node.func) in functions:
                yield path, node


def templates(node: ast.AST, path: Path) -> Iterator[str]:
    """Yield the templates that an argument of `tr` may be."""
    name = named(node.value if isinstance(node, ast.Subscript) else node)
    if isinstance(node, ast.Constant):
        yield str(node.value)
    elif isinstance(node, ast.IfExp):
        yield from (*templates(node.body, path), *templates(node.orelse, path))
    elif isinstance(node, ast.BoolOp):
        yield from (text for value in node.values for text in templates(value, path))
    elif name.isupper():
        yield from (text for text in constants(name, path) if re.search("[a-z]", text))


@cache
def said() -> dict[str, str]:
    """Return every template of the code with its place."""
    found = {}
    for path, node in calls("tr", "english"):
        found.update(dict.fromkeys(templates(node.args[0], path), f"{path.name}:{node.lineno}"))
    for path, node in calls("counted"):
        nouns = list(literals(node.args[1]))
        found.update({f"{{number}} {noun}s": f"{path.name}:{node.lineno}" for noun in nouns})
    return found


def test_every_text_of_the_help_is_translated() -> None:
    missing = [text for text in dict.fromkeys(helps()) if text not in CATALOGUE]
    assert missing == []


def test_every_message_is_translated() -> None:
    assert {text: place for text, place in said().items() if text not in CATALOGUE} == {}


def test_every_text_of_the_matrices_that_messages_quote_is_translated() -> None:
    is_command = re.compile(r"`(pip install|export|unset) \S+( \S+)*`")
    texts = sorted({" ".join(text.split()) for text in data()})
    assert [text for text in texts if text not in CATALOGUE and not is_command.fullmatch(text)] == []


@cache
def of_click() -> set[str]:
    """Return the texts that click has translated."""
    found: set[str] = set()
    for path in Path(inspect.getfile(click)).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and named(node.func) in {"_", "ngettext"}:
                found |= {*literals(node)}
    # the mark of an option that must be given
    return found | {"required"}


def test_every_translation_is_used() -> None:
    known = {*said(), *helps(), *of_click(), *(" ".join(text.split()) for text in data())}
    # words of the data that is shown
    known |= {text for tree in modules().values() for text in literals(tree)}
    assert [text for text in CATALOGUE if text not in known] == []


def test_translations_are_chinese_and_have_the_same_fields() -> None:
    plain = {text: re.sub(r"\{\w+\}", "", other) for text, other in CATALOGUE.items()}
    assert [text for text, other in plain.items() if re.search("[a-z]", other) and not CHINESE.search(other)] == []
    # click names a path twice
    may_lack = {text: {"name"} if text in of_click() else set() for text in CATALOGUE}
    assert {text: other for text, other in CATALOGUE.items() if fields(text) - fields(other) - may_lack[text]} == {}
    assert {text: other for text, other in CATALOGUE.items() if fields(other) - fields(text)} == {}


def test_every_template_gets_its_fields() -> None:
    wrong = []
    for path, node in calls("tr", "english"):
        given = {item.arg for item in node.keywords if item.arg}
        has_more = any(item.arg is None for item in node.keywords)
        for text in literals(node.args[0]) if isinstance(node.args[0], ast.Constant) else ():
            is_right = given <= fields(text) if has_more else given == fields(text) or (not given and "{" in text)
            if not is_right:
                wrong.append((path.name, text, given))
    assert wrong == []


# --- no message without a translation --------------------------------------------------------------------

# only a command, an option or a place: there is nothing to translate
COMMAND = re.compile(
    r"\s*(envbuilder|docker|npu(-smi)?|pip|apt-get|python|cd|env|tar|--[a-z-]+|[a-z0-9_/-]+/[a-z0-9_/-]+|\{\})\b.*|\s*\{\}.*"
)
PROSE = re.compile(r"(?<![\w./'=-])[a-z]{2,}(?![\w./'=-])")
ISSUE = re.compile(r"\{\} issues? [\d, ]+")
PRINTERS = {"talk", "heading", "wrapped", "out", "say", "table", "error"}
# these are only for developers, or write a file
INTERNAL = {"record.py", "types.py", "text.py", "events.py", "keys.py", "junit.py"}


def messages(node: ast.Call) -> list[ast.AST]:
    """Return the arguments of a call that people read."""
    name = named(node.func)
    hints: list[ast.AST] = [item.value for item in node.keywords if item.arg in {"hint", "message", "ask"}]
    if name.endswith("Error") and name not in {"AttributeError", "KeyError", "TypeError"}:
        return [*node.args, *hints]
    if name in PRINTERS and isinstance(node.func, ast.Attribute):
        return [*node.args, *hints]
    if name in {"BadParameter", "fail", "NotRun", "perhaps", "say", "talk"}:
        return [*node.args[:1], *hints]
    if name == "entry":
        return [*node.args[:2], *hints]
    if name in {"warn", "refuse", "Problem", "finding", "said", "noted", "LeftOut"}:
        return [*node.args[1:2], *hints]
    if name in {"Finding", "_of"}:
        return [*node.args[1:3], *hints]
    if name == "Verdict":
        return [*node.args[2:3], *hints]
    return [node.args[3]] if name == "Check" and len(node.args) > 3 else hints


def spelled(node: ast.AST, path: Path) -> Iterator[str]:
    """Yield the untranslated texts of an expression, with {} for every value."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    elif isinstance(node, ast.IfExp):
        yield from (*spelled(node.body, path), *spelled(node.orelse, path))
    elif isinstance(node, ast.BoolOp):
        yield from (text for value in node.values for text in spelled(value, path))
    elif isinstance(node, ast.BinOp):
        yield from (*spelled(node.left, path), *spelled(node.right, path))
    elif isinstance(node, ast.Tuple | ast.List):
        yield from (text for value in node.elts for text in spelled(value, path))
    elif isinstance(node, ast.Name | ast.Attribute) and named(node).isupper():
        yield from constants(named(node), path)


def words(text: str) -> bool:
    """Return whether a text has words to translate; commands and quoted programs do not count."""
    text = re.sub(r'-c ".*"|`', "", text)
    if text in CATALOGUE:
        return True
    if ISSUE.fullmatch(text) or not re.search(r"[a-z]{2}", text.replace("{}", "")):
        return False
    return not COMMAND.fullmatch(text) or len(PROSE.findall(text)) > 3


def untranslated(tree: ast.Module, path: Path) -> Iterator[str]:
    """Yield the texts of messages, and of variables used as messages, that do not come from `tr`."""
    for scope in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        shown = [node for call in ast.walk(scope) if isinstance(call, ast.Call) for node in messages(call)]
        names = {node.id for node in shown if isinstance(node, ast.Name)}
        values = [
            item.value
            for item in ast.walk(scope)
            if isinstance(item, ast.Assign) and any(named(target) in names for target in item.targets)
        ]
        yield from (text for node in (*shown, *values) for text in spelled(node, path) if words(text))


def test_no_message_is_made_without_a_translation() -> None:
    found = {
        str(path.relative_to(PACKAGE)): list(dict.fromkeys(untranslated(tree, path)))
        for path, tree in modules().items()
        if path.name not in INTERNAL
    }
    assert {name: texts for name, texts in found.items() if texts} == {}


# --- runs in Chinese -------------------------------------------------------------------------------------


def in_chinese(*words: str, **variables: str) -> str:
    """Return what a command prints in Chinese, on both streams."""
    result = run(*words, LANGUAGE="zh", COLUMNS="300", **variables)
    return result.stdout + result.stderr


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


def left_in_english(text: str) -> list[str]:
    """Return runs of English words that are longer than a name, a title or a command."""
    quoted = re.sub(r"`[^`]*`|https?://\S+|envbuilder [ a-z-]*", "", text)
    return re.findall(r"(?<![\w./-])(?:[a-z]{2,}[ ,:;]+){2,}[a-z]{2,}(?![\w./-])", quoted)


@pytest.mark.parametrize(
    "words",
    [
        ("compat", "hdk", "24.1.0"),
        ("compat", "torch_npu", "2.8.0"),
        ("compat", "torch_npu", "2.8"),
        ("hardware",),
        ("diff", "verl-v0.7.1-vllm-a3-aarch64", "verl-v0.8.0-vllm-a3-aarch64", "-q"),
        ("check", "--help"),
        ("keys", "new", "--help"),
        ("--help",),
        ("lock",),
        ("quickstart", "--hw", "a3", "--npus", "99"),
    ],
)
def test_nothing_is_left_in_english(words: tuple[str, ...]) -> None:
    # layers, steps and products have names
    names = r"with(out)? (device|custom)|wheels without|driver and|\w+: fetch"
    assert [text for text in left_in_english(in_chinese(*words)) if not re.match(names, text)] == []


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("list", "--hw"), "选项“--hw”需要一个值。"),
        (("build", "--jobs", "0"), "'--jobs' 的值无效：0 不在范围 1<=x<=256 内。"),
        (("compat",), "缺少参数 'COMPONENT'"),
        (("diff", "a", "b", "c"), "多余的参数（c）"),
        (("show", "--nope"), "没有选项“--nope”。"),
        (("check", "--ca-bundle", "nowhere.pem"), "“nowhere.pem”不存在。"),
        (("validate", "--level", "x"), "“x”不在 'static', 'import', 'train' 之中。"),
        (("run", "--help"), "用法: envbuilder run"),
        (("run", "--help"), "[默认：envbuilder]"),
        (("push", "--help"), "[必填]"),
        (("cache", "--help"), "显示此帮助并退出。"),
        (("cache", "--help"), "命令:\n  prune  清空缓存"),
        (("compat", "hdk", "24.1.0"), "来源"),
        (("compat", "torch_npu", "2.8.0"), "  配套发布        PyTorch 2.8.0; CANN 8.3.RC1"),
        (("hardware",), "机型"),
        (("diff", "verl-v0.7.1-vllm-a3-aarch64", "verl-v0.8.0-vllm-a3-aarch64"), "固定版本\n"),
        (("check", "verl-v0.8.0-vllm-a3-aarch64"), "1 个环境：0 个错误，0 个警告，"),
        (("show", "verl-v0.8.0-vllm-a3-aarch64"), "mbridge                 0.15.1   文档值：unpinned"),
        (("quickstart", "--hw", "a3"), "用源码归档构建的镜像不含示例；示例在代码仓库的同一版本中"),
        (
            ("check", "verl-v0.8.0-vllm-a3-aarch64", "--pin", "hdk=24.1.0"),
            "CANN 9.0.0 与 Ascend HDK (driver and firmware) 24.1.0",
        ),
    ],
)
def test_commands_speak_chinese(words: tuple[str, ...], expected: str) -> None:
    assert expected in in_chinese(*words)


def test_config_prints_the_written_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "envbuilder.toml"
    assert f"已写入 {file}" in in_chinese("config", "set", "hw", "a3", "--project")
    assert f"已从 {file} 删除" in in_chinese("config", "unset", "hw", "--project")


# --- what programs read ----------------------------------------------------------------------------------

REPORT = "torch==2.7.1\ntorch_npu==2.5.1\n我们在一台昇腾服务器上安装之后，导入就报错了，请帮忙看看是什么原因，谢谢\n"


@pytest.mark.parametrize(
    "words",
    [
        ("show", "verl-v0.8.0-vllm-a3-aarch64"),
        ("show", "--hw", "cpu"),
        ("check", "verl-v0.8.0-*"),
        ("diff", "verl-v0.8.0-vllm-a3-aarch64", "verl-v0.8.0-vllm-cpu-aarch64"),
        ("diagnose", "report.txt"),
        ("doctor", "--npu-smi", "report.txt"),
        ("quickstart", "--hw", "a3"),
    ],
)
def test_json_is_the_same(words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("report.txt").write_text(REPORT, encoding="utf-8")
    chinese, english = (run(*words, "--json", LANGUAGE=name).stdout for name in ("zh_CN", "en"))
    assert json.loads(chinese) == json.loads(english) and chinese == english


def test_an_error_beside_json_is_in_english() -> None:
    wrong = run("show", "nonsense", "--json", LANGUAGE="zh").stderr
    assert wrong.startswith("error: no environment is named 'nonsense'") and not CHINESE.search(wrong)
    # and the next run is in Chinese again
    assert CHINESE.search(in_chinese("show", "nonsense"))


def test_files_are_in_english(tmp_path: Path) -> None:
    table = tmp_path / "npu-smi.txt"
    table.write_text("dcmi model initialized failed\n", encoding="utf-8")
    words = ("doctor", "--npu-smi", str(table))
    printed = in_chinese(*words, "--report", str(tmp_path / "report.txt"))
    assert CHINESE.search(printed) and not CHINESE.search((tmp_path / "report.txt").read_text(encoding="utf-8"))
    for form in (("doctor", "--npu-smi", str(table), "--fix"), ("run", "--hw", "a3", "--print", "compose")):
        assert run(*form, LANGUAGE="zh").stdout == run(*form).stdout


def test_reports_and_evidence_are_in_english(monkeypatch: pytest.MonkeyPatch, matrix: Matrix) -> None:
    monkeypatch.setenv("LANGUAGE", "zh")
    row = environment(matrix, A3_SGLANG)
    refused = failure("Failed to fetch: `https://example.com/simple/torch/`", row)
    texts = [refused.message, judge_engine(["HF model"], "using HF model").message, row.rehearsed().provider]
    texts += [item.reason for item in source_builds(environment(matrix, CPU))[1]]
    assert len(texts) > 3 and not CHINESE.search("".join(texts))
    # and a person reads them in Chinese
    assert [text for text in texts if not CHINESE.search(tr(text))] == []
    for words in (("render", A3_SGLANG), ("install", A3_SGLANG, "--script"), ("show", A3_SGLANG, "--json")):
        assert run(*words, LANGUAGE="zh").stdout == run(*words, LANGUAGE="en").stdout


def test_a_message_for_a_file_can_be_said_in_chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGUAGE", "zh")
    inner = english("{one} and {other}", one="a", other="b")
    reason = english("needs {missing}, which {provider} does not provide", missing=inner, provider="x")
    assert reason == "needs a and b, which x does not provide" and json.loads(json.dumps(reason)) == reason
    assert tr(reason) == "需要 a 与 b，而 x 不提供" and tr("not checked: {reason}", reason=reason).endswith(tr(reason))


def test_words_that_messages_share() -> None:
    assert [counted(number, "error") for number in (0, 1, 2)] == ["0 errors", "1 error", "2 errors"]
    assert did_you_mean("a22", ["a2", "cpu"]) == "did you mean 'a2'? " and did_you_mean("zzz", ["a2"]) == ""
    # braces in a text without fields are its own
    assert tr("{x} is data") == "{x} is data"
    with speaking("zh"):
        assert [counted(number, "error") for number in (1, 2)] == ["1 个错误", "2 个错误"]
        assert did_you_mean("a22", ["a2", "cpu"]) == "是不是想输入“a2”？"


def test_every_hint_on_a_failed_step_is_translated(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [cause.hint for cause in CAUSES if cause.hint not in CATALOGUE] == []
    monkeypatch.setenv("LANGUAGE", "zh")
    error = build_failure("", ["No space left on device"], Path("/x/build.log"))
    assert error.hint == "引擎所在的磁盘已满：运行 docker system prune，或迁移它的数据目录；完整日志：/x/build.log"
    assert build_failure("", [], Path("/x/build.log")).hint == "完整日志：/x/build.log"


def test_english_reads_no_catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    read.cache_clear()
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: pytest.fail("a catalogue is read"))
    for name in ("en_US.UTF-8", "C", "POSIX", ""):
        monkeypatch.setenv("LANGUAGE", name)
        assert tr("{name} exists", name="x") == "x exists"


@pytest.mark.parametrize("width", [20, 33, 80])
def test_lines_of_chinese_fit(width: int) -> None:
    text = "它需要 Atlas A3 (Ascend 910C, 910_93) 的芯片，而没有发现 NPU；见 `envbuilder doctor`。"
    found = lines(text, width)
    assert all(columns(line) <= width + 2 for line in found)
    assert "".join(found).replace(" ", "") == text.replace(" ", "")
    assert not any(line.startswith(("，", "；", "。")) for line in found)
