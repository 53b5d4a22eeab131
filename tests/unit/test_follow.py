"""How a script of the smoke run has ended, in the words of its own log."""

from __future__ import annotations

import pytest

from envbuilder.validate.follow import Ended

LOG = """
(EngineCore) AssertionError: the installed kernels are for another chip
    raise RuntimeError(
RuntimeError: Engine core initialization failed. See root cause above.
"""


@pytest.mark.parametrize(
    ("code", "text", "limit", "words"),
    [
        (0, LOG, None, "the trainer ended by itself"),
        (
            1,
            LOG,
            None,
            "the trainer ended with code 1: (EngineCore) AssertionError: the installed kernels are for another",
        ),
        (1, "some line\n", None, "the trainer ended with code 1: some line"),
        (1, "", None, "the trainer ended with code 1: it printed nothing"),
        (137, "", None, "the trainer was killed by signal 9"),
        (-9, "", None, "the trainer was killed by signal 9"),
        (137, "", 120.0, "the trainer was stopped after 2 minutes"),
    ],
)
def test_the_words_name_the_cause(code: int, text: str, limit: float | None, words: str) -> None:
    verdict = Ended(code, text, limit).verdict("trainer")
    assert verdict.message.startswith(words)
    assert verdict.passed == (code == 0)
