"""Threads with a maintainer's answer: diagnose gives the same answer, and no wrong one."""

from __future__ import annotations

import pytest

from envbuilder.environment import Catalog
from envbuilder.matrix import Matrix
from tests.helpers.verdicts import Case, judged, threads

CASES = list(threads())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_verdict_of_the_maintainers(matrix: Matrix, case: Case) -> None:
    verdict = judged(Catalog(matrix), case)
    assert case.codes & verdict.found and not verdict.wrong, (sorted(verdict.found), sorted(verdict.wrong))


def test_there_are_many_threads_of_many_kinds() -> None:
    assert len(CASES) > 100 and len({case.kind for case in CASES}) > 50
