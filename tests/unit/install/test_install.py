"""Installing on a host: the parts, the journal of them, and installations that were interrupted."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from envbuilder import platforms
from envbuilder.cli.arguments import IndexArguments
from envbuilder.errors import EnvbuilderError, HostError, UsageError
from envbuilder.install import PREFIX, Work, check_same, install, installation_here, states
from envbuilder.install.host_check import check_host, find_python
from envbuilder.install.journal import Journal, alone, check_prefix
from envbuilder.install.parts import activation, parts_of
from envbuilder.install.repair import repair_packages
from envbuilder.matrix import Matrix
from envbuilder.plan import Layer, Plan, SourceArchive, Stage, Step, make_plan
from tests.conftest import A3_SGLANG, environment, run

ROW = f"verl-v0.6.0-sglang-cpu-{platforms.arch()}"


class Messages:
    """A progress display that keeps its messages and the results of parts."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)

    def expect(self, titles: object) -> None: ...
    def started(self, title: str) -> None: ...
    def said(self, title: str, line: str) -> None: ...
    def noted(self, title: str, line: str) -> None: ...

    def ended(self, title: str, how: str) -> None:
        self.lines.append(f"{title}: {how}")


def small_plan(*commands: str) -> Plan:
    """Return a plan with one layer per command, which needs no network."""
    layers = tuple(
        Layer(f"part {number}", (Step("build-script", {"commands": command}),))
        for number, command in enumerate(commands)
    )
    return Plan(
        environment="small", folder="small", title="Small", arch=platforms.arch(), base_image="x",
        python=f"{sys.version_info[0]}.{sys.version_info[1]}", tools=(), lock=None,
        stages=(Stage("environment", None, layers),), components=(), left_out=(), products=(),
        variables={"WORD": "a b"}, shell_setup=(), labels={"name": "small"}, files={"locks/pins.txt": "a==1\n"},
    )  # fmt: skip


