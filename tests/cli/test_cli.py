"""The command line: streams, exit codes, JSON, errors, start-up."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from envbuilder.cli import cli
from envbuilder.cli.console import Console
from envbuilder.errors import EnvbuilderError
from tests.conftest import A2_VLLM, A2_X86, A3_SGLANG, Edit, run, start, succeeded
from tests.helpers.releases import invent, lock, rehearse


def data(*arguments: str) -> dict[str, object]:
    result = succeeded(run(*arguments))
    document: dict[str, object] = json.loads(result.stdout)
    assert document["schema_version"] == 1
    return document


def test_list_in_a_pipe_is_one_identifier_per_line() -> None:
    result = run("list")
    assert result.returncode == 0
    assert result.stderr == ""
    assert A3_SGLANG in result.stdout.splitlines()
    assert all(" " not in line for line in result.stdout.splitlines())


def test_list_as_json() -> None:
    environments = data("list", "--json", "--hw", "atlas-800t-a3", "--branch", "v0.6.0", "--engine", "sglang")[
        "environments"
    ]
    assert isinstance(environments, list)
    assert [item["id"] for item in environments] == [A3_SGLANG]
    assert environments[0]["pins"]["cann"] == "8.3.RC1"
    assert environments[0]["cpu_only"] is False and environments[0]["product"] == "atlas-800t-a3"
    trained = data("list", "--json", "--hw", "cpu", "--arch", "x86_64", "--branch", "v0.6.0")["environments"]
    assert isinstance(trained, list)
    assert [(item["evidence"], item["depth"]) for item in trained] == [("smoke-cpu", "engine")]


EVERY = ("list", "check", "lock", "bake", "render", "show", "build", "install", "bundle", "pull", "quickstart")
TYPOS = [
    ("--hw", "atlas-800t-a33", "a3"),
    ("--framework", "verll", "verl"),
    ("--engine", "vlm", "vllm"),
    ("--arch", "x86", "x86_64"),
]


@pytest.mark.parametrize("command", EVERY)
@pytest.mark.parametrize(("option", "typo", "known"), TYPOS)
def test_a_typo_is_an_error_and_not_an_empty_result(
    command: str, option: str, typo: str, known: str, tmp_path: Path
) -> None:
    """Otherwise a script would continue although nothing was checked."""
    more = {
        "lock": ["--check"],
        "bake": ["-o", str(tmp_path)],
        "bundle": ["-o", str(tmp_path / "bundle")],
        "install": ["--prefix", str(tmp_path)],
    }
    result = run(command, option, typo, *more.get(command, []))
    assert (result.returncode, result.stdout) == (4, "")
    assert f"'{typo}'" in result.stderr and known in result.stderr


def test_dimensions_that_exclude_each_other_are_an_error() -> None:
    result = run("list", "--framework", "openrlhf", "--hw", "atlas-800t-a3")
    assert (result.returncode, result.stdout) == (4, "")
    assert "no environment fits --framework openrlhf --hw atlas-800t-a3" in result.stderr


def test_a_full_identifier_wins_over_variables() -> None:
    variables = {"ENVBUILDER_HW": "cpu", "ENVBUILDER_ENGINE": "vllm"}
    for command in ("show", "check", "render"):
        assert run(command, A3_SGLANG, **variables).returncode == 0
    assert run("show", A3_SGLANG, "--hw", "cpu", **variables).returncode == 4
    # a glob is narrowed by them
    names = run("list", "verl-v0.6.*", **variables).stdout.split()
    assert names and all("-vllm-cpu-" in name for name in names)


@pytest.mark.parametrize(
    ("words", "identifier"),
    [
        (["--hw", "A3", "--branch", "0.6.0", "--engine", "sglang"], A3_SGLANG),
        (["--hw", "cpu", "--arch", "amd64", "--branch", "v0.8.0", "--engine", "vllm"], "verl-v0.8.0-vllm-cpu-x86_64"),
        (["--hw", "cpu", "--arch", "arm64", "--branch", "v0.8.0", "--engine", "vllm"], "verl-v0.8.0-vllm-cpu-aarch64"),
    ],
)
def test_usual_spellings(words: list[str], identifier: str) -> None:
    assert run("show", *words).stdout.startswith(identifier)


def test_show() -> None:
    result = run("show", "--hw", "atlas-800t-a3", "--engine", "sglang", "--branch", "v0.6.0")
    assert result.returncode == 0
    assert result.stdout.startswith(A3_SGLANG)
    assert "documented: 3.2.0 in the table" in result.stdout
    assert "0 errors" in result.stderr


def test_show_as_json() -> None:
    environment = data("show", A3_SGLANG, "--json")["environment"]
    assert isinstance(environment, dict)
    assert environment["pins"]["triton_ascend"]["because"].startswith("3.2.0 came out in January 2026")
    assert environment["base_image"] == "quay.io/ascend/cann:8.3.rc1-a3-ubuntu22.04-py3.11"
    assert environment["thresholds"] == {"loss_percent": "2", "reward_percent": "4"}


def test_show_why() -> None:
    result = run("show", A2_X86, "--why", "tensordict")
    assert result.returncode == 0
    assert "0.6.2" in result.stdout
    assert "frameworks/verl/v0.4.1.yaml:" in result.stdout
    trail = data("show", A2_X86, "--why", "tensordict", "--json")["trail"]
    assert isinstance(trail, list)
    assert trail[-1]["value"] == "0.6.2"


def test_check_with_another_pin() -> None:
    result = run("check", A2_VLLM, "--pin", "torch=2.6.0", "--json")
    assert result.returncode == 3
    codes = {item["code"] for item in json.loads(result.stdout)["findings"] if item["severity"] == "error"}
    assert codes == {"torch-npu-torch", "torchvision-torch", "lock-stale"}


def test_a_pin_of_the_command_line_has_no_reason() -> None:
    """A row may depart from a requirement if it has a reason; an option has none."""
    result = run("check", A2_VLLM, "--pin", "ray=2.40.0", "--json")
    assert result.returncode == 3
    found = {item["code"]: item for item in json.loads(result.stdout)["findings"] if item["severity"] == "error"}
    assert "but ray is pinned at 2.40.0" in found["framework-pins"]["message"]


def test_a_default_is_announced_with_its_proof(tmp_path: Path) -> None:
    invent(tmp_path, "v99.9.0", "v99.10.0")
    lock(tmp_path, "v99.10.0")
    newest, older = "openrlhf-v99.10.0-vllm-a2-aarch64", "openrlhf-v99.9.0-vllm-a2-aarch64"

    def said(*more: str) -> str:
        options = ("--framework", "openrlhf", "--hw", "a2", "--matrices", str(tmp_path))
        return run("show", *options, *more).stderr.partition("\n")[0]

    assert said() == f"chose {newest}: none was proven yet"
    rehearse(tmp_path, "v99.9.0", "x86_64")
    lock(tmp_path, "v99.9.0")
    rest = r"; OpenRLHF .* is newer, not proven; --branch v99\.10\.0 chooses it"
    assert re.fullmatch(f"chose {older}: rehearsed at depth engine on x86_64{rest}", said())
    rehearse(tmp_path, "v99.9.0")
    assert re.fullmatch(f"chose {older}: rehearsed at depth engine{rest}", said())
    rehearse(tmp_path, "v99.10.0")
    assert said() == f"chose {newest}: rehearsed at depth engine"
    assert "chose" not in said("--branch", "v99.9.0")


@pytest.mark.parametrize("hardware", ["a2", "a3", "a5", "910b", "910c", "ascend950", "atlas-800t-a2", "atlas-800t-a3"])
def test_every_name_of_hardware_selects_a_row_of_this_year(hardware: str) -> None:
    identifier = run("show", "--hw", hardware).stdout.partition("\n")[0]
    assert identifier.startswith(("verl-v0.8.", "verl-v0.9."))


def test_machines_of_an_environment_are_shown() -> None:
    assert (
        "machines    Atlas 200T A2 Box16, Atlas 800I A2, Atlas 300T A2\n"
        in run("show", "--hw", "a2", "--arch", "x86_64").stdout
    )


def test_diff() -> None:
    result = run("diff", "verl-v0.4.1-vllm-a2-aarch64", A2_VLLM)
    assert result.returncode == 0
    assert "verl  v0.4.1 -> v0.5.0" in result.stdout
    document = data("diff", A2_VLLM, A3_SGLANG, "--json")
    assert isinstance(document["changes"], list)
    assert {"section": "pins", "name": "cann", "before": "8.1.RC1", "after": "8.3.RC1"} in document["changes"]
    assert run("diff", A2_VLLM, A2_VLLM).stderr.strip() == "no difference"


def test_check_of_everything_has_no_error() -> None:
    result = run("check")
    assert result.returncode == 0
    assert "0 errors" in result.stderr
    assert "error[" not in result.stdout


def test_check_as_json_has_the_documented_fields() -> None:
    findings = data("check", A3_SGLANG, "--json")["findings"]
    assert isinstance(findings, list)
    assert findings
    for finding in findings:
        assert set(finding) == {"code", "severity", "message", "hint", "environment", "components", "where"}


def test_check_of_another_matrix_folder(edit: Edit) -> None:
    folder = edit("frameworks/verl/v0.6.0.yaml", "cann: {version: 8.3.RC1,", "cann: {version: 8.5.RC1,")
    for arguments, variables in ((("--matrices", str(folder)), {}), ((), {"ENVBUILDER_MATRICES": str(folder)})):
        result = run("check", *arguments, **variables)
        assert result.returncode == 3
        assert "error[unknown-version] CANN 8.5.RC1 does not exist" in result.stdout
        assert "8.5.0" in result.stdout
        assert f"--> {folder}/frameworks/verl/v0.6.0.yaml:" in result.stdout


def test_a_broken_matrix_exits_with_3_and_every_place(edit: Edit) -> None:
    edit("hardware/cpu.yaml", "cpu_only: true", "cpu_only: maybe")
    folder = edit("frameworks/verl/v0.6.0.yaml", "date: 2025-10-15", "date: soon")
    result = run("check", "--matrices", str(folder))
    assert result.returncode == 3
    assert result.stdout == ""
    assert result.stderr.count("error:") == 2
    assert f"--> {folder}/hardware/cpu.yaml:4:11" in result.stderr
    assert "Traceback" not in result.stderr


def test_render_to_stdout_and_files(tmp_path: Path) -> None:
    text = run("render", A3_SGLANG).stdout
    assert text.startswith("# Generated by envbuilder")
    result = run("render", A3_SGLANG, "-o", str(tmp_path / "Dockerfile"))
    assert result.returncode == 0
    assert (tmp_path / "Dockerfile").read_text() == text
    assert run("render", A3_SGLANG, "--format", "script").stdout.startswith("#!/usr/bin/env bash")


def test_render_all_holds_exactly_the_environments(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    assert run("render", "--all", "-o", str(folder)).returncode == 0
    environments = set(run("list").stdout.split())
    places = {str(path.parent.relative_to(folder)) for path in folder.glob("*/*/*/Dockerfile")}
    assert {name.replace("/", "-") for name in places} == environments
    files = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert run("render", "--all", "-o", str(folder), "--check").returncode == 0
    place = folder / "verl" / "v0.6.0" / "sglang-a3-aarch64"
    changed, gone = place / "setup.sh", folder / "verl" / "v0" / "gone"
    changed.write_text("exit\n")
    shutil.copytree(place, gone)
    result = run("render", "--all", "-o", str(folder), "--check")
    assert result.returncode == 1
    assert str(changed) in result.stderr
    assert "no such environment" in result.stderr
    assert changed.read_text() == "exit\n" and gone.is_dir(), "--check writes nothing"
    removed = sum(path.is_file() for path in gone.rglob("*"))
    result = run("render", "--all", "-o", str(folder))
    assert f"{len(files)} rendered, 1 changed, {removed} removed" in result.stderr
    assert not gone.exists()
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == files


@pytest.mark.parametrize("format_", ["dockerfile", "script"])
def test_render_all_keeps_other_files(tmp_path: Path, format_: str) -> None:
    """The folder may contain other files, such as a home directory."""
    others = [tmp_path / name for name in ("notes/todo.txt", "app/Dockerfile", "app/src/main.py", "run.sh", "deep/a/b")]
    for path in others:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("FROM scratch\n")
    for _ in range(2):
        assert run("render", "--all", "--format", format_, "-o", str(tmp_path)).returncode == 0
    assert all(path.read_text() == "FROM scratch\n" for path in others)


def test_an_unchanged_file_is_not_written(tmp_path: Path) -> None:
    target = tmp_path / "Dockerfile"
    run("render", A3_SGLANG, "-o", str(target))
    before = target.stat().st_mtime_ns
    run("render", A3_SGLANG, "-o", str(target))
    assert target.stat().st_mtime_ns == before


def test_matrix_schema() -> None:
    document = json.loads(run("matrix", "schema", "branch").stdout)
    assert document["$defs"]["Branch"]["additionalProperties"] is False


@pytest.mark.parametrize(
    ("arguments", "code", "error", "hint"),
    [
        (["show", "verl-v0.6.0"], 4, "no environment is named 'verl-v0.6.0'", "hint: nearest: verl-v0.6.0-"),
        (["show", "--hw", "atlas-800t-a4"], 4, "no environment has the hardware 'atlas-800t-a4'", "atlas-800t-a3"),
        (["show", "verl-*"], 2, "environments; this command takes one", "one of: "),
        (["show", A3_SGLANG, "--why", "tensorflow"], 4, "has no value 'tensorflow'", "it has: "),
        (["show", A3_SGLANG, "--pin", "torch"], 2, "--pin takes NAME=VERSION", ""),
        (["render", "verl-*"], 2, "several environments (and --check) need a folder", "add -o FOLDER"),
        (["check", "--matrices", "/nowhere"], 2, "the matrix folder '/nowhere' does not exist", "ENVBUILDER_MATRICES"),
        (["lst"], 2, "there is no command 'lst'", "did you mean 'list'"),
        (["list", "--colour"], 2, "No such option", "--help"),
    ],
)
def test_errors_have_a_message_and_a_hint(arguments: list[str], code: int, error: str, hint: str) -> None:
    result = run(*arguments)
    assert result.returncode == code
    assert result.stdout == ""
    first = result.stderr.splitlines()[0]
    assert first.startswith("error: ")
    assert error in first
    assert hint in result.stderr
    assert "Traceback" not in result.stderr


def test_debug_shows_the_traceback() -> None:
    assert "Traceback" in run("show", "nothing", "--debug").stderr


def test_colours_outside_a_terminal_need_an_option() -> None:
    assert "\x1b[" not in run("show", A3_SGLANG).stdout
    assert "\x1b[" in run("show", A3_SGLANG, "--color", "always").stdout
    assert "\x1b[" in run("show", A3_SGLANG, ENVBUILDER_COLOR="always").stdout


def test_dimensions_by_environment_variable() -> None:
    found = run("list", ENVBUILDER_HW="atlas-800t-a3", ENVBUILDER_BRANCH="v0.6.0", ENVBUILDER_ENGINE="sglang")
    assert found.stdout.split() == [A3_SGLANG]


def test_quiet_prints_only_the_data() -> None:
    assert run("check", "-q").stderr == ""


@pytest.mark.parametrize(("unbuffered", "code"), [("", 0), ("1", 141)], ids=["noticed at the end", "noticed at once"])
def test_a_closed_pipe_ends_without_a_message(unbuffered: str, code: int) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as closed:
        result = subprocess.run(
            [sys.executable, "-m", "envbuilder", "list"],
            stdout=closed,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        )
    assert (result.returncode, result.stderr) == (code, "")


@pytest.mark.parametrize("closed", [">&-", "2>&-"])
def test_a_closed_stream_gives_no_traceback(closed: str) -> None:
    words = f"{sys.executable} -m envbuilder list no-such-thing {closed}"
    result = subprocess.run(["bash", "-c", words], capture_output=True, text=True, check=False)
    assert result.returncode == 4 and result.stdout == "" and "Traceback" not in result.stderr


@pytest.mark.parametrize("given", ["<&-", "< report"])
def test_standard_input_that_is_closed_or_in_another_encoding(given: str, tmp_path: Path) -> None:
    (tmp_path / "report").write_bytes("torch==2.8.0\r\ntorch_npu==2.7.1\r\n不行\r\n".encode("gbk"))
    result = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m envbuilder diagnose - --json {given}"],
        capture_output=True, text=True, check=False, cwd=tmp_path, env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["facts"]["torch"] == (None if given == "<&-" else "2.8.0")


def test_a_closed_connection_other_than_stdout_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Click would exit with 1 and without a message, as for a closed stdout."""

    def closed(*_: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(click.Group, "invoke", closed)
    with pytest.raises(EnvbuilderError, match="connection was closed"):
        cli.main(["list"], standalone_mode=False)


def test_identifiers_are_completed() -> None:
    result = start(
        _ENVBUILDER_COMPLETE="bash_complete", COMP_WORDS="envbuilder show verl-v0.6.0-sglang-a3", COMP_CWORD="2"
    )
    assert A3_SGLANG in result.stdout


@pytest.mark.parametrize(
    "arguments", [["list"], ["list", "--json"], ["show", A3_SGLANG], ["render", A3_SGLANG], ["--help"]]
)
def test_reading_commands_import_neither_docker_nor_requests(arguments: list[str]) -> None:
    code = (
        "import sys; from envbuilder.cli import main; sys.argv = ['envbuilder', *sys.argv[1:]]\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "loaded = {'docker', 'requests', 'pydantic', 'urllib3'} & set(sys.modules)\n"
        "print(loaded, file=sys.stderr); sys.exit(bool(loaded))"
    )
    result = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_a_second_list_reads_no_yaml() -> None:
    """`list` is fast because a cached matrix needs none of the modules that are slow to import."""
    code = (
        "import sys; from envbuilder.cli import main; sys.argv = ['envbuilder', 'list']\n"
        "main()\n"
        "print(sorted({'yaml', 'jinja2', 'packaging', 'dataclasses'} & set(sys.modules)), file=sys.stderr)"
    )
    for _ in range(2):
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stderr.strip() == "[]"


def test_a_terminal_gets_a_table_that_fits() -> None:
    """On a pseudo terminal of 80 columns, no line is longer."""
    script = f"stty cols 80; {sys.executable} -m envbuilder list"
    result = subprocess.run(
        ["script", "-qec", script, "/dev/null"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "80"},
    )
    lines = result.stdout.replace("\r", "").splitlines()
    assert any(line.replace("\x1b[1m", "").startswith("RELEASE") for line in lines)
    assert len(lines) <= 40, "at most what a person reads"
    assert all(len(line) <= 80 for line in lines if "\x1b" not in line)


def test_a_platform_selects_the_architecture() -> None:
    result = run("build", "--hw", "cpu", "--platform", "linux/amd64", "--dry-run")
    assert result.returncode == 0
    assert result.stdout.splitlines()[0].endswith("-cpu-x86_64")
    refused = run("build", "--hw", "cpu", "--platform", "linux/amd64", "--arch", "aarch64", "--dry-run")
    assert refused.returncode == 2
    assert "contradict each other" in refused.stderr


def test_validate_refuses_missing_devices_and_environments() -> None:
    result = run("validate", A3_SGLANG, "--local", "--device", "npu")
    assert result.returncode == 5 and "this machine has 0 NPUs" in result.stderr
    result = run("validate", "no-such-environment", "--local")
    assert result.returncode == 4


def test_several_environments_are_built_one_after_the_other() -> None:
    shown = run("build", A3_SGLANG, A2_VLLM, "--dry-run").stdout
    assert [line for line in shown.splitlines() if not line.startswith(" ")] == [A3_SGLANG, A2_VLLM]


def test_a_dry_run_is_a_plan_for_people(edit: Edit) -> None:
    row = "verl-v0.8.0-vllm-a3-aarch64"
    plan = run("build", row, "--dry-run").stdout
    text = " ".join(plan.split())
    assert (
        "packages, locked with hashes, but for triton-ascend from git vllm-ascend v0.18.1.dev45, submodule csrc" in text
    )
    assert "in no package index; --git-mirror names a mirror compiles vLLM without device code; vllm-ascend" in text
    assert "time not measured" in text and "FROM" not in plan and len(plan.splitlines()) < 20
    recorded = "    - {level: built, date: 2026-11-17, machine: x86_64, seconds: 321, size_gb: '4.50'}"
    before = "  vllm-a3-aarch64:\n    evidence:\n"
    folder = edit("evidence/verl/v0.8.0.yaml", before, f"{before}{recorded}\n")
    assert "321 s on x86_64, 4.50 GB" in run("build", row, "--dry-run", "--matrices", str(folder)).stdout


def test_an_environment_without_a_lock_is_named() -> None:
    for words in (["show"], ["render"], ["build", "--dry-run"], ["run", "--print", "docker"], ["quickstart"]):
        shown = run(words[0], A2_X86, *words[1:])
        assert shown.returncode == 0 and f"warning[no-lock] {A2_X86}: no lock" in shown.stderr, words
        assert "no lock" not in run(words[0], A2_VLLM, *words[1:]).stderr


def test_errors_of_a_build_from_a_bundle(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"no bundle")
    result = run("build", A3_SGLANG, A2_VLLM, "--offline", str(tmp_path / "file"))
    assert result.returncode == 2 and "a bundle holds one environment" in result.stderr
    result = run("build", "--offline", str(tmp_path / "file"))
    assert result.returncode == 1 and "is not a bundle" in result.stderr
    result = run("build", "--offline", str(tmp_path / "file"), "--git-mirror", "x")
    assert result.returncode == 2 and "leave out --git-mirror" in result.stderr


def test_a_name_that_contradicts_a_filter_is_an_error() -> None:
    result = run("build", A3_SGLANG, "--hw", "cpu", "--dry-run")
    assert result.returncode == 4 and result.stdout == ""


def test_an_output_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = run("render", A3_SGLANG, "--output", str(tmp_path / "file" / "below"))
    assert result.returncode == 1 and "Traceback" not in result.stderr and str(tmp_path / "file") in result.stderr


def test_a_narrow_terminal_drops_the_spare_columns_first(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    header = ("ENVIRONMENT", "PYTHON", "CANN", "PLUGIN", "STATUS")
    row = ("verl-v0.8.0-sglang-a3-aarch64", "3.11", "8.5.0", "2026.03.10.rc1", "resolved")
    for columns, kept in (
        (120, header),
        (60, ("ENVIRONMENT", "CANN", "STATUS")),
        (45, ("ENVIRONMENT", "CANN")),
        (10, ("ENVIRONMENT",)),
    ):
        monkeypatch.setenv("COLUMNS", str(columns))
        Console(color="never").table(header, [row], spare=("PYTHON", "PLUGIN"))
        assert tuple(capsys.readouterr().out.splitlines()[0].split()) == kept, columns


def test_every_listed_hardware_can_be_chosen() -> None:
    found = data("hardware", "--json")["hardware"]
    assert isinstance(found, dict)
    shown = run("hardware").stdout
    for name, item in found.items():
        for spelling in (name, *item["names"], *item["products"]):
            assert spelling in shown and run("list", "--hw", spelling).stdout
