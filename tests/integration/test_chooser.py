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

from envbuilder.chooser import chooser
from envbuilder.environment import Catalog, Filters
from envbuilder.machine.npu_smi import Npu
from envbuilder.matrix import Matrix
from envbuilder.platforms import arch
from tests.conftest import run
from tests.helpers.browser import opened
from tests.helpers.npu_tables import LAYOUTS, table
from tests.helpers.web_server import running

# changes the address of the page in a frame, and collects what it shows
WRAPPER = """<!doctype html><meta charset="utf-8"><iframe id="page" src="chooser.html"></iframe><pre id="found"></pre><script>
const steps = %s, found = [];
const page = document.getElementById("page");
page.addEventListener("load", async () => {
  for (const [number, step] of steps.entries()) {
    const inner = page.contentWindow;
    const changed = new Promise((done) => inner.addEventListener("hashchange", () => setTimeout(done), { once: true }));
    /* the same address would change nothing */
    inner.location.hash = `${step.hash}&step=${number}`;
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
      said: inner.document.getElementById("said").textContent, note: inner.document.getElementById("note")?.textContent || "",
      facts: Object.fromEntries([...inner.document.querySelectorAll("#result > table:first-of-type tr")].map((item) => [...item.children].map((cell) => cell.textContent))),
      pressed: [...inner.document.querySelectorAll("[aria-pressed=true]")].map((item) => item.dataset.choice),
      off: [...inner.document.querySelectorAll("#all .off button")].map((item) => item.textContent),
      links: [...inner.document.querySelectorAll("a:not([hidden])")].map((item) => item.getAttribute("href")), title: inner.document.querySelector("h1").textContent,
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
    (made / "wrapper.html").write_text(wrapper % json.dumps(steps), encoding="utf-8")
    # a browser keeps a file that was changed within the same second, but not for another user
    user = made / uuid.uuid4().hex
    # the browser limits how often a page may change its address
    flags = ("--disable-ipc-flooding-protection", "--virtual-time-budget=120000")
    dom = opened(f"{address}/wrapper.html", user, *flags)
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
    assert "backend=fsdp" in usual["pressed"] and "backend=megatron" in megatron["hash"]
    printed = run("quickstart", megatron["id"], "--recipe", "grpo-megatron").stdout.rstrip("\n")
    assert megatron["texts"]["training"] == printed != usual["texts"]["training"]
    assert (
        "backend=fsdp" in without["pressed"]
        and ["backend=megatron", f"not with {without['id']}"] in without["disabled"]
    )


def test_choices_that_exclude_each_other_are_disabled_with_the_reason(folder: tuple[Path, str]) -> None:
    one, two, three, four = shown(
        folder,
        [
            {"hash": "lang=en&hw=a3&framework=verl&branch=v0.8.0&engine=vllm"},
            {"hash": "lang=en&hw=a3&framework=verl&branch=v0.8.0&engine=vllm", "click": "framework=openrlhf"},
            {"hash": "lang=zh&driver=24.1.0&hw=a2&arch=aarch64&framework=verl&branch=v0.9.1"},
            {"hash": "lang=en&hw=a2&product=atlas-800t-a2", "click": "arch=x86_64"},
        ],
    )
    assert ["framework=openrlhf", "not with Atlas A3 (910c)"] in one["disabled"]
    assert two["id"] == one["id"] and "not with Atlas A3" in two["said"], "a disabled one explains itself"
    assert three["id"].startswith("verl-v0.") and three["id"] != "verl-v0.9.1-vllm-a2-aarch64"
    assert any("24.1.0" in reason for _, reason in three["disabled"]) and three["title"] == "选择环境"
    assert four["id"].endswith("-aarch64") and "not with Atlas 800T A2" in four["said"]


def test_the_default_is_that_of_the_command_line(folder: tuple[Path, str], matrix: Matrix) -> None:
    """A choice gives the row of its option, whatever machine shows the page and whatever was chosen before."""
    catalog = Catalog(matrix)
    before = "lang=en&hw=cpu"
    named = {f"hw={name}": Filters(hardware=name) for name, item in catalog.hardware.items() if not item.cpu_only}
    products = {
        f"hw={name}&product={product}": Filters(hardware=product)
        for name, item in catalog.hardware.items()
        for product in item.products
    }
    cpu = {
        f"hw={name}": Filters(hardware=name, arch=arch()) for name, item in catalog.hardware.items() if item.cpu_only
    }
    expected = {**named, **products, **cpu}
    steps = [{"hash": f"lang=en&{choice}"} for choice in expected]
    clicks = [{"hash": before, "click": choice} for choice in named]
    found = [item["id"] for item in shown(folder, [{"hash": before, "click": "engine=sglang"}, *steps, *clicks])[1:]]
    wanted = [catalog.pick(None, filters).id for filters in (*expected.values(), *named.values())]
    assert found == wanted


def test_the_machines_are_those_of_the_architecture(folder: tuple[Path, str]) -> None:
    a2, box, cpu = shown(
        folder,
        [
            {"hash": "lang=en&hw=a2"},
            {"hash": "lang=en&hw=a2&arch=aarch64&product=atlas-200t-a2-box16"},
            {"hash": "lang=en&hw=a2&product=atlas-200t-a2-box16", "click": "hw=cpu"},
        ],
    )
    assert "Atlas 800T A2" in a2["facts"]["Machines"] and "Box16" not in a2["facts"]["Machines"]
    assert box["id"].endswith("-x86_64"), "a product is sold with one architecture"
    assert "Box16" in box["facts"]["Machines"] and "Atlas 800T A2" not in box["facts"]["Machines"]
    assert cpu["id"].endswith(arch()), "a CPU environment is for the machine that shows the page"


def test_the_driver_explains_what_it_excludes(folder: tuple[Path, str], matrix: Matrix) -> None:
    newest = Catalog(matrix).pick(None, Filters(hardware="a2")).id
    without, old, oldest, new = shown(
        folder,
        [
            {"hash": "lang=en&hw=a2"},
            {"hash": "lang=en&hw=a2&driver=24.1.0"},
            {"hash": "lang=en&hw=a2&driver=24.1.RC1"},
            {"hash": "lang=en&hw=a2&driver=26.1.0"},
        ],
    )
    assert without["id"] == new["id"] == newest and without["note"] == new["note"] == "" and not new["off"]
    assert old["id"] != newest and newest in old["off"] and old["id"] not in old["off"]
    cann, least = (without["facts"][name].partition(" ")[0] for name in ("CANN", "Driver"))
    assert f"Driver 24.1.0 does not run {newest}: CANN {cann} needs {least} or later." in old["note"]
    assert old["id"] in old["note"] and old["facts"]["Driver"].startswith("24.1.")
    assert oldest["note"].startswith("Driver 24.1.RC1 runs no environment of Atlas A2"), "and the page says so"
    assert len(oldest["off"]) > len(old["off"])


@pytest.mark.parametrize(
    ("layout", "driver", "chip", "number"), [("910", "24.1.0", "910B3", 8), ("a3", "25.5.0", "Ascend910", 16)]
)
def test_a_table_gives_the_row_of_doctor(
    folder: tuple[Path, str], tmp_path: Path, layout: str, driver: str, chip: str, number: int
) -> None:
    devices = [Npu(at, name=chip, health="OK", memory_total_mb=65536) for at in range(number)]
    printed = table(LAYOUTS[layout], driver, driver, devices)
    (tmp_path / "table.txt").write_text(printed, encoding="utf-8")
    best, *_ = json.loads(run("doctor", "--npu-smi", str(tmp_path / "table.txt"), "--json").stdout)["environments"]
    (found,) = shown(folder, [{"hash": "lang=en&hw=cpu", "table": printed}])
    assert f"driver {driver}, {number} NPUs, aarch64" in found["said"]
    assert found["id"] == best["id"] and found["id"].endswith("-aarch64")


def test_the_page_links_to_the_site_only_in_the_site(folder: tuple[Path, str], matrix: Matrix) -> None:
    (alone,) = shown(folder, [{"hash": "lang=en&hw=a3"}])
    assert alone["links"] == []
    page = folder[0] / "chooser.html"
    kept = page.read_text(encoding="utf-8")
    page.write_text(chooser(Catalog(matrix), in_site=True), encoding="utf-8")
    english, chinese = shown(folder, [{"hash": "lang=en&hw=a3"}, {"hash": "lang=zh&hw=a3"}])
    page.write_text(kept, encoding="utf-8")
    assert english["links"][0] == "index.html" and re.fullmatch(r"releases/verl-v.+\.html", english["links"][1])
    assert [link.startswith("zh/") for link in chinese["links"]] == [True, True]


def test_a_pasted_table_chooses_the_family_and_the_driver(folder: tuple[Path, str]) -> None:
    smi = "| npu-smi 25.5.0   Version: 25.5.0 |\n| 0     Ascend910  | OK |\n"
    a3, a2, box, later, unknown = shown(
        folder,
        [
            {"hash": "lang=en&hw=cpu", "table": smi},
            {"hash": "lang=en&hw=cpu", "table": "| npu-smi 24.1.rc3 |\n| 0  910B3 | OK |"},
            {"hash": "lang=en&hw=cpu", "table": "| npu-smi 1.0  Version: 25.2.0 |\n" + "| 1  910B1 | OK |\n" * 16},
            {
                "hash": "lang=en&hw=cpu",
                "table": "| npu-smi 1.0  Version: 25.3.7 |\n| 0  910B3 | OK |\nx86_64 GNU/Linux",
            },
            {"hash": "lang=en&hw=cpu", "table": "no table at all"},
        ],
    )
    assert "-a3-" in a3["id"] and "driver=25.5.0" in a3["hash"] and "driver 25.5.0" in a3["said"]
    assert "-a2-" in a2["id"] and "driver=24.1.RC3" in a2["hash"]
    assert box["id"].endswith("-a2-x86_64") and "16 NPUs, x86_64" in box["said"], "only one product has 16 of these"
    assert "driver=25.3.RC1" in later["hash"] and "driver 25.3.7, judged as 25.3.RC1" in later["said"]
    assert later["id"].endswith("-a2-x86_64"), "the text names the architecture"
    assert "-cpu-" in unknown["id"] and unknown["said"] == "no known chip in this text"


def test_the_page_fits_a_phone_and_needs_no_network(folder: tuple[Path, str]) -> None:
    (narrow,) = shown(folder, [{"hash": "lang=en&hw=a3"}], width=360)
    assert not narrow["wide"]
    text = (folder[0] / "chooser.html").read_text(encoding="utf-8")
    assert len(text.encode()) < 200_000
    assert not re.findall(r"(?:src|href)=|@import|fetch\(|XMLHttpRequest|url\(", text.partition('<script id="data"')[0])
