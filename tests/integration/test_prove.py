"""Proofs of several rows, one after the other, with kills between and within them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from envbuilder import paths, platforms
from envbuilder.matrix import load
from tests.conftest import environment, succeeded
from tests.helpers.waiting import wait_until
from tests.integration.conftest import Toy, docker, make_toy, run

ROOT = Path(__file__).resolve().parents[2]
KILLS = 10


@pytest.fixture
def rows(engine: None, tmp_path: Path) -> Toy:
    """Three rows, of which the second cannot be built: the hash of a package in its lock is another one."""
    toy = make_toy(tmp_path)
    folder = toy.matrices / "frameworks" / "toy"
    for number in (2, 3):
        (folder / f"v{number}.yaml").write_text((folder / "v1.yaml").read_text().replace("Toy v1", f"Toy v{number}"))
        succeeded(run("lock", identifier(number), "--matrices", str(toy.matrices)))
    place = paths.lock_folder(toy.matrices, environment(load(toy.matrices), identifier(2)).coordinates.folder)
    part = next(file for file in place.iterdir() if "tqdm==" in file.read_text())
    part.write_text(
        re.sub(r"(tqdm==\S+ \\\n(?:    \S+ \\\n)*    --hash=sha256:)\w{64}", rf"\g<1>{'0' * 64}", part.read_text())
    )
    return toy


def identifier(number: int) -> str:
    return f"toy-v{number}-reel-cpu-{platforms.arch()}"


def start(toy: Toy, results: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tools.prove", "--matrices", str(toy.matrices), "--git-mirror", str(toy.mirror)]
    return subprocess.Popen(
        [*command, "--results", str(results), "toy-*"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def ended(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


def recorded(toy: Toy) -> dict[str, list[str]]:
    """The levels of each row, and the cause where its proof failed."""
    rows = [environment(load(toy.matrices), identifier(number)) for number in (1, 2, 3)]
    return {
        row.id: [*(item.level for item in row.evidence), *([row.failure.cause] if row.failure else [])] for row in rows
    }


@pytest.mark.extended
def test_kills_lose_nothing_that_was_recorded(rows: Toy, tmp_path: Path) -> None:
    before = recorded(rows)
    for number in range(KILLS):
        process = start(rows, tmp_path / "results")
        # at the start, while it builds, proves or records, and between two rows
        time.sleep(0.5 + 1.2 * number)
        process.kill()
        process.communicate()
        wait_until(partial(ended, process.pid), lambda: "a build goes on alone")
        after = recorded(rows)
        assert all(set(after[name]) >= set(levels) for name, levels in before.items())
        before = after
    output, _ = start(rows, tmp_path / "results").communicate()
    found = recorded(rows)
    assert "built" in found[identifier(1)] and "built" in found[identifier(3)], output
    *_, cause = found[identifier(2)]
    assert "built" not in found[identifier(2)] and "hash" in cause.lower(), cause
    # nothing is left, and what failed is not tried again
    assert start(rows, tmp_path / "results").communicate()[0] == ""
    assert docker("images", "--filter", "reference=prove/*", "--quiet") == ""
    assert docker("ps", "-aq", "--filter", "label=envbuilder.environment=" + identifier(1)) == ""
