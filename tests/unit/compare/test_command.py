"""The compare command: exit codes, the JSON document, pictures, and the evidence that it records."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PIL import Image

from envbuilder import paths
from envbuilder.compare import compare
from envbuilder.compare.picture import BAND_COLOUR, GPU_COLOUR, NPU_COLOUR
from envbuilder.compare.plot import drawer
from envbuilder.environment import Catalog
from envbuilder.errors import HostError, UsageError
from envbuilder.matrix import Matrix, load
from tests.conftest import A3_SGLANG, OPENRLHF
from tests.conftest import run as envbuilder
from tests.helpers.training_logs import LOSS, MEMORY, REWARD, SPEED, TIME, console, run, write

GPU = {
    LOSS: [0.1, 0.05, -0.02] * 5,
    REWARD: [0.1 + 0.05 * at for at in range(15)],
    SPEED: [200.0] * 15,
    TIME: [9.0] * 15,
    MEMORY: [20.0] * 15,
}
SVG = "{http://www.w3.org/2000/svg}"


def near(offset: float) -> str:
    ours = {**GPU, REWARD: [value + offset for value in GPU[REWARD]], SPEED: [150.0] * 15, TIME: [12.0] * 15}
    return console(ours, device="npu")


@pytest.fixture
def logs(tmp_path: Path) -> dict[str, str]:
    texts = {"npu": near(0.03), "far": near(0.05), "gpu": console(GPU, device="cuda")}
    return {name: write(tmp_path, f"{name}.log", text) for name, text in texts.items()}


def test_the_document(logs: dict[str, str]) -> None:
    result = envbuilder("compare", logs["npu"], logs["gpu"], "--json")
    assert (result.returncode, result.stderr) == (0, "")
    found = json.loads(result.stdout)
    assert found["schema_version"] == 1
    assert (found["verdict"], found["throughput_ratio"]) == ("passed", 0.75)
    assert [item["role"] for item in found["metrics"].values()] == ["loss", "reward"]
    reward = found["metrics"][REWARD]
    assert (reward["mae"], reward["limit"], reward["ok"], reward["steps"]) == (pytest.approx(0.03), 0.04, True, 15)
    assert reward["relative"] == pytest.approx(sum(0.03 / value for value in GPU[REWARD]) / 15)
    assert reward["by"] == "mae"


def test_a_broken_limit_exits_with_6_after_all_output(logs: dict[str, str], tmp_path: Path) -> None:
    picture = tmp_path / "deep" / "a.svg"
    result = envbuilder("compare", logs["far"], logs["gpu"], "--plot", str(picture), COLUMNS="80")
    assert result.returncode == 6
    assert "error: reward: mean absolute error 5.00 %, limit 4 %" in result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["metric", "verdict", "mae", "limit", "relative", "steps"]
    assert lines[2].split()[:5] == ["reward", "too", "far", "5.00", "%"] and lines[2].endswith("15")
    assert "throughput ratio 0.750: 150 to 200 in steps 1 to 4" in lines
    assert max(map(len, lines)) <= 80
    assert picture.is_file()
    assert json.loads(envbuilder("compare", logs["far"], logs["gpu"], "--json").stdout)["verdict"] == "failed"


def test_too_few_steps_exit_with_8(tmp_path: Path) -> None:
    short = {REWARD: GPU[REWARD][:3]}
    ours, theirs = (write(tmp_path, f"{name}.log", console(short, device=name)) for name in ("npu", "cuda"))
    result = envbuilder("compare", ours, theirs)
    assert result.returncode == 8 and "fewer than 10 show nothing" in result.stderr
    assert "verdict: inconclusive, as runs of verl, gate published" in result.stdout
    row = A3_SGLANG
    assert (
        envbuilder("compare", ours, theirs, "--environment", row, "--record", "--matrices", str(tmp_path)).returncode
        != 0
    )


def test_nightly_fits_a_narrow_terminal(logs: dict[str, str], tmp_path: Path) -> None:
    ours, theirs = (
        write(tmp_path, name, console({**GPU, TIME: [t] * 15}, device="npu")) for name, t in (("a", 9.1), ("b", 9.0))
    )
    result = envbuilder("compare", ours, theirs, "--gate", "nightly", COLUMNS="80")
    assert result.returncode == 0, result.stderr
    assert "step_time" in result.stdout and "+1.11 %" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
    narrow = envbuilder("compare", ours, theirs, "--gate", "nightly", COLUMNS="40").stdout.splitlines()
    assert narrow[0].split()[:2] == ["metric", "verdict"]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("npu", "npu"), "are the same log"),
        (("gpu", "npu"), "swap them: envbuilder compare"),
        (("npu", "gpu", "--gate", "weekly"), "has no gate"),
        (("npu", "gpu", "--plot", "a.pdf"), "end its name with .svg, .html, .png"),
        (("npu", "gpu", "--record"), "--environment ID"),
        (("npu", "absent"), "does not exist"),
    ],
)
def test_logs_that_cannot_be_compared_exit_with_2(logs: dict[str, str], arguments: tuple[str, ...], word: str) -> None:
    result = envbuilder("compare", *(logs.get(item, item) for item in arguments))
    assert (result.returncode, result.stdout) == (2, "")
    assert word in result.stderr and "hint:" in result.stderr


# --- pictures ------------------------------------------------------------------------------------------------


def test_the_svg_has_both_curves_and_the_band(logs: dict[str, str], tmp_path: Path) -> None:
    for name in ("a.svg", "a.html"):
        assert envbuilder("compare", logs["npu"], logs["gpu"], "--plot", str(tmp_path / name)).returncode == 0
    root = ElementTree.fromstring((tmp_path / "a.svg").read_text(encoding="utf-8"))  # noqa: S314  written by envbuilder
    curves = [item.get("class") for item in root.iter(f"{SVG}polyline")]
    assert (curves.count("npu"), curves.count("gpu")) == (3, 3)
    assert len([item for item in root.iter(f"{SVG}polygon") if item.get("class") == "band"]) == 2
    points = next(item for item in root.iter(f"{SVG}polyline") if item.get("class") == "npu").get("points", "")
    assert len(points.split()) == 15
    words = [item.text or "" for item in root.iter(f"{SVG}text")]
    assert {"NPU", "GPU", "limit", "passed", "npu.log against gpu.log"} <= {*words}
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "<svg" in page and "Throughput ratio 0.750" in page and '<td class="passed">ok</td>' in page


def test_the_png_is_drawn(matrix: Matrix) -> None:
    from io import BytesIO

    found = compare(Catalog(matrix), run(near(0.03), "a&<b>.log"), run(console(GPU), "gpu.log"))
    with Image.open(BytesIO(drawer(Path("x.PNG"))(found))) as image:
        colours = {colour: count for count, colour in image.convert("RGB").getcolors(2**24) or []}
    for colour in (NPU_COLOUR, GPU_COLOUR, BAND_COLOUR):
        assert colours.get((int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)), 0) > 500
    assert "a&amp;&lt;b&gt;.log" in drawer(Path("x.svg"))(found).decode()


def test_a_curve_with_holes_and_a_single_step(matrix: Matrix) -> None:
    holes = compare(
        Catalog(matrix), run(console({REWARD: [0.5, float("nan"), 0.5, 0.5]})), run(console({REWARD: [0.4] * 4}))
    )
    text = drawer(Path("x.svg"))(holes).decode()
    assert (text.count('class="npu"'), text.count('class="gpu"')) == (2, 1)
    assert "nan" not in text
    single = compare(Catalog(matrix), run(console({REWARD: [0.0]})), run(console({REWARD: [0.0], LOSS: [1.0]})))
    assert "<circle" in drawer(Path("x.svg"))(single).decode()


@pytest.mark.parametrize(("values", "first"), [([1e308, -1e308] * 4, 1), ([0.5] * 8, 10**11)])
def test_numbers_that_are_too_large(matrix: Matrix, tmp_path: Path, values: list[float], first: int) -> None:
    """They may exceed a limit, but cause no other error; neither does an odd file name."""
    ours, theirs = console({REWARD: values}, first=first), console({REWARD: [0.25] * 8}, first=first)
    found = compare(Catalog(matrix), run(ours, "a\x07\udcff.log"), run(theirs))
    assert not found.passed and "reward: mean absolute error" in found.broken[0]
    ElementTree.fromstring(drawer(tmp_path / "x.svg")(found))  # noqa: S314


def test_a_png_without_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "envbuilder.render.png", raising=False)
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(HostError) as caught:
        drawer(Path("a.png"))
    assert "'.[plot]'" in (caught.value.hint or "")
    drawer(Path("a.svg"))
    with pytest.raises(UsageError):
        drawer(Path("a"))


# --- evidence ------------------------------------------------------------------------------------------------


@pytest.fixture
def matrices(tmp_path: Path) -> Path:
    return Path(shutil.copytree(paths.matrices(), tmp_path / "matrices"))


def test_record_adds_to_the_evidence_of_the_row(logs: dict[str, str], matrices: Path, tmp_path: Path) -> None:
    before = load(matrices).evidence["verl/v0.6.0/sglang-a3-aarch64"].evidence
    options = ("--record", "--environment", A3_SGLANG, "--matrices", str(matrices))
    assert envbuilder("compare", logs["npu"], logs["gpu"], *options).returncode == 0
    *kept, added = load(matrices).evidence["verl/v0.6.0/sglang-a3-aarch64"].evidence
    assert [item.level for item in kept] == [item.level for item in before]
    assert (added.level, added.steps) == ("compared", 15)
    assert (added.error, added.throughput_ratio) == ("loss 0.00 %, reward 3.00 %", "0.75")
    assert "by the log of the run" in added.machine
    shown = envbuilder("show", A3_SGLANG, "--matrices", str(matrices)).stdout
    assert "proven      compared" in shown and "reward 3.00 % from a GPU" in " ".join(shown.split())
    document = json.loads(envbuilder("show", A3_SGLANG, "--matrices", str(matrices), "--json").stdout)
    assert document["environment"]["evidence"][-1]["error"] == "loss 0.00 %, reward 3.00 %"
    # the same result is recorded once; another result is added
    assert envbuilder("compare", logs["npu"], logs["gpu"], *options).returncode == 0
    assert len(load(matrices).evidence["verl/v0.6.0/sglang-a3-aarch64"].evidence) == len(before) + 1
    assert envbuilder("compare", write(tmp_path, "near", near(0.02)), logs["gpu"], *options).returncode == 0
    assert [item.error for item in load(matrices).evidence["verl/v0.6.0/sglang-a3-aarch64"].evidence][-2:] == [
        "loss 0.00 %, reward 3.00 %",
        "loss 0.00 %, reward 2.00 %",
    ]


@pytest.mark.parametrize(
    ("npu", "identifier", "more", "code"),
    [
        ("far", A3_SGLANG, (), 6),
        ("npu", "verl-v0.6.0-sglang-cpu-aarch64", (), 2),
        ("npu", A3_SGLANG, ("--gate", "nightly"), 2),
        ("npu", OPENRLHF, (), 2),
        ("npu", "verl-v9-none", (), 4),
    ],
)
def test_a_failed_or_unfit_comparison_is_not_recorded(
    logs: dict[str, str], matrices: Path, npu: str, identifier: str, more: tuple[str, ...], code: int
) -> None:
    def contents() -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in (matrices / "evidence").rglob("*.yaml")}

    before = contents()
    options = ("--record", "--environment", identifier, "--matrices", str(matrices), *more)
    assert envbuilder("compare", logs[npu], logs["gpu"], *options).returncode == code
    assert contents() == before


def test_a_framework_without_published_limits_is_not_judged(tmp_path: Path) -> None:
    text = "".join(f"{{'loss': 0.1, 'reward': 0.{at}, 'global_step/max_steps': '{at}/9'}}\n" for at in range(1, 10))
    files = [write(tmp_path, name, text) for name in ("npu.log", "gpu.log")]
    result = envbuilder("compare", *files, "--framework", "ms-swift")
    assert result.returncode == 4 and "ms-swift publishes no limits for a comparison" in result.stderr
