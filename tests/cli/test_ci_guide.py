"""The files of the guide for CI are valid, and run: here with commands that only note how they were called."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import click
import jsonschema
import pytest

from envbuilder.cli import cli
from envbuilder.environment import Catalog
from envbuilder.matrix import Matrix
from tests.helpers.ci_guide import GITHUB, GITLAB, document, jobs, run_job, texts
from tests.helpers.schemas import published_schema

WORKFLOWS = Path(__file__).resolve().parents[2] / ".github/workflows"
# notes its name and its words, and does what the scripts need
STUB = """#!/bin/sh
echo "${0##*/} $*" >> "$CALLS"
case "${0##*/} $*" in
  "envbuilder build"*" --dry-run"*) ;;
  "envbuilder build"*) cat "$SIGN_KEY_FILE" > "$CALLS.key"; stat --format %a "$SIGN_KEY_FILE" >> "$CALLS.key"; exit "$CODE";;
  "envbuilder pull"*) echo team/verl:1;;
  python3*) mkdir --parents .envbuilder/bin; cp "$0" .envbuilder/bin/pip;;
  docker\\ login*) cat > "$CALLS.login";;
esac
"""
GIVEN = {
    "github.repository_owner": "team",
    "secrets.GITHUB_TOKEN": "token",
    "secrets.SIGN_KEY": "private\nkey",
    "secrets.SIGN_KEY_PASSWORD": "word",
    "vars.VERIFY_KEY": "public",
    "CI_REGISTRY_IMAGE": "registry.example.com/team",
}


def test_both_languages_have_the_same_files() -> None:
    assert list(texts("ci.md")) == [GITHUB, GITLAB]
    assert texts("ci.md") == texts("ci.zh.md")


@pytest.mark.parametrize(("name", "schema"), [(GITHUB, "github-workflows"), (GITLAB, "gitlab-ci")])
def test_the_files_are_valid(name: str, schema: str) -> None:
    jsonschema.Draft7Validator(published_schema(schema)).validate(document(name))


def test_the_actions_are_those_of_our_own_workflows() -> None:
    """Dependabot renews our workflows, and not the guide."""
    used = re.findall(r"uses: (.*)", texts("ci.md")[GITHUB])
    ours = {line for path in WORKFLOWS.glob("*.yml") for line in re.findall(r"uses: (.*)", path.read_text("utf-8"))}
    assert used and set(used) <= ours
    assert all(job["timeout-minutes"] for job in document(GITHUB)["jobs"].values())


@pytest.mark.parametrize("name", [GITHUB, GITLAB])
def test_the_environment_exists_and_is_proven(name: str, matrix: Matrix) -> None:
    found = document(name)
    wanted = set(re.findall(r"verl-v[\w.-]+", texts("ci.md")[name]))
    rows = {item.id: item for item in Catalog(matrix).environments}
    assert (found.get("env") or found["variables"])["ENVIRONMENT"] in wanted <= rows.keys()
    assert all(rows[word].rank.is_locked and rows[word].trained for word in wanted)


@pytest.mark.parametrize("name", [GITHUB, GITLAB])
def test_each_command_is_one_of_this_version(name: str, tmp_path: Path) -> None:
    scripts = "\n".join(script.text for job in jobs(name, GIVEN) for script in job.scripts).replace("\\\n", " ")
    lines = re.findall(r"\benvbuilder ([a-z]+ [^)\n]*)", scripts)
    assert {line.split()[0] for line in lines} == {"lock", "build", "pull"}
    (tmp_path / "key").touch()
    for line in lines:
        command, *words = shlex.split(re.sub(r'"\$\w+_KEY"|"\$RUNNER_TEMP[^"]*"', str(tmp_path / "key"), line))
        found = cli.get_command(click.Context(cli), command)
        assert found is not None
        context = found.make_context(command, words)
        if context.params.get("push"):
            assert context.params["sign_key"] and context.params["junit"] and not context.params["no_validate"]


def calls(name: str, folder: Path, code: int = 0) -> tuple[list[str], list[int]]:
    """Run all jobs with commands that are noted; return the notes, and the exit code of each job."""
    programs = folder / "programs"
    programs.mkdir()
    for program in ("sudo", "pipx", "docker", "envbuilder", "python3"):
        (programs / program).write_text(STUB)
        (programs / program).chmod(0o755)
    (folder / "team.key").write_text("private\nkey\n")
    (folder / "team.key").chmod(0o600)
    of_github = name == GITHUB
    variables = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "CALLS": str(folder / "calls"),
        "CODE": str(code),
        "RUNNER_TEMP": str(folder),
        "GITHUB_ACTOR": "ann",
        "SIGN_KEY_FILE": str(folder / "team.key"),
        **({} if of_github else {"SIGN_KEY": str(folder / "team.key"), "VERIFY_KEY": str(folder / "team.pub")}),
        **({} if of_github else {"CI_REGISTRY": "registry.example.com", "CI_REGISTRY_USER": "ann"}),
        **({} if of_github else {"CI_REGISTRY_PASSWORD": "token"}),
    }
    if of_github:
        # the script writes it
        (folder / "team.key").unlink()
    codes = []
    for job in jobs(name, GIVEN):
        codes.append(run_job(job, folder / job.name, variables).returncode)
        if codes[-1] != 0:
            break
    return (folder / "calls").read_text().splitlines(), codes


@pytest.mark.parametrize("name", [GITHUB, GITLAB])
def test_the_scripts_run(name: str, tmp_path: Path) -> None:
    row = (document(name).get("env") or document(name)["variables"])["ENVIRONMENT"]
    found, codes = calls(name, tmp_path)
    assert set(codes) == {0}
    order = [
        f"lock {row} --check",
        f"build {row} --dry-run",
        f"build {row} --push --sign-key",
        f"pull {row} --verify-key",
    ]
    ours = [line.removeprefix("envbuilder ") for line in found if line.startswith("envbuilder ")]
    assert len(ours) == 4 and all(line.startswith(start) for line, start in zip(ours, order, strict=True)), ours
    assert found[-1] == "docker run --rm team/verl:1 python3 --version"
    assert any(
        line.startswith(("pipx install ascend-envbuilder", "pip install --quiet ascend-envbuilder")) for line in found
    )
    host = "ghcr.io" if name == GITHUB else "registry.example.com"
    assert f"docker login {host} --username ann --password-stdin" in found
    assert (tmp_path / "calls.login").read_text() == "token\n"
    # nobody else on the runner reads the key
    assert (tmp_path / "calls.key").read_text() == "private\nkey\n600\n"
    if name == GITHUB:
        assert (tmp_path / "team.pub").read_text() == "public\n"


@pytest.mark.parametrize("name", [GITHUB, GITLAB])
def test_a_failed_proof_ends_the_job(name: str, tmp_path: Path) -> None:
    found, codes = calls(name, tmp_path, code=6)
    assert codes[-1] == 6 and not any(" pull " in line for line in found)
