"""The site: every link works, nothing is loaded from another host, and its search works from files."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from envbuilder.environment import Catalog
from envbuilder.matrix import Matrix
from tests.conftest import run
from tests.helpers.browser import opened

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def site() -> Path:
    built = subprocess.run([sys.executable, "-m", "tools.site"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return ROOT / "build" / "site"


def test_every_release_and_component_has_a_page_in_both_languages(site: Path, matrix: Matrix) -> None:
    releases = {f"{item.framework}-{item.name}" for item in matrix.branches}
    for folder in (site, site / "zh"):
        assert {page.stem for page in (folder / "releases").glob("*.html")} == releases
        assert {page.stem for page in (folder / "compat").glob("*.html")} == set(Catalog(matrix).components)
    text = (site / "compat" / "torch_npu.html").read_text(encoding="utf-8")
    assert 'id="2-8-0-post2"' in text, "a version has a permalink"
    assert 'id="cann-hdk"' in (site / "rules.html").read_text(encoding="utf-8"), "and so has a code"


def test_the_commands_for_a_family_of_servers_run(site: Path, matrix: Matrix) -> None:
    pages = sorted((site.parent / "docs" / "start").glob("*.md"))
    assert {page.name.partition(".")[0] for page in pages} == set(Catalog(matrix).hardware)
    commands = {
        line for page in pages for line in re.findall(r"^\$ envbuilder (.+)$", page.read_text(encoding="utf-8"), re.M)
    }
    assert len(commands) > 4 * len(Catalog(matrix).hardware)
    for command in sorted(commands):
        assert run(*shlex.split(command)).returncode == 0, command


def test_nothing_is_loaded_from_another_host(site: Path) -> None:
    loads = re.compile(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=\"?(?:https?:)?//[^\s>]+")
    for page in site.rglob("*.html"):
        assert not loads.findall(page.read_text(encoding="utf-8")), page
    for sheet in site.rglob("*.css"):
        assert not re.findall(r"url\(\s*[\"']?(?:https?:)?//", sheet.read_text(encoding="utf-8")), sheet


@pytest.mark.parametrize(
    ("page", "words"), [("index.html", "matching documents"), ("zh/index.html", "个符合条件的结果")]
)
def test_the_search_works_from_files(site: Path, tmp_path: Path, page: str, words: str) -> None:
    dom = opened(f"file://{site}/{page}?q=mindspeed", tmp_path, "--virtual-time-budget=30000")
    assert re.search(rf"[1-9]\d* {words}", dom)
