"""Real images on a real engine: the results of a build, its caches, and its errors."""

from __future__ import annotations

import json
import os
import re
import subprocess
import uuid
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from envbuilder.docker.client import build_command
from envbuilder.environment.locks import Lock
from envbuilder.matrix import Matrix, load
from envbuilder.network import host_network
from tests.conftest import Edit, environment, succeeded
from tests.helpers.servers import gateway, git_server
from tests.integration.conftest import (
    BASE,
    DEMO,
    SMALL,
    Demo,
    build,
    command,
    docker,
    inside,
    labels,
    lock_of,
    make_toy,
    repository,
    run,
    write_part,
)

STEPS = re.compile(r"^  (.+): (cached|[0-9.]+ s)$", re.M)


def lock_in(demo: Demo) -> Lock:
    """Return the lock of the image: the fallback if the index of the pinned torch cannot be reached."""
    lock = demo.row.as_labelled(labels(demo.image)).lock
    assert lock is not None
    return lock


def test_the_image_holds_what_was_locked(demo: Demo) -> None:
    listed = json.loads(inside(demo.image, "python3 -m pip list --format json --disable-pip-version-check"))
    installed = {item["name"].lower().replace("_", "-"): item["version"] for item in listed}
    locked = lock_in(demo).versions
    assert {name: installed.get(name) for name in locked} == locked
    for pin in ("verl", demo.row.engine.engine):
        assert installed[pin].split("+")[0] == (demo.row.version(pin) or "").removeprefix("v")
    for removed in demo.row.lists["remove"].values:
        assert removed not in installed


def test_the_framework_imports(demo: Demo) -> None:
    hide = "import sys; sys.modules['torch_npu'] = None\n"
    assert inside(demo.image, f'python3 -c "{hide}import torch, verl; print(verl.__version__)"').strip()


def test_the_image_holds_its_lock(demo: Demo) -> None:
    """Besides, it has only the packages of the base image and the bill of materials."""
    files = inside(demo.image, "cd /opt/envbuilder && find . -path ./src -prune -o -type f -print").split()
    beside = {name for name in files if not name.startswith("./locks/")}
    assert beside == {"./base.txt", "./sbom.cdx.json"}
    for part, text in lock_in(demo).files().items():
        assert inside(demo.image, f"cat /opt/envbuilder/locks/{part}.txt") == text


def test_labels_name_the_sources_of_an_image(demo: Demo) -> None:
    found = labels(demo.image)
    assert found["envbuilder.environment"] == DEMO
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", found["envbuilder.lock"])
    assert found["org.opencontainers.image.revision"] == "ddd86f527a4af75095e4677b02b5aa272913a088"
    for source in demo.report["builds"][0]["sources"]:
        assert found[f"envbuilder.source.{source['component']}"] == f"{source['kind']}:{source['reference']}"


def test_the_image_carries_its_bill_of_materials(demo: Demo) -> None:
    bill = inside(demo.image, f"cat {labels(demo.image)['envbuilder.sbom']}")
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(bill) is None
    parts = {item["name"]: item["version"] for item in json.loads(bill)["components"]}
    assert parts.items() >= lock_in(demo).versions.items()
    assert {demo.row.engine.engine, "verl"} <= set(parts)


def test_the_report_lists_steps_and_sources(demo: Demo) -> None:
    assert demo.report["schema_version"] == 1
    builds = demo.report["builds"]
    assert [item["environment"] for item in builds] == [DEMO]
    ran = [step["title"] for step in builds[0]["steps"]]
    assert [title for title in ran if "SGLang" not in title and title != "other large wheels"] == [
        "tools", "system packages", "torch", "build packages", "settled wheels", "source builds", "verl",
        "pins", "consistency",
    ]  # fmt: skip
    assert {item["component"] for item in builds[0]["sources"]} == {"sglang", "verl"}
    assert all(item["kind"] in {"git", "sdist"} and item["reference"] for item in builds[0]["sources"])


def test_the_image_has_trained(demo: Demo) -> None:
    """It did so with its own engine."""
    proof = demo.report["builds"][0]["validation"]
    if proof is None:
        pytest.skip("proven in an earlier run on this engine")
    assert proof["passed"] and proof["proven"] == "train"
    assert proof["training"]["depth"] == "engine"
    assert proof["training"]["reward_last"] > 0.8, "what digits alone cannot reach"


def test_nothing_of_the_network_stays_in_the_image(demo: Demo) -> None:
    assert inside(demo.image, "find /run /dev/shm -type f") == ""
    assert inside(demo.image, "ls /opt/envbuilder/src").split() == ["verl"]
    assert "BASH_ENV" not in inside(demo.image, "env")
    history = docker("history", "--no-trunc", demo.image)
    assert "BEGIN CERTIFICATE" not in history
    assert "PIP_INDEX_URL" not in history


def test_an_unchanged_rebuild_does_nothing(demo: Demo) -> None:
    builds = demo.report["builds"]
    result = run("build", DEMO)
    assert result.returncode == 0
    assert "proven before" in result.stderr
    steps = STEPS.findall(result.stderr)
    # an old engine may leave steps out of its progress; the same image is what counts
    assert {state for _, state in steps} <= {"cached"}
    assert builds[0]["id"][:19] in result.stderr


