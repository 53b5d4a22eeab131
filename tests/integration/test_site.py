"""The site: every link works, nothing is loaded from another host, and its search works from files."""

from __future__ import annotations

import functools
import html
import http.server
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from envbuilder.environment import Catalog, Filters
from envbuilder.matrix import Matrix
from tests.conftest import run
from tests.helpers.browser import opened
from tests.helpers.web_server import running

ROOT = Path(__file__).resolve().parents[2]
# the site of a workflow links to its repository
REPOSITORY = "https://github.com/example/envbuilder"


@pytest.fixture(scope="module")
def site() -> Path:
    host, _, repository = REPOSITORY.partition("/example/")
    variables = {**os.environ, "GITHUB_SERVER_URL": host, "GITHUB_REPOSITORY": f"example/{repository}"}
    command = [sys.executable, "-m", "tools.site"]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=variables)
    assert built.returncode == 0, built.stdout + built.stderr
    return ROOT / "build" / "site"


def test_every_release_and_component_has_a_page_in_both_languages(site: Path, matrix: Matrix) -> None:
    releases = {f"{item.framework}-{item.name}" for item in matrix.branches}
    for folder in (site, site / "zh"):
        assert {page.stem for page in (folder / "releases").glob("*.html")} == releases
        assert {page.stem for page in (folder / "compat").glob("*.html")} == set(Catalog(matrix).components)
        assert all("<table" in page.read_text(encoding="utf-8") for page in (folder / "compat").glob("*.html"))
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
    ("page", "query", "first"),
    [
        ("index.html", "mindspeed", "compat/mindspeed.html"),
        ("zh/index.html", "mindspeed", "zh/compat/mindspeed.html"),
        ("zh/index.html", "离线", "zh/guides/offline.html"),
        # not translated
        ("zh/start/a2.html", "index-missing", "zh/rules.html"),
    ],
)
def test_the_search_finds_pages_of_the_language_from_files(
    site: Path, tmp_path: Path, page: str, query: str, first: str
) -> None:
    dom = opened(f"file://{site}/{page}?q={quote(query)}", tmp_path, "--virtual-time-budget=30000")
    found = re.findall(r'<a href="file://([^"?#]+)[^"]*" class="md-search-result__link"', dom)
    assert found and found[0] == f"{site}/{first}"
    folder = str(site / "zh") if page.startswith("zh/") else str(site)
    assert all(Path(path).is_file() and path.startswith(folder) for path in found)
    assert page.startswith("zh/") or not any("/zh/" in path for path in found)


# opens pages in a frame of a width; collects what a copy button copies, words that are broken, and the ends of columns
WRAPPER = """<!doctype html><meta charset="utf-8"><iframe id="page"></iframe><pre id="found"></pre><script>
const found = [], frame = document.getElementById("page");
const words = (cell) => {
  const nodes = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT), broken = [];
  for (let node = nodes.nextNode(); node; node = nodes.nextNode()) for (const word of node.data.matchAll(/[\\w.]+/g)) {
    const range = frame.contentDocument.createRange();
    range.setStart(node, word.index);
    range.setEnd(node, word.index + word[0].length);
    if (new Set([...range.getClientRects()].map((part) => Math.round(part.top))).size > 1) broken.push(word[0]);
  }
  return broken;
};
(async () => {
  for (const [address, width] of %s) {
    frame.style = `width:${width}px;height:900px;border:0`;
    await new Promise((done) => { frame.onload = () => setTimeout(done, 500); frame.src = `site/${address}`; });
    const page = frame.contentDocument, copied = [];
    page.execCommand = () => copied.push(page.activeElement.value);
    for (const button of page.querySelectorAll(".md-clipboard, [data-md-type=copy]")) button.click();
    const columns = [...page.querySelectorAll("table:not([class]) th")].map((cell) => [cell.textContent, cell.getBoundingClientRect().right]);
    found.push({ copied, columns, broken: [...page.querySelectorAll("table:not([class]) :is(th, td)")].flatMap(words) });
  }
  document.getElementById("found").textContent = JSON.stringify(found);
})();
</script>"""


@pytest.fixture(scope="module")
def seen(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[dict[str, Any]]]:
    folder = tmp_path_factory.mktemp("frame")
    (folder / "site").symlink_to(site)

    def show(*pages: tuple[str, int]) -> list[dict[str, Any]]:
        (folder / "frame.html").write_text(WRAPPER % json.dumps(pages), encoding="utf-8")
        handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        with running(server):
            address = f"http://127.0.0.1:{server.server_address[1]}/frame.html"
            dom = opened(address, folder / "user", "--window-size=1400,1000", "--virtual-time-budget=120000")
        (text,) = re.findall(r'<pre id="found">(.*?)</pre>', dom, re.DOTALL)
        found: list[dict[str, Any]] = json.loads(html.unescape(text))
        return found

    return show


def test_a_copy_button_copies_commands_without_prompts(seen: Callable[..., list[dict[str, Any]]]) -> None:
    (index,) = seen(("index.html", 1280))
    assert (
        "envbuilder show --hw a3\nenvbuilder build --hw a3 --dry-run\nenvbuilder quickstart --hw a3" in index["copied"]
    )
    assert not any("$ " in text for text in index["copied"])


def test_no_word_is_broken_on_a_wide_screen(
    seen: Callable[..., list[dict[str, Any]]], site: Path, matrix: Matrix
) -> None:
    newest = Catalog(matrix).pick().coordinates
    listed = ["index", "overview", "start/a2", "compat/torch_npu", "compat/hdk", "matrix", "rules", "zh/start/a2"]
    names = [f"{name}.html" for name in (*listed, f"releases/{newest.framework}-{newest.branch}")]
    for name, page in zip(names, seen(*((page, 1280) for page in names)), strict=True):
        assert page["columns"] and page["broken"] == [], name


def test_a_phone_shows_the_driver(seen: Callable[..., list[dict[str, Any]]]) -> None:
    for page in seen(("start/a2.html", 390), ("zh/start/a3.html", 390), ("index.html", 390)):
        assert page["columns"] and all(right <= 390 for _, right in page["columns"]), page["columns"]
    assert "needs driver" in dict(seen(("start/a2.html", 390))[0]["columns"])


def test_each_driver_has_its_toolkits_and_the_best_environment(site: Path, matrix: Matrix) -> None:
    catalog = Catalog(matrix)
    lines = (site.parent / "docs" / "compat" / "hdk.md").read_text(encoding="utf-8").splitlines()
    rows = {re.findall(r'id="([^"]+)"', line)[0]: line for line in lines if 'id="' in line}
    assert len(rows) == len(catalog.components["hdk"].releases)
    newest = catalog.pick(None, Filters(hardware="a2")).branch.title
    assert f"Atlas A2: [{newest}]" in rows["26-1-0"] and "CANN&nbsp;[9.1.0]" in rows["26-1-0"]
    assert f"Atlas A2: [{newest}]" not in rows["24-1-0"] and "Atlas A2: [verl v0." in rows["24-1-0"]


def test_a_workflow_links_to_its_repository(site: Path) -> None:
    for page in (site / "index.html", site / "zh" / "index.html"):
        text = page.read_text(encoding="utf-8")
        assert f'href="{REPOSITORY}"' in text and f'href="{REPOSITORY}/issues"' not in text
        overview = page.with_name("overview.html").read_text(encoding="utf-8")
        assert f'href="{REPOSITORY}/issues"' in overview, "as the README does"
