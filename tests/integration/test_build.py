"""Real images on a real engine: what a build makes, keeps, and says when it fails."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from envbuilder.lock import locked_versions
from envbuilder.matrix import Matrix, load
from envbuilder.pipeline import image_name
from tests.conftest import Edit, environment

pytestmark = pytest.mark.xdist_group("engine")
ARCH = platform.machine()
SGLANG = f"verl-v0.6.0-sglang-cpu-{ARCH}"
VLLM = f"verl-v0.5.0-vllm-cpu-{ARCH}"


@pytest.fixture(scope="module", autouse=True)
def engine() -> None:
    answer = subprocess.run(["docker", "version"], capture_output=True, check=False)
    if answer.returncode != 0:
        pytest.skip(
            "needs a docker engine: run `make test`, or set DOCKER_HOST to the address that tools/engine.sh prints"
        )


def build(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "envbuilder", "build", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **variables})


def inside(image: str, code: str) -> str:
    command = ["docker", "run", "--rm", "--network", "none", image, "bash", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def image_of(matrix: Matrix, identifier: str) -> str:
    return image_name(matrix, environment(matrix, identifier), "envbuilder")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """Both images, built as a user would, with the report."""
    path = tmp_path_factory.mktemp("report") / "report.json"
    result = build(SGLANG, VLLM, "--report", str(path))
    assert result.returncode == 0, result.stderr[-4000:]
    document: dict[str, object] = json.loads(path.read_text())
    return document


@pytest.mark.parametrize("identifier", [SGLANG, VLLM])
def test_the_image_holds_what_was_locked(identifier: str, matrix: Matrix, report: dict[str, object]) -> None:
    listed = json.loads(
        inside(image_of(matrix, identifier), "python3 -m pip list --format json --disable-pip-version-check")
    )
    installed = {item["name"].lower().replace("_", "-"): item["version"] for item in listed}
    locked = locked_versions(matrix.lock_text(identifier) or "")
    assert {name: installed.get(name) for name in locked} == locked
    for pin in ("verl", environment(matrix, identifier).engine.engine):
        assert installed[pin].split("+")[0] == (environment(matrix, identifier).version(pin) or "").removeprefix("v")
    for removed in environment(matrix, identifier).lists["remove"].values:
        assert removed not in installed


def test_the_framework_imports(matrix: Matrix, report: dict[str, object]) -> None:
    hide = "import sys; sys.modules['torch_npu'] = None\n"
    for identifier in (SGLANG, VLLM):
        assert inside(
            image_of(matrix, identifier), f'python3 -c "{hide}import torch, verl; print(verl.__version__)"'
        ).strip()


def test_labels_tell_where_an_image_is_from(matrix: Matrix, report: dict[str, object]) -> None:
    found = subprocess.run(
        ["docker", "image", "inspect", image_of(matrix, SGLANG)], capture_output=True, text=True, check=True
    )
    labels = json.loads(found.stdout)[0]["Config"]["Labels"]
    assert labels["envbuilder.environment"] == SGLANG
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", labels["envbuilder.lock"])


def test_the_report_tells_steps_and_sources(report: dict[str, object]) -> None:
    assert report["schema_version"] == 1
    builds = report["builds"]
    assert isinstance(builds, list)
    assert [item["environment"] for item in builds] == [SGLANG, VLLM]
    assert [step["title"] for step in builds[0]["steps"]][:4] == ["system packages", "tools", "large wheels", "wheels"]
    assert {item["component"] for item in builds[1]["sources"]} == {"vllm", "vllm_ascend", "verl"}
    assert all(item["kind"] in {"git", "sdist"} and item["reference"] for item in builds[0]["sources"])


def test_nothing_of_the_network_stays_in_the_image(matrix: Matrix, report: dict[str, object]) -> None:
    image = image_of(matrix, SGLANG)
    assert inside(image, "find /run/secrets /run/envbuilder -type f") == ""
    assert inside(image, "ls /opt/envbuilder/src").split() == ["verl"]
    assert "BASH_ENV" not in inside(image, "env")
    history = subprocess.run(
        ["docker", "history", "--no-trunc", image], capture_output=True, text=True, check=True
    ).stdout
    assert "BEGIN CERTIFICATE" not in history
    assert "PIP_INDEX_URL" not in history


def test_an_unchanged_rebuild_makes_nothing(matrix: Matrix, report: dict[str, object]) -> None:
    builds = report["builds"]
    assert isinstance(builds, list)
    result = build(SGLANG)
    assert result.returncode == 0
    steps = re.findall(r"^  (.+): (cached|[0-9.]+ s)$", result.stderr, re.M)
    # an old engine may leave steps out of its progress; the same image is what counts
    assert {state for _, state in steps} <= {"cached"}
    assert builds[0]["id"][:19] in result.stderr


def test_a_changed_lock_leaves_the_large_wheels_alone(edit: Edit, matrix: Matrix, report: dict[str, object]) -> None:
    """Another lock, the same large wheels: their layer is the cached one."""
    folder = edit("frameworks/verl/v0.6.0.yaml", "title: verl", "title: verl")
    changed = f"# {uuid.uuid4()}\n" + re.sub(r"tqdm==\S+ \\\n    --hash=\S+\n", "", matrix.lock_text(SGLANG) or "")
    (folder / "locks").mkdir()
    (folder / "locks" / f"{SGLANG}.txt").write_text(changed)
    assert load(folder).lock_text(SGLANG) == changed
    result = build(SGLANG, "--matrices", str(folder), "--registry", "changed")
    steps = dict(re.findall(r"^  (.+): (cached|[0-9.]+ s)$", result.stderr, re.M))
    assert steps.get("large wheels", "cached") == "cached"
    assert steps.get("wheels") != "cached"


def test_a_failing_step_is_named_with_its_last_words(edit: Edit, matrix: Matrix, report: dict[str, object]) -> None:
    """A hash that is not that of the file on the index."""
    folder = edit("frameworks/verl/v0.6.0.yaml", "title: verl", "title: verl")
    lock = matrix.lock_text(SGLANG) or ""
    (folder / "locks").mkdir()
    broken = re.sub(r"(tqdm==\S+ \\\n    --hash=sha256:)[0-9a-f]{64}", r"\g<1>" + "0" * 64, lock)
    (folder / "locks" / f"{SGLANG}.txt").write_text(broken)
    result = build(SGLANG, "--matrices", str(folder), "--registry", "broken")
    assert result.returncode == 1
    assert "failed in 'wheels'" in result.stderr
    assert "is not the one that was locked" in result.stderr
    assert "the whole log: " in result.stderr
    tags = subprocess.run(["docker", "images", "broken/verl", "-q"], capture_output=True, text=True, check=True)
    assert tags.stdout == ""


def test_git_sources_come_from_a_mirror(tmp_path: Path, matrix: Matrix, edit: Edit, report: dict[str, object]) -> None:
    """A repository that the test makes stands in for that of verl."""
    work, bare = tmp_path / "work", tmp_path / "mirror" / "verl-project" / "verl.git"
    package = work / "verl"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (work / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
        '[project]\nname = "verl"\nversion = "0.6.0"\n[tool.setuptools]\npackages = ["verl"]\n'
    )
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example", "-C", str(work)]
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "x"]):
        subprocess.run([*git, *arguments], check=True)
    commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    bare.parent.mkdir(parents=True)
    subprocess.run(["git", "clone", "-q", "--bare", str(work), str(bare)], check=True)
    folder = edit("compat/verl.yaml", "commit: ddd86f527a4af75095e4677b02b5aa272913a088", f"commit: {commit}")
    # sglang has no mirror here, so it comes from the index: the two ways in one build
    result = build(
        SGLANG,
        "--matrices",
        str(folder),
        "--git-mirror",
        str(tmp_path / "mirror"),
        "--registry",
        "mirrored",
        "--report",
        str(tmp_path / "r.json"),
    )
    assert result.returncode == 0, result.stderr[-3000:]
    sources = {
        item["component"]: item for item in json.loads((tmp_path / "r.json").read_text())["builds"][0]["sources"]
    }
    assert (sources["verl"]["kind"], sources["verl"]["reference"]) == ("git", commit)
    assert sources["sglang"]["kind"] == "sdist"


def test_a_dry_run_needs_no_engine() -> None:
    result = build(SGLANG, "--dry-run", DOCKER_HOST="tcp://127.0.0.1:9")
    assert result.returncode == 0
    assert "AS environment" in result.stdout


def test_no_engine_is_said_plainly() -> None:
    result = build(SGLANG, DOCKER_HOST="tcp://127.0.0.1:9")
    assert result.returncode == 1
    assert "error: no docker engine answers" in result.stderr
