"""What the lock chooses replaces the guesses of a draft."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from envbuilder.environment import Environment
from envbuilder.lock import drafts
from envbuilder.lock.index import Index
from envbuilder.matrix import Matrix
from envbuilder.upstream.draft import Sources, draft
from envbuilder.upstream.readers import RowTarget
from tests.helpers.upstream import INDEX, TAG, mirror


def test_a_guess_is_resolved_and_everything_else_stays(
    matrix: Matrix, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Environment] = []

    def make_lock(environment: Environment, index: Index) -> SimpleNamespace:
        seen.append(environment)
        return SimpleNamespace(versions={"transformers": "4.57.5", "torch": "1.0", "tensordict": "0.9.9"})

    monkeypatch.setattr(drafts, "make_lock", make_lock)
    sources = Sources(INDEX, str(mirror(tmp_path / "mirror")), tmp_path / "kept")
    before = draft(matrix, RowTarget("verl", TAG, "vllm", "a2"), sources, {})
    (after,) = drafts.resolved(matrix, tmp_path / "overlay", [before], {"vllm": ("a2",)}, Index("http://x"))
    # the lock is made of a row without the guesses
    assert [item.version("transformers") for item in seen] == [None]
    assert seen[0].version("torch") == "2.9.0"
    changed = {name: pin.version for name, pin in after.pins.items() if pin != before.pins[name]}
    assert changed == {"transformers": "4.57.5", "tensordict": "0.9.9"}
    assert after.pins["transformers"].because == "resolved by the lock, with packages until 2026-09-11"
    assert after.pins["transformers"].status == "guessed"
    assert not (tmp_path / "overlay").exists()
