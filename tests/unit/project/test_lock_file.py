"""The text of envbuilder.lock: what is written is read again, and nothing else is accepted."""

from __future__ import annotations

from pathlib import Path

import pytest

from envbuilder.environment.locks import LockedPackage
from envbuilder.errors import MatrixError
from envbuilder.project.lock_file import LockedEnvironment, ProjectLock, read_project_lock

A, B = "a" * 64, "b" * 64
LOCK = ProjectLock(
    of="0" * 64,
    environments={
        "one": LockedEnvironment("sha256:1", (LockedPackage("both", "1.0", (A,)), LockedPackage("first", "2.0", (B,)))),
        "two": LockedEnvironment("sha256:2", (LockedPackage("both", "1.0", (A,)),)),
    },
    may_change=("numpy",),
    stated={"fork": {"setup.py": "sha256:3"}},
)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "envbuilder.lock"
    assert read_project_lock(file) is None
    file.write_text(LOCK.text)
    assert read_project_lock(file) == LOCK
    assert LOCK.text.count("[[package]]") == 2, "a package of both environments stands in it once"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (A, B),
        ('version = "2.0"', 'version = "2.1"'),
        ('may-change = ["numpy"]', "may-change = []"),
        ("form = 2", "form = 3"),
        ("[[package]]", "[[packages]]"),
        ("sha256:3", "sha256:4"),
        ('name = "both"', "name = 1"),
        ('"one" = ', '"one\\u0007" = '),
        ("# each environment", "# every environment"),
    ],
)
def test_a_change_by_hand_is_refused(tmp_path: Path, old: str, new: str) -> None:
    file = tmp_path / "envbuilder.lock"
    assert old in LOCK.text
    file.write_text(LOCK.text.replace(old, new, 1))
    with pytest.raises(MatrixError) as error:
        read_project_lock(file)
    assert error.value.hint == "run: envbuilder lock" and error.value.where is not None
