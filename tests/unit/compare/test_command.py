"""The compare command: exit codes, the JSON document, pictures, and the evidence that it records."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from io import BytesIO
from pathlib import Path
from xml.etree import ElementTree

import pytest
from matplotlib.image import imread

from envbuilder import paths
from envbuilder.compare import compare
from envbuilder.compare.plot import GPU_COLOUR, LIMIT_COLOUR, NPU_COLOUR, drawer
from envbuilder.environment import Catalog
from envbuilder.errors import HostError, UsageError
from envbuilder.matrix import Matrix, load
from tests.conftest import A3_SGLANG, start, succeeded
from tests.conftest import run as envbuilder
from tests.helpers.recorded_logs import LOGS, log
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
    copied = console({**GPU, SPEED: [201.0] * 15, TIME: [8.9] * 15}, device="npu")
    texts = {"npu": near(0.03), "far": near(0.05), "copy": copied, "gpu": console(GPU, device="cuda")}
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
    assert lines[:2] == ["first: NPU, far.log", "second: GPU, gpu.log"]
    assert lines[3].split() == ["metric", "verdict", "mae", "limit", "relative", "steps"]
    assert lines[5].split()[:5] == ["reward", "too", "far", "5.00", "%"] and lines[5].endswith("15")
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
    result = succeeded(envbuilder("compare", ours, theirs, "--gate", "nightly", COLUMNS="80"))
    assert "step_time" in result.stdout and "+1.11 %" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
    narrow = envbuilder("compare", ours, theirs, "--gate", "nightly", COLUMNS="40").stdout.splitlines()
    assert ["metric", "verdict"] in [line.split()[:2] for line in narrow]


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


# --- recorded runs of several devices ---------------------------------------------------------------------------


def test_several_runs_a_side(tmp_path: Path) -> None:
    """Patterns are expanded where a shell did not, and an option takes all logs up to the next one."""
    whole = str(tmp_path / "a.html")
    result = envbuilder(
        "compare", "--gpu", log("gpu-seed[36]"), "--first", log("gpu-own"), log("gpu-own-again"), "--plot", whole,
        COLUMNS="80",
    )  # fmt: skip
    out = " ".join(result.stdout.split())
    assert "first: GPU, gpu-own.log, gpu-own-again.log second: GPU, gpu-seed3.log, gpu-seed6.log" in out
    assert "judgement: not decidable with these runs: about " in out and "between the sides: 4 pairs, 0.95 to" in out
    assert max(map(len, result.stdout.splitlines())) <= 80
    page = Path(whole).read_text(encoding="utf-8")
    assert str(LOGS) not in page and "gpu-own.log" in page, "no absolute paths"
    found = json.loads(envbuilder("compare", "--first", log("gpu-o*"), "--second", log("gpu-seed?"), "--json").stdout)
    assert found["second"] == {"device": "gpu", "logs": ["gpu-seed2.log", "gpu-seed3.log", "gpu-seed6.log"]}
    assert found["metrics"][REWARD]["judgement"]["between"]["pairs"] == 6 and found["judgement"]["more_runs"] > 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((log("gpu-own"),), "two logs are compared"),
        ((log("gpu-own"), log("gpu-seed3"), "--gpu", log("gpu-seed6")), "two logs are compared"),
        (("--npu", log("gpu-own")), "two logs are compared"),
        (("--npu", log("cpu-own"), "--gpu", log("gpu-own")), "cpu-own.log used no device memory: it is of a CPU"),
        (("--npu", log("gpu-own"), "--gpu", log("gpu-seed3")), "gpu-own.log is of a GPU, and was given as --npu"),
        (("--first", log("gpu-own"), log("cpu-own"), "--second", log("gpu-seed3")), "of different devices"),
        (("--first", log("gpu-o*"), "--second", log("gpu-seed3"), "--gate", "nightly"), "with one earlier run"),
        ((log("none*"), log("gpu-own")), "does not exist"),
    ],
)
def test_sides_that_cannot_be_compared(arguments: tuple[str, ...], words: str) -> None:
    result = envbuilder("compare", *arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert words in result.stderr and "hint:" in result.stderr


@pytest.mark.parametrize("sides", [("cpu-draw1", "gpu-draw1"), ("gpu-draw1", "cpu-draw1"), ("cpu-own", "cpu-draw1")])
def test_a_run_on_a_cpu_never_ends_as_passed(sides: tuple[str, str], tmp_path: Path) -> None:
    """Its log names an NPU, as the smoke run calls the resource of Ray, but it used no device memory."""
    picture = tmp_path / "a.svg"
    result = envbuilder("compare", *map(log, sides), "--plot", str(picture))
    assert result.returncode in {6, 8} and "verdict: passed" not in result.stdout
    drawn = picture.read_text(encoding="utf-8")
    assert "CPU: cpu-" in drawn and ">NPU" not in drawn and ">passed<" not in drawn
    found = json.loads(envbuilder("compare", *map(log, sides), "--json").stdout)
    assert {found["first"]["device"], found["second"]["device"]} <= {"cpu", "gpu"}
    assert found["verdict"] != "passed" and found["doubt"]
    # in Chinese too, an NPU is only named where the note says that it was none
    words = envbuilder("compare", *map(log, sides), ENVBUILDER_LANG="zh", LANG="zh_CN.UTF-8").stdout
    assert "CPU" in words.splitlines()[0] + words.splitlines()[1]


def test_a_log_that_was_edited_to_name_a_gpu_is_still_of_a_cpu(tmp_path: Path) -> None:
    text = Path(log("cpu-own")).read_text(encoding="utf-8").replace("'npu'", "'cuda'")
    npu = console({**GPU, MEMORY: [20.0] * 15}, device="npu")
    found = json.loads(
        envbuilder("compare", write(tmp_path, "npu.log", npu), write(tmp_path, "gpu.log", text), "--json").stdout
    )
    assert found["second"]["device"] == "cpu" and "gpu.log used no device memory" in found["doubt"]
    assert found["verdict"] != "passed"


def test_two_runs_on_a_cpu_are_not_called_runs_on_an_npu() -> None:
    result = envbuilder("compare", log("cpu-own"), log("cpu-seed3"))
    assert "both sides are of a CPU" in result.stdout and "both sides are of an NPU" not in result.stdout


def test_runs_on_a_gpu_show_the_noise() -> None:
    result = envbuilder("compare", log("gpu-own"), log("gpu-own-again"), COLUMNS="80")
    assert result.returncode == 6 and "both sides are of a GPU" in " ".join(result.stdout.split())
    assert "judgement: not decidable with these runs: about" in result.stdout


def test_a_gate_refuses_a_run_on_a_cpu_and_names_other_devices(tmp_path: Path) -> None:
    """Its 0 GB of memory are less than those of any device."""
    result = envbuilder("compare", log("cpu-draw1"), log("gpu-draw1"), "--gate", "nightly")
    assert result.returncode == 2 and "ran on a CPU: the gate 'nightly' is for runs on devices" in result.stderr
    npu = (
        Path(log("gpu-own"))
        .read_text(encoding="utf-8")
        .replace("'cuda'", "'npu'")
        .replace("throughput:2", "throughput:3")
    )
    result = envbuilder("compare", write(tmp_path, "npu.log", npu), log("gpu-own-again"), "--gate", "nightly")
    assert "first side is of an NPU and the second of a GPU" in " ".join(result.stdout.split())


def test_throughput_is_also_shown_without_the_first_steps() -> None:
    result = envbuilder("compare", log("gpu-seed3"), log("gpu-seed6"), "--json")
    found = json.loads(result.stdout)["throughput"]
    assert found["steps"] == [1, 2, 3, 4]
    assert (found["after_warm_up"]["first_step"], found["after_warm_up"]["last_step"]) == (5, 24)
    assert found["after_warm_up"]["ratio"] == pytest.approx(1.012, abs=0.001)


def test_the_axis_of_the_picture_shows_the_limit(matrix: Matrix) -> None:
    """It ends where the curves and the limit do, also if the values hardly change."""
    from envbuilder.compare.plot import _panels, _range

    flat = [0.5 + 0.001 * at for at in range(15)]
    found = compare(Catalog(matrix), run(console({REWARD: flat})), run(console({REWARD: [*reversed(flat)]})))
    for panel in list(_panels(found))[:2]:
        low, high = _range(panel)
        room = max(edge for _, edge in panel.band) - min(edge for edge, _ in panel.band)
        assert room > 0.8 * (high - low)


# --- pictures ------------------------------------------------------------------------------------------------


def parts(svg: bytes) -> dict[str, ElementTree.Element]:
    root = ElementTree.fromstring(svg)  # noqa: S314  written by envbuilder
    return {item.get("id", ""): item for item in root.iter(f"{SVG}g")}


def lines(part: ElementTree.Element) -> int:
    """Return how many separate lines a curve consists of."""
    return sum(item.get("d", "").count("M ") for item in part.findall(f"{SVG}path"))


def test_the_svg_has_both_curves_the_limits_and_the_legend(logs: dict[str, str], tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg", "a.html"):
        assert envbuilder("compare", logs["npu"], logs["gpu"], "--plot", str(tmp_path / name)).returncode == 0
    drawn = (tmp_path / "a.svg").read_bytes()
    assert drawn == (tmp_path / "b.svg").read_bytes(), "nothing in it depends on the time of the run"
    found = parts(drawn)
    for metric in ("loss", "reward", "throughput"):
        assert lines(found[f"{metric}-npu"]) == lines(found[f"{metric}-gpu"]) == 1
    assert {name for name in found if name.endswith("-limit")} == {
        f"{metric}{panel}-limit" for metric in ("loss", "reward") for panel in ("", "-difference")
    }
    assert len([*found["reward-npu"].iter(f"{SVG}use")]) == 15, "each step has a dot"
    words = [item.text or "" for item in found["figure_1"].iter(f"{SVG}text")]
    assert {"NPU: npu.log", "GPU: gpu.log", "limit", "passed", "npu.log against gpu.log"} <= {*words}
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 1 and page.count("<!DOCTYPE") + page.count("<?xml") == 0
    assert "Throughput ratio 0.750" in page and '<td class="passed">ok</td>' in page


def test_the_png_is_drawn(matrix: Matrix) -> None:
    found = compare(Catalog(matrix), run(near(0.03), "\u8fd0\u884c a&<b>$x$.log"), run(console(GPU), "gpu.log"))
    pixels = (imread(BytesIO(drawer(Path("x.PNG"))(found)), format="png") * 255).round().astype(int)
    height, width, _ = pixels.shape
    assert width > 1500 and height > 1000
    colours = Counter(map(tuple, pixels[:, :, :3].reshape(-1, 3).tolist()))
    for colour in (NPU_COLOUR, GPU_COLOUR, LIMIT_COLOUR):
        assert colours[int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)] > 500
    # no formula, though it has two dollar signs
    title = "\u8fd0\u884c a&<b>$x$.log against gpu.log"
    assert title in [item.text for item in parts(drawer(Path("x.svg"))(found))["figure_1"].iter(f"{SVG}text")]


def test_two_sides_of_the_same_device_are_told_apart_in_the_legend(matrix: Matrix) -> None:
    found = compare(Catalog(matrix), run(near(0.03), "one.log"), run(near(0.02), "one.log"))
    texts = [item.text for item in parts(drawer(Path("x.svg"))(found))["figure_1"].iter(f"{SVG}text")]
    assert {"first, NPU: one.log", "second, NPU: one.log"} <= {*texts}


def test_a_curve_with_holes_and_a_single_step(matrix: Matrix) -> None:
    holes = compare(
        Catalog(matrix), run(console({REWARD: [0.5, float("nan"), 0.5, 0.5]})), run(console({REWARD: [0.4] * 4}))
    )
    drawn = parts(drawer(Path("x.svg"))(holes))
    assert (lines(drawn["reward-npu"]), lines(drawn["reward-gpu"])) == (2, 1)
    assert len([*drawn["reward-npu"].iter(f"{SVG}use")]) == 3, "a single step between two holes is visible as a dot"
    single = compare(Catalog(matrix), run(console({REWARD: [0.0]})), run(console({REWARD: [0.0], LOSS: [1.0]})))
    drawn = parts(drawer(Path("x.svg"))(single))
    assert len([*drawn["reward-npu"].iter(f"{SVG}use")]) == 1 and "reward-limit" in drawn
    assert [item.text for item in drawn["matplotlib.axis_1"].iter(f"{SVG}text")] == ["1", "step"]


@pytest.mark.parametrize(("values", "first"), [([1e308, -1e308] * 4, 1), ([0.5] * 8, 10**11), ([0.0, 5e-324] * 4, 1)])
def test_numbers_that_are_too_large(matrix: Matrix, tmp_path: Path, values: list[float], first: int) -> None:
    """They may exceed a limit, but cause no other error; nor does an unusual file name."""
    ours, theirs = console({REWARD: values}, first=first), console({REWARD: [0.25] * 8}, first=first)
    found = compare(Catalog(matrix), run(ours, "a\x07\udcff.log"), run(theirs))
    assert not found.passed and "reward: mean absolute error" in found.broken[0]
    assert "reward-npu" in parts(drawer(tmp_path / "x.svg")(found))


@pytest.mark.parametrize("name", ["a.svg", "a.html", "a.png"])
def test_a_picture_without_matplotlib(monkeypatch: pytest.MonkeyPatch, logs: dict[str, str], name: str) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(HostError, match="matplotlib") as caught:
        drawer(Path(name))
    assert "'.[plot]'" in (caught.value.hint or "")
    with pytest.raises(UsageError):
        drawer(Path("a"))


def test_the_matplotlib_settings_of_a_notebook_are_ignored(logs: dict[str, str], tmp_path: Path) -> None:
    """Its variable for matplotlib names a module that is not installed here."""
    words = ("compare", logs["npu"], logs["gpu"], "--plot", str(tmp_path / "a.png"))
    result = start(*words, MPLBACKEND="module://matplotlib_inline.backend_inline")
    assert (result.returncode, result.stderr) == (0, "") and (tmp_path / "a.png").is_file()


def test_the_verdict_needs_no_matplotlib(logs: dict[str, str]) -> None:
    script = "import sys; sys.modules['matplotlib'] = None; from envbuilder.cli import main; sys.argv[0] = 'x'; sys.exit(main())"
    result = subprocess.run(
        [sys.executable, "-c", script, "compare", logs["npu"], logs["gpu"]], capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stderr) == (0, "") and "verdict: passed" in result.stdout


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
    assert "status      compared" in shown and "reward 3.00 % from a GPU" in " ".join(shown.split())
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


def test_a_perfect_match_is_recorded_and_other_lines_stay(matrices: Path, tmp_path: Path) -> None:
    """The same samples give the same rewards; gradients show that it is not one run."""
    file = matrices / "evidence" / "verl" / "v0.6.0.yaml"
    text = file.read_text(encoding="utf-8")
    line = next(item for item in text.splitlines() if item.startswith("    - {level: built"))
    level, date, rest = line.split(", ", 2)
    changed = f"    - {{{date}, {level.partition('{')[2]}, {rest}"
    file.write_text(text.replace(line, changed), encoding="utf-8")
    cpu = Path(log("cpu-draw1")).read_text(encoding="utf-8")
    npu = write(tmp_path, "npu.log", cpu.replace("allocated_gb:0.0", "allocated_gb:0.2"))
    options = ("--record", "--environment", A3_SGLANG, "--matrices", str(matrices))
    assert envbuilder("compare", npu, log("gpu-draw1"), *options).returncode == 0
    assert load(matrices).evidence["verl/v0.6.0/sglang-a3-aarch64"].evidence[-1].error == "reward 0.00 %"
    assert changed in file.read_text(encoding="utf-8").splitlines()
    # the log of the CPU itself is no evidence
    refused = envbuilder("compare", log("cpu-draw1"), log("gpu-draw1"), *options)
    assert refused.returncode == 2 and "used no device memory, so it ran on a CPU" in refused.stderr


@pytest.mark.parametrize(
    ("npu", "identifier", "more", "code"),
    [
        ("far", A3_SGLANG, (), 6),
        ("npu", "verl-v0.6.0-sglang-cpu-aarch64", (), 2),
        ("npu", A3_SGLANG, ("--gate", "nightly"), 2),
        ("copy", A3_SGLANG, (), 2),
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


def test_evidence_that_others_write_meanwhile_is_kept(matrices: Path, tmp_path: Path) -> None:
    """Four users with folders of their own for locks, each with ten results."""
    code = (
        "import sys; from pathlib import Path; from envbuilder.matrix.evidence import record\n"
        "for number in range(10):\n"
        "    details = {'error': f'{sys.argv[2]}-{number}'}\n"
        "    record(Path(sys.argv[1]), 'verl/v0.6.0/sglang-a3-aarch64', 'compared', 'm', details, renews=False)"
    )
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(matrices), str(user)],
            env={**os.environ, "XDG_STATE_HOME": str(tmp_path / f"state-{user}")},
        )
        for user in range(4)
    ]
    assert [item.wait() for item in writers] == [0] * 4
    found = load(matrices).evidence["verl/v0.6.0/sglang-a3-aarch64"].evidence
    assert len({item.error for item in found if item.level == "compared"}) == 40


def test_a_framework_without_published_limits_is_not_judged(tmp_path: Path) -> None:
    text = "".join(f"{{'loss': 0.1, 'reward': 0.{at}, 'global_step/max_steps': '{at}/9'}}\n" for at in range(1, 10))
    files = [write(tmp_path, name, text) for name in ("npu.log", "gpu.log")]
    result = envbuilder("compare", *files, "--framework", "ms-swift")
    assert result.returncode == 4 and "ms-swift publishes no limits for a comparison" in result.stderr
