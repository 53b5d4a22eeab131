"""Reports: which levels count as proven, and the JSON, JUnit and HTML forms of a result."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from envbuilder.environment import Environment
from envbuilder.environment.image_names import SOURCE
from envbuilder.matrix import evidence, load
from envbuilder.matrix.model import CPU, NPU, STAND_IN, Device, EnvironmentEvidence
from envbuilder.validate.expected import Expected, expected, plan_of
from envbuilder.validate.junit import junit
from envbuilder.validate.page import page
from envbuilder.validate.report import Account, Check
from tests.conftest import A3_SGLANG, Edit, environment
from tests.helpers.passed_report import CHECKS, REPORT, RUN


def levels(recorded: EnvironmentEvidence) -> list[tuple[str, str, str]]:
    return [(item.level, item.date, item.machine) for item in recorded.evidence]


def wanted(row: Environment, labels: dict[str, str], device: Device) -> Expected:
    return expected(row, plan_of(row, labels), labels, device, {}, is_image=True)


def test_a_level_is_proven_only_with_those_before_it() -> None:
    assert REPORT.passed and REPORT.proven == "train"
    wrong = replace(REPORT, checks=(*CHECKS, Check("import", "import verl", "failed", "no")))
    assert not wrong.passed and wrong.proven == "static"
    untrained = replace(REPORT, checks=(*CHECKS[:3], Check("train", "training", "not-checked", "no recipe")))
    assert untrained.passed and untrained.proven == "import"
    assert REPORT.digest != wrong.digest


def test_only_a_training_that_passed_is_evidence(edit: Edit, tmp_path: Path) -> None:
    found = REPORT.evidence()
    assert found is not None and found[0] == "smoke-cpu"
    assert replace(REPORT, training=None).evidence() is None
    assert replace(REPORT, checks=(Check("static", "x", "failed"),)).evidence() is None
    npu = replace(REPORT, training=replace(RUN, device=NPU)).evidence()
    assert npu is not None and npu[0] == "smoke-npu"

    folder = edit("evidence/verl/v0.6.0.yaml", "environments:", "environments:")
    place = "verl/v0.6.0/sglang-cpu-aarch64"
    before = {name: levels(item) for name, item in load(folder).evidence.items()}
    for _ in range(2):
        evidence.record(folder, place, found[0], REPORT.machine, found[1])
    after = load(folder).evidence
    written = {item.level: item for item in after[place].evidence}
    assert "resolved" in written, "earlier evidence is kept"
    assert {name for name in after if levels(after[name]) != before[name]} == {place}, "others keep theirs"
    assert (written["smoke-cpu"].depth, written["smoke-cpu"].reward) == ("trainer", "0.100 -> 0.500")


def test_a_run_with_another_backend_is_evidence_of_its_own(edit: Edit) -> None:
    folder, place = edit("evidence/verl/v0.8.0.yaml", "environments:", "environments:"), "verl/v0.8.0/vllm-a3-aarch64"
    for backend in (None, "megatron", "megatron"):
        found = replace(REPORT, training=replace(RUN, device=STAND_IN, backend=backend)).evidence()
        assert found is not None
        evidence.record(folder, place, found[0], REPORT.machine, found[1])
    written = [item for item in load(folder).evidence[place].evidence if item.level == "rehearsed"]
    assert [item.backend for item in written] == [None, "megatron"]


def test_imports_on_a_stand_in_are_evidence(edit: Edit) -> None:
    """No other proof imports the code for an NPU; the recorded evidence can be read again."""
    imported = replace(REPORT, training=None, checks=CHECKS[:3], device=STAND_IN, level="import")
    assert imported.evidence() == ("rehearsed", {"depth": "import"})
    assert replace(imported, device=CPU).evidence() is None
    folder, place = edit("evidence/verl/v0.6.0.yaml", "environments:", "environments:"), "verl/v0.6.0/sglang-a3-aarch64"
    evidence.record(folder, place, "rehearsed", "aarch64 by qemu on x86_64", {"depth": "import"}, alone=True)
    [written] = load(folder).evidence[place].evidence
    assert (written.level, written.depth, written.machine) == ("rehearsed", "import", "aarch64 by qemu on x86_64")


def test_a_value_that_is_not_a_number_is_null_in_json() -> None:
    text = json.dumps(REPORT.document(), allow_nan=False)
    assert json.loads(text)["training"]["curves"]["loss"] == [0.2, -0.1, 0.0, None]


def test_junit_distinguishes_failures_and_skipped_checks() -> None:
    failed = Check("train", "steps", "failed", "5 of 24")
    root = ElementTree.fromstring(junit(replace(REPORT, checks=(*CHECKS, failed))))  # noqa: S314
    suites = {suite.get("name"): suite for suite in root}
    assert suites["static"].get("skipped") == "1" and suites["static"].get("failures") == "0"
    assert suites["train"].get("failures") == "1" and suites["train"].get("time") == "62.000"
    assert [case.get("message") for case in root.iter("failure")] == ["5 of 24"]
    assert [case.get("message") for case in root.iter("skipped")] == ["not checked: needs <CANN> & more"]


class _Read(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.classes: list[str | None] = []
        self.labels: list[str] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.classes.append(dict(attrs).get("class"))
        self.labels += [value or "" for name, value in attrs if name == "aria-label"]
        self.links += [value or "" for name, value in attrs if name in {"src", "href"}]


def test_the_page_is_self_contained_and_escaped() -> None:
    text = page(REPORT)
    read = _Read(text)
    assert read.links == [], "it loads no other file"
    # the curve of the loss is drawn without its nan
    assert read.tags.count("svg") == 2 and read.classes.count("curve") == 2 and read.classes.count("goal") == 1
    assert read.labels == [
        "mean reward by step, from 0.1 to 0.5, 0.3 must be reached",
        "policy loss by step, from 0.2 to nan",
    ]
    assert "its own &lt;generator&gt;" in text and "needs &lt;CANN&gt; &amp; more" in text
    assert "generator" not in read.tags and "cann" not in read.tags
    assert ">0.3 must be reached</text>" in text


def test_the_page_lists_the_files_and_what_runs_by_itself() -> None:
    runs = {"pth": {"/a.pth": "base image", "/<b>.pth": "unaccounted"}, "cron": {}}
    account = Account(9, {"base image": 8}, 1, {"/<b>.pth": "is added"}, {"layers": 3, "digest": "sha256:a"}, runs)
    text = page(replace(REPORT, account=account))
    assert "<td>base image, 3 layers, <code>sha256:a</code></td>" in text and "/&lt;b&gt;.pth" in text
    assert "pth: 2, of which 1 are not in the base image" in text and "cron" not in text
    assert account.added == {"pth": {"/<b>.pth": "unaccounted"}}
    assert json.loads(json.dumps(replace(REPORT, account=account).document()))["account"]["runs"] == runs


def test_a_metric_without_two_points_has_no_chart() -> None:
    curves = {"reward": (0.1, 0.2), "loss": (float("nan"), 0.1, 1e308), "gradient": ()}
    assert page(replace(REPORT, training=replace(RUN, curves=curves))).count("<svg") == 1


def test_a_step_without_a_number_keeps_its_place() -> None:
    curves = {"loss": (0.1, float("nan"), 0.3, 0.2)}
    text = page(replace(REPORT, training=replace(RUN, curves=curves)))
    # a line of one point leads back to it, or a browser draws nothing
    assert re.findall(r'class="curve" points="(.*)"', text) == ["0.0,150.0 0.0,150.0", "240.0,0.0 360.0,75.0"]
    assert [f">{text_}</text>" in text for text_ in ("0.1", "0.3", "1", "4")] == [True] * 4


@pytest.mark.parametrize("values", [(0.3, 0.1 + 0.2), (0.0, 0.0), (-7.0, -7.0)])
def test_a_curve_that_does_not_change_is_in_the_middle(values: tuple[float, ...]) -> None:
    text = page(replace(REPORT, training=replace(RUN, curves={"loss": values})))
    assert 'points="0.0,75.0 360.0,75.0"' in text


@pytest.mark.parametrize(("first", "height"), [(0.1, 75.0), (0.3, 0.0), (1e308, None), (float("nan"), None)])
def test_the_goal_is_within_the_chart(first: float, height: float | None) -> None:
    training = replace(RUN, curves={"reward": (0.1, 0.5)}, reward_first=first, reward_margin=0.2)
    text = page(replace(REPORT, training=training))
    assert re.findall(r'class="goal" d="M0 (.*)h360"', text) == ([] if height is None else [str(height)])
    # the label of a goal at the top is below its line, away from the title
    assert ('class="reached" x="6" y="14.0"' in text) is (height == 0)


def test_a_page_without_training_and_with_failures() -> None:
    text = page(
        replace(REPORT, training=None, image=None, checks=(Check("static", "pin torch", "failed", "torch is 1"),))
    )
    assert "<svg" not in text and "torch is 1" in text and "this host was validated" in text


def test_expected_contents_of_an_image() -> None:
    matrix = load(everything=True)
    npu = wanted(environment(matrix, A3_SGLANG), {}, CPU)
    assert npu.libraries == {
        "libascendcl.so": None, "libhccl.so": None, "libatb.so": None,
        "libascend_hal.so": "Ascend HDK (driver and firmware)",
    }  # fmt: skip
    assert {"file": "torch_memory_saver_hook_mode_*.so", "links": "libascendcl.so"} in npu.products
    assert npu.shared == ("triton-ascend",) and "triton" in npu.removed
    assert npu.built["sgl-kernel-npu"] == "", "its wheels have a version of their own"
    assert {"torch_npu", "sgl_kernel_npu", "torch_memory_saver", "triton"} <= set(npu.modules)
    assert "verl.trainer.main_ppo" in npu.used
    with_driver = wanted(environment(matrix, A3_SGLANG), {}, NPU)
    assert set(with_driver.libraries.values()) == {None}

    vllm = wanted(environment(matrix, "verl-v0.6.1-vllm-a3-aarch64"), {}, CPU)
    assert [item["file"] for item in vllm.products] == [
        "vllm_ascend/vllm_ascend_C*.so",
        # compiled within a source tree that is kept
        "/opt/envbuilder/src/megatron_lm/megatron/core/datasets/helpers_cpp*.so",
    ]

    assert wanted(environment(matrix, "verl-v0.9.0-vllm-a3-aarch64"), {}, NPU).shared == ("triton-ascend",)
    for removed in (
        environment(matrix, "verl-v0.9.0-vllm-cpu-aarch64"),
        environment(matrix, "verl-v0.9.0-vllm-a3-aarch64").rehearsed(),
    ):
        assert wanted(removed, {}, CPU).shared == ()

    cpu = wanted(environment(matrix, "verl-v0.5.0-vllm-cpu-aarch64"), {}, CPU)
    assert [item["file"] for item in cpu.products] == ["vllm/_C*.so"]
    assert cpu.libraries["libhccl.so"] == "CANN" and None not in cpu.libraries.values()
    assert any("vllm-ascend with custom kernels" in title for title in cpu.left_out)


@pytest.mark.parametrize(("source", "version"), [("git:f9c855f7", "0.7.0.dev0"), ("sdist:0.7.0", "0.7.0")])
def test_a_commit_may_call_itself_by_another_version(source: str, version: str) -> None:
    row = environment(load(everything=True), "verl-v0.7.0-vllm-cpu-aarch64")
    assert wanted(row, {f"{SOURCE}verl": source}, CPU).built["verl"] == version


def test_a_run_on_a_cpu_imports_what_it_uses() -> None:
    """It imports the rollout and the server of the row's engine."""
    matrix = load(everything=True)
    row = wanted(environment(matrix, "verl-v0.7.1-sglang-cpu-aarch64"), {}, CPU)
    rollout = "verl.workers.rollout.sglang_rollout"
    assert {f"{rollout}.sglang_rollout", f"{rollout}.async_sglang_server", "sglang.srt.managers.scheduler"} <= {
        *row.used
    }
    assert "sgl_kernel_npu" not in row.used
