"""The order of a delivery: build, proof with its reports, name, push with a signature."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from xml.etree import ElementTree

import pytest

from envbuilder.build import deliver as delivery
from envbuilder.build.deliver import DeliveryOptions, deliver
from envbuilder.docker import engine
from envbuilder.docker.engine import Docker, Image
from envbuilder.environment.image_names import CANDIDATE, PROVEN, VALIDATION, candidate_name
from envbuilder.errors import ValidationError
from envbuilder.matrix import Matrix
from envbuilder.validate import ValidationOptions, gate
from envbuilder.validate.report import Check, Report
from tests.conftest import A3_SGLANG, environment, run
from tests.helpers.passed_report import CHECKS, REPORT

FAILED = replace(REPORT, checks=(*CHECKS, Check("import", "import verl", "failed", "no")))


class Store:
    """The names of an engine's images, and what was done with them."""

    arch = "aarch64"

    def __init__(self) -> None:
        self.images: dict[str, Image] = {}
        self.done: list[str] = []

    def built(self, name: str) -> None:
        self.images[name] = Image("sha256:1", name, 10, self.arch, {}, "")
        self.done.append("build")

    def image(self, name: str) -> Image | None:
        return self.images.get(name)

    def platform(self, arch: str) -> str | None:
        return None

    def untag(self, name: str) -> None:
        self.images.pop(name, None)

    def label(self, name: str, labels: dict[str, str], tag: str, platform: str | None) -> None:
        self.images[tag] = self.images[name]._replace(name=tag, labels=labels)
        self.done.append("name")


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Store:
    """An engine whose images pass the proof."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    found = Store()
    made = SimpleNamespace(environment=None, plan=None)

    def build(row: object, name: str, *_: object) -> object:
        found.built(name)
        return made

    def push(*_: object, key: object, **__: object) -> object:
        found.done.append(f"push, signed by {key}")
        return SimpleNamespace(digest="sha256:2")

    monkeypatch.setattr(delivery, "build", build)
    monkeypatch.setattr(delivery, "push", push)
    monkeypatch.setattr(gate, "container_of", lambda *_: nullcontext())
    proves(monkeypatch, found, REPORT)
    return found


def proves(monkeypatch: pytest.MonkeyPatch, store: Store, report: Report) -> None:
    def validate(*_: object) -> Report:
        store.done.append("prove")
        return report

    monkeypatch.setattr(gate, "validate", validate)


def delivered(matrix: Matrix, store: Store, **options: Any) -> delivery.Delivered:
    wanted = DeliveryOptions(registry="team", validation=ValidationOptions("train", "cpu", 1, None, None), **options)
    how: Any = SimpleNamespace(network=SimpleNamespace(ca_bundle=None))
    progress: Any = SimpleNamespace(say=lambda _: None)
    return deliver(environment(matrix, A3_SGLANG), wanted, how, cast(Docker, store), progress)


def test_an_image_is_proven_before_it_is_signed_and_pushed(matrix: Matrix, store: Store) -> None:
    found = delivered(matrix, store, push=True, key="team.key")
    assert store.done == ["build", "prove", "name", "push, signed by team.key"]
    assert found.digest == "sha256:2" and found.proof == REPORT


def test_a_candidate_that_fails_is_not_pushed_and_its_reports_are_written(
    matrix: Matrix, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proves(monkeypatch, store, FAILED)
    files = {"xml": tmp_path / "deep" / "proof.xml", "html": tmp_path / "proof.html"}
    with pytest.raises(ValidationError):
        delivered(matrix, store, push=True, files=files)
    assert store.done == ["build", "prove"]
    failures = ElementTree.fromstring(files["xml"].read_text()).iterfind(".//failure")  # noqa: S314
    assert [item.get("message") for item in failures] == ["no"]
    assert "import verl" in files["html"].read_text()


def test_an_unchanged_image_is_not_proven_again_and_has_its_reports(
    matrix: Matrix, store: Store, tmp_path: Path
) -> None:
    first, second = tmp_path / "first.xml", tmp_path / "second.xml"
    delivered(matrix, store, files={"xml": first})
    store.done.clear()
    assert delivered(matrix, store, files={"xml": second}).proof is None
    assert store.done == ["build"] and second.read_text() == first.read_text()


def test_a_report_that_is_not_kept_here_is_made_again(matrix: Matrix, store: Store, tmp_path: Path) -> None:
    """The engine may be older than the home of the user, as on runners of CI."""
    name = environment(matrix, A3_SGLANG).image_name("team")
    labels = {CANDIDATE: "sha256:1", PROVEN: "train", VALIDATION: f"sha256:{'0' * 64}"}
    store.images[name] = Image("sha256:0", name, 10, store.arch, labels, "")
    assert delivered(matrix, store).proof is None
    assert store.done == ["build"]
    assert delivered(matrix, store, files={"xml": tmp_path / "proof.xml"}).proof == REPORT
    assert (tmp_path / "proof.xml").is_file()
    assert candidate_name(name) not in store.images


# --- the command ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--sign-key", "KEY"], "--sign-key signs what is pushed"),
        (["--junit", "proof.xml", "--no-validate"], "which --no-validate leaves out"),
        (["verl-v0.8.0-sglang-a3-aarch64", "--html", "proof.html"], "the proof of one environment"),
        (["--push", "--rehearse"], "a rehearsal cannot be pushed"),
    ],
)
def test_options_that_contradict_each_other_are_refused(words: list[str], message: str, tmp_path: Path) -> None:
    (tmp_path / "KEY").touch()
    given = [str(tmp_path / word) if word == "KEY" else word for word in words]
    result = run("build", A3_SGLANG, *given, "--dry-run")
    assert (result.returncode, result.stdout) == (2, "")
    assert message in result.stderr and "hint: " in result.stderr


def test_a_key_of_the_settings_needs_no_push(tmp_path: Path) -> None:
    (tmp_path / "team.key").touch()
    result = run("build", A3_SGLANG, "--dry-run", ENVBUILDER_SIGN_KEY=str(tmp_path / "team.key"))
    assert result.returncode == 0, result.stderr


def test_a_proof_that_cannot_be_made_is_refused_before_the_build(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(engine, "Docker", lambda: SimpleNamespace(arch="x86_64", runs=lambda arch: arch == "x86_64"))
    result = run("build", A3_SGLANG, "--junit", str(tmp_path / "proof.xml"))
    assert result.returncode == 5 and "aarch64 is not emulated" in result.stderr


def test_a_dry_run_prints_and_writes_the_plan(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    result = run("build", A3_SGLANG, "verl-v0.6.0-sglang-cpu-*", "--dry-run", "--json", "--report", str(file))
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert found == json.loads(file.read_text())
    first = found["plans"][0]
    assert first["environment"] == A3_SGLANG and first["base_image"].startswith("quay.io/ascend/cann:")
    assert first["packages"] > 100 and first["unhashed"] == [] and "SGLang" in first["compiles"]
    assert {item["rehearsal"] for item in found["plans"]} == {False} and len(found["plans"]) > 1
    words = ("--rehearse", "--dry-run", "--report", str(file), "--git-mirror", str(tmp_path))
    rehearsed = run("build", A3_SGLANG, *words, DOCKER_HOST="tcp://127.0.0.1:9")
    assert rehearsed.returncode == 7 and A3_SGLANG in rehearsed.stdout, "the plan comes before the error"
    (plan,) = json.loads(file.read_text())["plans"]
    assert plan["rehearsal"] and plan["left_out"]
