"""The chooser in a real browser: every environment is reached, and its commands are those that the command line prints."""

from __future__ import annotations

import functools
import html
import http.server
import json
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envbuilder.environment import Catalog
from envbuilder.matrix import Matrix
from tests.conftest import run
from tests.helpers.browser import opened
from tests.helpers.web_server import running

# changes the address of the page in a frame, and collects what it shows
WRAPPER = """<!doctype html><meta charset="utf-8"><iframe id="page" src="chooser.html"></iframe><pre id="found"></pre><script>
const steps = %s, found = [];
const page = document.getElementById("page");
page.addEventListener("load", async () => {
  for (const step of steps) {
    const inner = page.contentWindow;
    const changed = new Promise((done) => inner.addEventListener("hashchange", () => setTimeout(done), { once: true }));
    inner.location.hash = step.hash;
    await changed;
    if (step.table) {
      const area = inner.document.getElementById("table");
      area.value = step.table;
      area.dispatchEvent(new inner.Event("input"));
    }
    if (step.click) inner.document.querySelector(`[data-choice="${step.click}"]`).click();
    const texts = Object.fromEntries([...inner.document.querySelectorAll("[data-text]")].map((item) => [item.dataset.text, item.textContent]));
    const disabled = [...inner.document.querySelectorAll("[aria-disabled=true]")].map((item) => [item.dataset.choice, item.title]);
    found.push({ id: inner.document.getElementById("environment").textContent, texts, disabled, hash: inner.location.hash,
      said: inner.document.getElementById("said").textContent, title: inner.document.querySelector("h1").textContent,
      wide: inner.document.documentElement.scrollWidth > inner.innerWidth });
  }
  document.getElementById("found").textContent = JSON.stringify(found);
  document.title = "done";
});
</script>"""
Seen = list[dict[str, Any]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """Serve a folder with the page; yield the folder and its address."""
    made = tmp_path_factory.mktemp("page")
    assert run("choose", "-o", str(made / "chooser.html")).returncode == 0
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(made))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    with running(server):
        yield made, f"http://127.0.0.1:{server.server_address[1]}"


def shown(place: tuple[Path, str], steps: list[dict[str, str]], width: int = 1000) -> Seen:
    """Return what the page shows after each step."""
    made, address = place
    wrapper = WRAPPER.replace('id="page"', f'id="page" style="width:{width}px;height:900px"')
    # the browser keeps a file that was changed within the same second
    name = f"{uuid.uuid4().hex}.html"
    (made / name).write_text(wrapper % json.dumps(steps), encoding="utf-8")
    # the browser limits how often a page may change its address
    flags = ("--disable-ipc-flooding-protection", "--virtual-time-budget=120000")
    dom = opened(f"{address}/{name}", made / "user", *flags)
    (text,) = re.findall(r'<pre id="found">(.*?)</pre>', dom, re.DOTALL)
    found: Seen = json.loads(html.unescape(text))
    assert len(found) == len(steps)
    return found


def test_every_environment_is_reached_with_its_commands(folder: tuple[Path, str], matrix: Matrix) -> None:
    rows = Catalog(matrix).environments
    steps = [
        {"hash": f"lang=en&hw={w.hardware}&arch={w.arch}&framework={w.framework}&branch={w.branch}&engine={w.engine}"}
        for w in (row.coordinates for row in rows)
    ]
    found = shown(folder, steps)
    assert [item["id"] for item in found] == [row.id for row in rows]
    for row, item in zip(rows, found, strict=True):
        assert item["texts"]["get"] == f"envbuilder build {row.id}"
        for form in ("docker", "compose", "k8s"):
            printed = run("run", row.id, "--print", form).stdout
            assert item["texts"][form] == re.sub(r"^(# .*\n)+", "", printed).rstrip("\n"), (row.id, form)
        assert item["texts"].get("training", "") == run("quickstart", row.id).stdout.rstrip("\n"), row.id


def test_the_backend_decides_the_training(folder: tuple[Path, str]) -> None:
    here = "lang=en&hw=a3&arch=aarch64&framework=verl&engine=vllm"
    usual, megatron, without = shown(
        folder,
        [
            {"hash": f"{here}&branch=v0.8.0"},
            {"hash": f"{here}&branch=v0.8.0", "click": "backend=megatron"},
            {"hash": f"{here}&branch=v0.7.1&backend=megatron"},
        ],
    )
    assert "backend=fsdp" in usual["hash"] and "backend=megatron" in megatron["hash"]
    printed = run("quickstart", megatron["id"], "--recipe", "grpo-megatron").stdout.rstrip("\n")
    assert megatron["texts"]["training"] == printed != usual["texts"]["training"]
    assert (
        "backend=fsdp" in without["hash"] and ["backend=megatron", f"not with {without['id']}"] in without["disabled"]
    )


def test_choices_that_exclude_each_other_are_disabled_with_the_reason(folder: tuple[Path, str]) -> None:
    one, two, three = shown(
        folder,
        [
            {"hash": "lang=en&hw=a3&framework=verl&branch=v0.8.0&engine=vllm"},
            {"hash": "lang=en&hw=a3&framework=verl&branch=v0.8.0&engine=vllm", "click": "framework=openrlhf"},
            {"hash": "lang=zh&driver=24.1.RC1&hw=a2&arch=aarch64&framework=verl&branch=v0.9.1"},
        ],
    )
    assert ["framework=openrlhf", "not with Atlas A3 (910c)"] in one["disabled"]
    assert two["id"] == one["id"] and "not with Atlas A3" in two["said"], "a disabled one explains itself"
    assert three["id"].startswith("verl-v0.") and three["id"] != "verl-v0.9.1-vllm-a2-aarch64"
    assert any("24.1.RC1" in reason for _, reason in three["disabled"]) and three["title"] == "选择环境"


def test_a_pasted_table_chooses_the_family_and_the_driver(folder: tuple[Path, str]) -> None:
    table = "| npu-smi 25.5.0   Version: 25.5.0 |\n| 0     Ascend910  | OK |\n"
    a3, a2, unknown = shown(
        folder,
        [
            {"hash": "lang=en&hw=cpu", "table": table},
            {"hash": "lang=en&hw=cpu", "table": "| npu-smi 24.1.rc3 |\n| 0  910B3 | OK |"},
            {"hash": "lang=en&hw=cpu", "table": "no table at all"},
        ],
    )
    assert "-a3-" in a3["id"] and "driver=25.5.0" in a3["hash"] and "driver 25.5.0" in a3["said"]
    assert "-a2-" in a2["id"] and "driver=24.1.RC3" in a2["hash"]
    assert "-cpu-" in unknown["id"] and unknown["said"] == "no known chip in this text"


def test_the_page_fits_a_phone_and_needs_no_network(folder: tuple[Path, str]) -> None:
    (narrow,) = shown(folder, [{"hash": "lang=en&hw=a3"}], width=360)
    assert not narrow["wide"]
    text = (folder[0] / "chooser.html").read_text(encoding="utf-8")
    assert len(text.encode()) < 200_000
    assert not re.findall(r"(?:src|href)=|@import|fetch\(|XMLHttpRequest|url\(", text.partition('<script id="data"')[0])
