"""`validate --name` gives a candidate its name, if it passes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from envbuilder.docker import engine
from envbuilder.docker.engine import Image
from envbuilder.environment.image_names import CANDIDATE, ENVIRONMENT, PROVEN, candidate_name, is_candidate, proven_name
from envbuilder.matrix import Matrix
from envbuilder.validate import proof
from envbuilder.validate.report import Check
from tests.conftest import A3_SGLANG, Result, environment, run
from tests.helpers.passed_report import CHECKS, REPORT

FAILED = replace(REPORT, checks=(*CHECKS, Check("import", "import verl", "failed", "no")))


class Store:
    """An engine that has one image."""

    arch = "aarch64"

    def __init__(self, name: str) -> None:
        self.names = {name: Image("sha256:1", name, 10, self.arch, {ENVIRONMENT: A3_SGLANG}, "")}

    def image(self, name: str) -> Image | None:
        return self.names.get(name)

    def runs(self, arch: str) -> bool:
        return True

    def platform(self, arch: str) -> None:
        return None

    def untag(self, name: str) -> None:
        del self.names[name]

    def label(self, name: str, labels: dict[str, str], tag: str, platform: str | None) -> None:
        self.names[tag] = self.names[name]._replace(labels=labels)


@pytest.fixture
def name(matrix: Matrix) -> str:
    return environment(matrix, A3_SGLANG).image_name("team")


def validate(monkeypatch: pytest.MonkeyPatch, folder: Path, store: Store, *words: str, report: Any = REPORT) -> Result:
    monkeypatch.setattr(engine, "Docker", lambda: store)
    monkeypatch.setattr(proof, "prove_image", lambda *_: report)
    return run("validate", *words, "--name", "--registry", "team", XDG_STATE_HOME=str(folder))


def test_a_candidate_has_a_name_of_its_own(name: str) -> None:
    assert is_candidate(candidate_name(name)) and not is_candidate(name)
    assert proven_name(candidate_name(name)) == name


@pytest.mark.parametrize("by_id", [True, False])
def test_a_candidate_that_passes_gets_its_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, by_id: bool
) -> None:
    store = Store(candidate_name(name))
    result = validate(monkeypatch, tmp_path, store, A3_SGLANG if by_id else candidate_name(name))
    assert result.returncode == 0 and f"named {name}" in result.stderr, result.stderr
    assert list(store.names) == [name]
    labels = store.names[name].labels
    assert (labels[CANDIDATE], labels[PROVEN]) == ("sha256:1", "train")


def test_a_candidate_that_fails_stays_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    store = Store(candidate_name(name))
    assert validate(monkeypatch, tmp_path, store, A3_SGLANG, report=FAILED).returncode == 6
    assert list(store.names) == [candidate_name(name)]


def test_only_a_candidate_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    refused = validate(monkeypatch, tmp_path, Store(name), name)
    assert refused.returncode == 2 and "is not the name of a candidate" in refused.stderr
    assert validate(monkeypatch, tmp_path, Store(name), A3_SGLANG).returncode == 4
    assert validate(monkeypatch, tmp_path, Store(name), "--local").returncode == 2