def test_a_changed_pin_installs_itself_alone(edit: Edit, matrix: Matrix, demo: Demo) -> None:
    """Every layer before the pins of the row comes from the cache."""
    folder = edit("frameworks/verl/v0.6.0.yaml", "title: verl", "title: verl")
    lock = lock_of(matrix, DEMO)
    # a pin of the row with one more hash
    pins = lock.part("pins")
    changed = re.sub(
        r"^(transformers==\S+ \\\n)", rf"\1    --hash=sha256:{uuid.uuid4().hex * 2} \\\n", pins, flags=re.M
    )
    assert changed != pins
    write_part(folder, lock, DEMO, "pins", changed)
    result = succeeded(build(DEMO, "--matrices", str(folder), "--registry", "changed"))
    steps = dict(STEPS.findall(result.stderr))
    for title in ("system packages", "tools", "torch", "build packages", "settled wheels", "source builds", "verl"):
        assert steps.get(title, "cached") == "cached", title
    assert steps.get("pins") != "cached"


def test_a_failing_step_is_named_with_its_last_lines(edit: Edit, matrix: Matrix, demo: Demo) -> None:
    """The hash differs from that of the file on the index."""
    folder = edit("frameworks/verl/v0.6.0.yaml", "title: verl", "title: verl")
    lock = lock_of(matrix, DEMO)
    settled = lock.part("settled")
    broken = re.sub(r"(tqdm==\S+ \\\n    --hash=sha256:)[0-9a-f]{64}", r"\g<1>" + "0" * 64, settled)
    assert broken != settled
    write_part(folder, lock, DEMO, "settled", broken)
    result = build(DEMO, "--matrices", str(folder), "--registry", "broken")
    assert result.returncode == 1
    assert "failed in 'settled wheels'" in result.stderr
    assert "is not the one that was locked" in result.stderr
    assert "the whole log: " in result.stderr
    assert docker("images", "broken/verl", "-q") == ""


def test_git_sources_come_from_a_mirror(tmp_path: Path, edit: Edit, demo: Demo) -> None:
    """A repository that the test makes replaces that of verl."""
    commit = repository(tmp_path / "mirror" / "verl-project", "verl", version="0.6.0")
    folder = edit("compat/verl.yaml", "commit: ddd86f527a4af75095e4677b02b5aa272913a088", f"commit: {commit}")
    # sglang has no mirror here, so it comes from the index: the two ways in one build
    result = build(
        DEMO,
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


def test_the_base_image_is_made_from_the_packages_of_the_distribution(engine: None) -> None:
    made = subprocess.run(command("base"), capture_output=True, text=True, check=True)
    assert made.stdout == f"{BASE}\n"
    assert "from the packages of Debian bookworm" in made.stderr
    system = inside(made.stdout.strip(), ". /etc/os-release; echo $VERSION_CODENAME; python3 --version")
    assert system.startswith("bookworm\nPython 3.11.")
    refused = run("base", "--hw", "atlas-800t-a3", "--arch", "aarch64")
    assert refused.returncode == 2
    assert "cannot be made from packages" in refused.stderr


def test_a_dry_run_needs_no_engine() -> None:
    result = build(DEMO, "--dry-run", DOCKER_HOST="tcp://127.0.0.1:9")
    assert result.returncode == 0
    assert "compiles" in result.stdout and f"envbuilder render {DEMO}" in result.stderr


def test_a_missing_engine_is_a_clear_error() -> None:
    result = build(DEMO, DOCKER_HOST="tcp://127.0.0.1:9")
    assert result.returncode == 5
    assert "error: no docker engine answers" in result.stderr


def test_a_rendered_build_context_needs_no_envbuilder(tmp_path: Path, engine: None) -> None:
    """Docker builds it and fetches the repositories."""
    toy = make_toy(tmp_path, system_packages="git")
    contexts = tmp_path / "contexts"
    contexts.mkdir()
    assert run("render", toy.id, "--matrices", str(toy.matrices), "-o", str(contexts)).returncode == 0
    secrets = host_network().secrets()
    with git_server(toy.mirror) as port:
        # the toy's repositories have addresses that do not exist
        instead = f"GIT_CONFIG_KEY_0=url.git://{gateway()}:{port}/.insteadOf GIT_CONFIG_VALUE_0=https://git.example/"
        secrets["network"] += f"export GIT_CONFIG_COUNT=1 {instead}\n"
        words = [*build_command(), "--tag", "by-hand/toy:1", "--build-arg", f"BASE_IMAGE={SMALL}"]
        for name, text in secrets.items():
            (tmp_path / name).write_text(text)
            words += ["--secret", f"id={name},src={tmp_path / name}"]
        result = subprocess.run(
            [*words, str(contexts / environment(load(toy.matrices), toy.id).coordinates.folder)],
            capture_output=True, text=True, check=False, env={**os.environ, "DOCKER_BUILDKIT": "1"},
        )  # fmt: skip
    assert result.returncode == 0, result.stderr[-3000:]
    assert inside("by-hand/toy:1", "python3 -c 'import toy, reel, tqdm; print(tqdm.__version__)'") == "4.67.1\n"
    assert labels("by-hand/toy:1")["envbuilder.environment"] == toy.id
