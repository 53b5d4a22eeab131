"""Logs of real runs, good and faulty, which `make controls` has recorded, are judged as when the runs ended."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest

from envbuilder import platforms
from envbuilder.matrix import Matrix
from envbuilder.matrix.model import CPU, STAND_IN
from envbuilder.validate import tokens, training
from envbuilder.validate.follow import Ended
from envbuilder.validate.smoke.job import Job, Place, smoke_job
from tests.conftest import environment
from tests.helpers.recorded import ANSWERS, FOLDER

# the checks that fail in a run of this name
FAULTS: dict[str, set[str]] = {
    "good": set(),
    "rate-zero": {"divergence", "reward"},
    "constant-reward": {"loss", "reward"},
    "weights-not-sent": {"weights", "reward"},
    "forgotten-past": {"tokens"},
}
LOGS = sorted(FOLDER.glob("*/*.log"))


def failures(log: Path, text: str, matrix: Matrix, monkeypatch: pytest.MonkeyPatch, folder: Path) -> set[str]:
    """Return the names of the checks that fail if a run of the log's environment prints this."""
    row = environment(matrix, f"{log.parent.name}-{platforms.arch()}")
    row, device = (row, CPU) if row.hardware.cpu_only else (row.rehearsed(), STAND_IN)
    job = smoke_job(row, device, Place("code", "folder"), depth="engine")
    assert isinstance(job, Job)
    for module in (training, tokens):
        monkeypatch.setattr(module, "follow", lambda *_: Ended(0, text, None))
    if ANSWERS in text:
        checks = [tokens.compare_tokens(Mock(), job, folder / "log", Mock())]
    else:
        checks, _ = training.train(Mock(), job, folder / "log", Mock())
    return {check.name for check in checks if check.status == "failed"}


def test_runs_with_faults_are_recorded() -> None:
    assert {"good", "rate-zero", "constant-reward", "weights-not-sent"} <= {log.stem for log in LOGS} <= FAULTS.keys()


@pytest.mark.parametrize("log", LOGS, ids=lambda log: f"{log.parent.name}-{log.stem}")
def test_a_recorded_run_is_judged_as_when_it_ended(
    log: Path, matrix: Matrix, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = failures(log, log.read_text(encoding="utf-8"), matrix, monkeypatch, tmp_path)
    assert found == FAULTS[log.stem]


@pytest.mark.parametrize("log", [log for log in LOGS if log.stem == "good"], ids=lambda log: log.parent.name)
def test_a_good_run_that_ended_early_fails(
    log: Path, matrix: Matrix, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    steps = log.read_text(encoding="utf-8").splitlines(keepends=True)
    assert "steps" in failures(log, "".join(steps[:-1]), matrix, monkeypatch, tmp_path)
