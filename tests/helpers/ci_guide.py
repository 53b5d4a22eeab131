"""The files of the guide for CI, and their jobs as scripts."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.conftest import Result

GUIDES = Path(__file__).resolve().parents[2] / "docs/guides"
GITHUB, GITLAB = ".github/workflows/environment.yml", ".gitlab-ci.yml"
# keys of a file for GitLab that are no jobs
_NO_JOBS = {"stages", "variables", "default"}


class Script(NamedTuple):
    """What one shell runs, with the variables of the file."""

    text: str
    variables: Mapping[str, str]


class Job(NamedTuple):
    name: str
    scripts: Sequence[Script]


def texts(page: str) -> dict[str, str]:
    """Return the files of a page by their paths, which their first lines name."""
    text = (GUIDES / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```yaml\n# (\S+)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return dict(blocks)


def commands_of(page: str) -> list[str]:
    """Return the blocks of a page that have no language, in which its commands are."""
    text = (GUIDES / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [block for language, block in blocks if not language]


def document(name: str) -> dict[str, Any]:
    """Return a file of the guide; YAML 1.1 reads the key `on` as true."""
    found = yaml.safe_load(texts("ci.md")[name])
    return {"on" if key is True else key: value for key, value in found.items()}


def jobs(name: str, given: Mapping[str, str]) -> list[Job]:
    """Return the jobs of a file in their order; `given` has the values of secrets and of what the CI system sets."""
    return list(_of_github(given) if name == GITHUB else _of_gitlab(given))


def run_job(job: Job, folder: Path, variables: Mapping[str, str]) -> Result:
    """Run the scripts of a job until one fails, as the CI system does; these variables win over those of the file."""
    folder.mkdir()
    result = Result(job.name, 0, "", "")
    for script in job.scripts:
        result = subprocess.run(
            ["bash", "-e", "-c", script.text],
            cwd=folder,
            env={**script.variables, **variables},
            capture_output=True,
            text=True,
            check=False,
        )
        if result.returncode != 0:
            break
    return result


def _of_github(given: Mapping[str, str]) -> Iterator[Job]:
    workflow = document(GITHUB)
    for name, job in workflow["jobs"].items():
        found = [
            Script(step["run"], _filled({**workflow["env"], **step.get("env", {})}, r"\$\{\{ ([\w.]+) \}\}", given))
            for step in job["steps"]
            if "run" in step
        ]
        yield Job(name, found)


def _of_gitlab(given: Mapping[str, str]) -> Iterator[Job]:
    file = document(GITLAB)
    variables = _filled(file["variables"], r"\$(\w+)", given)
    for name in sorted(file.keys() - _NO_JOBS, key=lambda name: file["stages"].index(file[name]["stage"])):
        # the lines before a job and those of the job run in one shell
        yield Job(name, [Script("\n".join([*file["default"]["before_script"], *file[name]["script"]]), variables)])


def _filled(variables: Mapping[str, str], pattern: str, given: Mapping[str, str]) -> dict[str, str]:
    return {name: re.sub(pattern, lambda match: given[match[1]], value) for name, value in variables.items()}