@pytest.fixture
def no_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the commands of the layers unchanged; the virtual environment is an empty folder."""
    monkeypatch.setattr("envbuilder.install.parts.commands_of", lambda layer: layer.steps[0].values["commands"])
    original = parts_of

    def without_venv(plan: Plan, sources: dict[str, SourceArchive], home: Path) -> list[object]:
        first, *rest = original(plan, sources, home)
        made = "mkdir -p venv/bin; touch venv/bin/python3; echo venv >> count"
        return [type(first)(first.title, made, first.inputs), *rest]

    monkeypatch.setattr("envbuilder.install.installation.parts_of", without_venv)


def work(prefix: Path, plan: Plan) -> Work:
    return Work(plan, {}, prefix, sys.executable, {})


def installed(what: Work, messages: Messages) -> Path:
    with alone(what.prefix, lambda: None) as turn:
        return install(what, messages, turn)


COUNT = "echo {} >> count"


def counted(prefix: Path) -> list[str]:
    return (prefix / "count").read_text().split()


def test_the_parts_are_those_of_the_image(matrix: Matrix) -> None:
    plan = make_plan(environment(matrix, ROW))
    titles = [part.title for part in parts_of(plan, {}, Path("/x"))]
    assert titles[0] == "virtual environment" and titles[-1] == "consistency"
    assert "system packages" not in titles, "the administrator installs them"
    assert set(titles) >= {"SGLang", "torch", "verl"}
    sglang = next(part for part in parts_of(plan, {}, Path("/x")) if part.title == "SGLang")
    assert sglang.clears == ("src/sglang", "wheels/wheels-sglang")


def test_the_key_of_a_part_covers_earlier_parts_and_its_files(matrix: Matrix, tmp_path: Path) -> None:
    plan = make_plan(environment(matrix, ROW))
    large = next(part for part in parts_of(plan, {}, Path("/x")) if part.title == "torch")
    assert large.key("") == large.key("")
    assert len({large.key(""), large.key("before"), type(large)(large.title, large.commands, ("x",)).key("")}) == 3
    relocked = replace(plan, files={**plan.files, "locks/torch.txt": "another"})
    titles = [
        old.title
        for old, new in zip(parts_of(plan, {}, Path("/x")), parts_of(relocked, {}, Path("/x")), strict=True)
        if old != new
    ]
    assert titles == ["torch"], "a file is an input of the parts that read it"


def test_every_file_that_a_part_reads_is_written(matrix: Matrix, no_tools: None, tmp_path: Path) -> None:
    installed(work(tmp_path / "x", small_plan("cp locks/pins.txt copy")), Messages())
    assert (tmp_path / "x" / "copy").read_text() == "a==1\n"
    plan = make_plan(environment(matrix, ROW))
    read = {path for layer in plan.layers for path in layer.reads}
    assert {"locks/torch.txt", "locks/pins.txt", "checks/removed"} <= read <= set(plan.files)


def test_a_finished_part_is_not_repeated(no_tools: None, tmp_path: Path) -> None:
    plan, messages = small_plan(COUNT.format("one"), COUNT.format("two")), Messages()
    activate = installed(work(tmp_path / "x", plan), messages)
    installed(work(tmp_path / "x", plan), messages)
    assert counted(tmp_path / "x") == ["venv", "one", "two"]
    assert messages.lines[-1] == "part 1: done before"
    assert "export WORD='a b'" in activate.read_text()
    assert states(work(tmp_path / "x", plan)) == [("virtual environment", True), ("part 0", True), ("part 1", True)]


def test_an_installation_continues_after_a_failed_part(no_tools: None, tmp_path: Path) -> None:
    prefix, flag = tmp_path / "x", tmp_path / "flag"
    plan = small_plan(COUNT.format("one"), f"test -e {flag} && " + COUNT.format("two"))
    with pytest.raises(Exception, match="'part 1' failed"):
        installed(work(prefix, plan), Messages())
    assert not (prefix / "activate").exists(), "an unfinished installation cannot be activated"
    flag.touch()
    installed(work(prefix, plan), Messages())
    assert counted(prefix) == ["venv", "one", "two"]


def test_a_changed_plan_is_noticed(no_tools: None, tmp_path: Path) -> None:
    prefix, messages = tmp_path / "x", Messages()
    installed(work(prefix, small_plan(COUNT.format("one"), COUNT.format("two"))), messages)
    changed = small_plan(COUNT.format("one"), COUNT.format("other"))
    assert [done for _, done in states(work(prefix, changed))] == [False, False, False]
    installed(work(prefix, changed), messages)
    assert "the plan has changed since, from 'part 1' on: everything is installed again" in messages.lines
    assert counted(prefix) == ["venv", "one", "two", "venv", "one", "other"]
    shorter = small_plan(COUNT.format("one"))
    installed(work(prefix, shorter), messages)
    assert "from 'the end' on" in next(line for line in reversed(messages.lines) if "changed" in line)


def test_a_part_that_another_plan_began_is_removed(no_tools: None, tmp_path: Path) -> None:
    prefix, messages = tmp_path / "x", Messages()
    with pytest.raises(EnvbuilderError, match="'part 0' failed"):
        installed(work(prefix, small_plan("touch venv/left; false")), messages)
    installed(work(prefix, small_plan(COUNT.format("one"))), messages)
    assert "from 'part 0' on" in messages.lines[1] and not (prefix / "venv" / "left").exists()


def test_a_folder_that_was_moved_or_lacks_its_virtual_environment(no_tools: None, tmp_path: Path) -> None:
    prefix, messages, plan = tmp_path / "x", Messages(), small_plan(COUNT.format("one"))
    installed(work(prefix, plan), messages)
    moved = prefix.rename(tmp_path / "y")
    installed(work(moved, plan), messages)
    assert "the folder was moved" in " ".join(messages.lines) and str(moved) in (moved / "activate").read_text()
    shutil.rmtree(moved / "venv")
    assert not any(is_done for _, is_done in states(work(moved, plan)))
    installed(work(moved, plan), messages)
    assert "the virtual environment is missing: everything is installed again" in messages.lines
    assert counted(moved) == ["venv", "one"] * 3


def test_a_folder_with_an_empty_journal_can_be_used_again(no_tools: None, tmp_path: Path) -> None:
    prefix = tmp_path / "x"
    installed(work(prefix, small_plan(COUNT.format("one"))), Messages())
    Journal(prefix).forget()
    check_prefix(prefix)


def test_an_installation_of_another_environment_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "installation.json").write_text('{"environment": "a"}')
    check_same(tmp_path, "a")
    with pytest.raises(UsageError, match="holds a"):
        check_same(tmp_path, "b")


@pytest.mark.parametrize("shell", ["bash", "dash"])
def test_a_shell_activates_and_deactivates_an_installation(no_tools: None, tmp_path: Path, shell: str) -> None:
    """Activating twice changes nothing, PATH is restored, and the folder may have any name."""
    prefix = tmp_path / 'a "b` $c'
    activate = installed(work(prefix, small_plan("true")), Messages())
    (prefix / "venv" / "bin" / "python3").chmod(0o755)
    code = """
    . "$0"; . "$0"
    echo "$(command -v python3)|$WORD|$ENVBUILDER_PREFIX"; command -v env
    before=$PATH; deactivate; echo "${PATH}|${ENVBUILDER_PREFIX-gone}|${before#"$PATH"}"
    """
    path = "/usr/bin:/bin"
    lines = subprocess.run(
        [shell, "-euc", code, str(activate)], env={"PATH": path}, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert lines[0] == f"{prefix}/venv/bin/python3|a b|{prefix}" and lines[1].endswith("bin/env")
    assert lines[2].split("|")[:2] == [path, "gone"]


def test_a_failed_update_removes_the_activation(no_tools: None, tmp_path: Path) -> None:
    prefix, messages = tmp_path / "prefix", Messages()
    installed(work(prefix, small_plan(COUNT.format("one"))), messages)
    assert (prefix / "activate").exists()
    with pytest.raises(EnvbuilderError, match="'part 0' failed"):
        installed(work(prefix, small_plan("false")), messages)
    assert not (prefix / "activate").exists() and not (prefix / "installation.json").exists()


def test_variables_of_the_user_that_redirect_installers_are_dropped(
    no_tools: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("UV_SYSTEM_PYTHON", "UV_PYTHON", "PIP_TARGET", "PIP_PYTHON", "PYTHONPATH", "UV_CONSTRAINT", "GIT_DIR"):
        monkeypatch.setenv(name, "elsewhere")
    for name in ("UV_CACHE_DIR", "PIP_CERT", "UV_INDEX_CORP_PASSWORD", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "kept")
    (tmp_path / "early").write_text("PATH=/elsewhere\n")
    monkeypatch.setenv("BASH_ENV", str(tmp_path / "early"))
    installed(work(tmp_path / "prefix", small_plan("env > variables")), Messages())
    variables = (tmp_path / "prefix" / "variables").read_text()
    assert "elsewhere" not in variables and variables.count("=kept\n") == 4


def test_every_installer_gets_the_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "https://mirror.example/simple")
    for option, wanted in ((None, "https://mirror.example/simple"), ("https://x.example", "https://x.example")):
        found = IndexArguments(index_url=option).installer_variables()
        assert found["PIP_INDEX_URL"] == found["UV_DEFAULT_INDEX"] == wanted


def test_a_journal_that_was_cut_off(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for key in ("a", "b"):
        journal.begin(key, key)
        journal.end(key, key, [f"{key}-1.dist-info"])
    journal.begin("c", "c")
    text = (tmp_path / "journal.jsonl").read_text()
    (tmp_path / "journal.jsonl").write_text(text + '\n{"state": "done", "ke')
    again = Journal(tmp_path)
    assert (again.done, again.begun) == (["a", "b"], "c") and again.packages == {"b-1.dist-info"}
    again.end("c", "c", [])
    assert Journal(tmp_path).done == ["a", "b", "c"], "the line after the cut one is read"


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("")
    with pytest.raises(UsageError, match="is not empty"):
        check_prefix(tmp_path)
    with pytest.raises(UsageError, match="is a file"):
        check_prefix(tmp_path / "thesis.txt")
    with alone(tmp_path / "new", lambda: None):
        check_prefix(tmp_path / "new")


def test_incomplete_packages_lose_their_metadata(tmp_path: Path) -> None:
    packages = tmp_path / "lib" / "python3.11" / "site-packages"
    for name, record in {
        "whole": "whole.py,sha256=x,5\nwhole-1.dist-info/RECORD,,\n__pycache__/whole.pyc,,\n",
        "short": "short.py,sha256=x,50\n",
        "absent": "absent/__init__.py,sha256=x,0\n",
        "empty": "\0" * 50,
    }.items():
        (packages / f"{name}-1.dist-info").mkdir(parents=True)
        (packages / f"{name}-1.dist-info" / "RECORD").write_text(record)
        (packages / f"{name}-1.dist-info" / "METADATA").write_text("")
        (packages / f"{name}.py").write_text("12345")
    (packages / "bare-1.dist-info").mkdir()
    # a package that was complete before is not checked, because wheels of the vendor record wrong sizes
    assert repair_packages(tmp_path, {"short-1.dist-info"}) == ["absent-1", "bare-1", "empty-1"]
    assert sorted(path.name for path in packages.glob("*.dist-info")) == ["short-1.dist-info", "whole-1.dist-info"]
    assert repair_packages(tmp_path, ()) == ["short-1"]


def test_pythons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert find_python(version, sys.executable, tmp_path / "x") == sys.executable
    with pytest.raises(HostError, match=f"is Python {version}, and 2.7 is needed"):
        find_python("2.7", sys.executable, tmp_path / "x")
    with pytest.raises(HostError, match=r"there is no Python 2\.7"):
        find_python("2.7", None, tmp_path / "x")
    # a shim starts a Python that depends on the folder, so that the Python behind it is returned
    shim = tmp_path / "shim"
    shim.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    shim.chmod(0o755)
    assert find_python(version, str(shim), tmp_path / "x") == sys.executable
    bare = tmp_path / "python"
    bare.write_text(f"#!/bin/sh\ncase $2 in *ensurepip*) exit 1;; esac\necho {version}\n")
    bare.chmod(0o755)
    with pytest.raises(HostError) as caught:
        find_python(version, str(bare), tmp_path / "x")
    assert "has no module venv or ensurepip" in caught.value.message and f"python{version}-venv" in str(
        caught.value.hint
    )
    # the Python of the installation itself is skipped, although it comes first
    own = tmp_path / "x" / "venv" / "bin"
    own.mkdir(parents=True)
    (own / f"python{version}").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", f"{own}:{Path(sys.executable).parent}")
    assert Path(find_python(version, None, tmp_path / "x")).parent == Path(sys.executable).parent
    monkeypatch.chdir(Path(sys.executable).parent)
    assert find_python(version, f"./{Path(sys.executable).name}", tmp_path / "x") == sys.executable


def test_hosts_that_do_not_fit_are_refused(matrix: Matrix, monkeypatch: pytest.MonkeyPatch) -> None:
    row = environment(matrix, A3_SGLANG)
    plan = make_plan(row)
    monkeypatch.setattr(platforms, "arch", lambda name="": name or "x86_64")
    with pytest.raises(HostError, match="and this machine is x86_64"):
        check_host(row, plan, ())
    monkeypatch.setattr(platforms, "arch", lambda name="": name or "aarch64")
    with pytest.raises(HostError, match="the vendor's toolkit is not installed: there is no /usr/local/Ascend"):
        check_host(row, plan, ())
    monkeypatch.setattr(Path, "is_file", lambda path: True)
    with pytest.raises(HostError, match=r"is for CANN 8\.3\.RC1, and this host has 8\.1\.RC1, 8\.5\.0"):
        check_host(row, plan, {"8.5.0", "8.1.RC1"})
    with pytest.raises(HostError, match="system packages are missing"):
        check_host(row, replace(plan, stages=_lacking(plan)), {"8.3.RC1"})


def _lacking(plan: Plan) -> tuple[Stage, ...]:
    layer = Layer("system packages", (Step("system-packages", {"packages": ("no-such-package",)}),))
    return (replace(plan.stages[0], layers=(layer,)),)


def test_activation_sources_the_toolkit(matrix: Matrix, tmp_path: Path) -> None:
    text = activation(make_plan(environment(matrix, A3_SGLANG)), tmp_path / "a b")
    assert text.startswith(f"{PREFIX}='{tmp_path}/a b'\nexport {PREFIX}\n") and "\n. /usr/local/Ascend/" in text


def test_the_installation_of_this_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PREFIX, raising=False)
    assert installation_here() is None
    monkeypatch.setenv(PREFIX, str(tmp_path))
    with pytest.raises(HostError, match="no finished installation"):
        installation_here()
    (tmp_path / "installation.json").write_text(json.dumps({"environment": "x", "labels": {"a": "b"}}))
    found = installation_here()
    assert found is not None and (found.environment, found.labels) == ("x", {"a": "b"})


def test_the_command(tmp_path: Path) -> None:
    script = run("install", ROW, "--script")
    assert script.returncode == 0 and script.stdout == run("render", ROW, "--format", "script").stdout
    assert run("install", ROW).returncode == 2
    with_bundle = run("install", ROW, "--script", "--offline", __file__)
    assert with_bundle.returncode == 2 and "a bundle contains its own script" in with_bundle.stderr
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    refused = run("install", ROW, "--prefix", str(tmp_path / "full"), "--source", "sdist")
    assert refused.returncode in {2, 5} and (tmp_path / "full" / "file").exists()
