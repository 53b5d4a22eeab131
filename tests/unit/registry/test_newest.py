"""An older image under a name, whose signature is good: `pull` names it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from envbuilder.environment.image_names import ENVIRONMENT
from envbuilder.matrix import Matrix
from envbuilder.registry.client import MANIFEST_TYPES, Registry
from envbuilder.registry.newest import Seen, rollback
from envbuilder.registry.reference import Reference
from envbuilder.registry.signatures import sign
from envbuilder.signing.keys import make_keys, read_private
from tests.conftest import A2_VLLM, environment, run, succeeded
from tests.helpers.registry_in_memory import in_memory, published


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def test_the_newest_is_remembered_for_each_name() -> None:
    old, new = Seen("sha256:old", 1_700_000_000), Seen("sha256:new", 1_800_000_000)
    assert rollback("a:1", old) is None and rollback("a:1", new) is None and rollback("a:1", new) is None
    assert rollback("a:2", old) is None
    for _ in range(2):
        line = rollback("a:1", old)
        assert line is not None and "2023-11-14" in line and "2027-01-15" in line and "sha256:new" in line
    # the same image, which two keys have signed one after the other
    assert rollback("a:1", Seen("sha256:new", 5)) is None


BROKEN = {"empty": "", "a list": "[]", "a document": "{}", "no date": '["x", "y"]', "nested": "[" * 10**5}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_a_broken_note_is_replaced(tmp_path: Path, content: str) -> None:
    rollback("a:1", Seen("sha256:1", 1))
    (note,) = (tmp_path / "state" / "envbuilder" / "signed").iterdir()
    note.write_text(content)
    assert rollback("a:1", Seen("sha256:2", 10**30)) is None
    assert str(10**30) in str(rollback("a:1", Seen("sha256:3", 3)))


def test_pull_names_a_rollback(matrix: Matrix, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for end, content in zip(("key", "pub"), make_keys(b"x"), strict=True):
        (tmp_path / f"team.{end}").write_bytes(content)
    row, key = environment(matrix, A2_VLLM), read_private(tmp_path / "team.key", b"x")
    pulled = ("pull", row.id, "--save", str(tmp_path / "x.tar"), "--verify-key", str(tmp_path / "team.pub"))
    with in_memory() as (host, _):
        name, registry = Reference.parse(row.image_name(host)), Registry(host, back_off=0)
        manifests = []
        for at, author in enumerate(("old", "new")):
            manifests.append(published(host, name.wanted, config={"Labels": {ENVIRONMENT: row.id}}, author=author))
            monkeypatch.setattr(time, "time", lambda at=at: 1_700_000_000 + at * 10**8)
            sign(registry, name, registry.manifest("verl", name.wanted), key)
            monkeypatch.undo()
            monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
            assert "rollback: " not in succeeded(run(*pulled, "--registry", host)).stderr
        # the registry gives the tag to the older image again
        registry.put_manifest("verl", name.wanted, manifests[0], MANIFEST_TYPES[0])
        result = succeeded(run(*pulled, "--registry", host))
    assert f"rollback: this {name} was signed on 2023-11-14" in result.stderr
    assert registry.host in result.stderr and "on 2027-01-15" in result.stderr
