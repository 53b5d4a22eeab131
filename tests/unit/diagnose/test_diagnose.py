"""Reports of broken environments: the facts in them, the faults, and conflicts that are not faults."""

from __future__ import annotations

import json
import timeit
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from envbuilder.diagnose.facts import keys, read
from envbuilder.diagnose.judge import Diagnosis, diagnose
from envbuilder.diagnose.report import PastedReport, condensed
from envbuilder.environment import Catalog, resolve
from envbuilder.environment.coordinates import environments
from envbuilder.matrix import Matrix
from envbuilder.matrix.model import CPU
from envbuilder.versions import is_family, same
from tests.conftest import Edit, run, succeeded
from tests.helpers.corpus import Sample, samples
from tests.helpers.fake_host import npu_smi_output

# --- facts -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("torch==2.7.1+cpu\ntorch-npu==2.7.1\n", {"torch": "2.7.1+cpu", "torch_npu": "2.7.1"}),
        ("[pip3] torch_npu==2.5.1.dev20250218", {"torch_npu": "2.5.1.dev20250218"}),
        ("vllm          0.11.0+empty   /vllm-workspace/vllm", {"vllm": "0.11.0+empty"}),
        ("Name: vllm-ascend\nVersion: 0.9.1rc1\nSummary: x", {"vllm_ascend": "0.9.1rc1"}),
        ("PyTorch version: 2.7.1+cpu\n[pip3] torch==2.7.1", {"torch": "2.7.1"}),
        ("Python version: 3.11.13 (main) [GCC 11.4.0]", {"python": "3.11.13"}),
        ("CANN: 8.1.rc1", {"cann": "8.1.RC1"}),
        ("+ CANN：8.3.RC2\n+ torch_npu：2.7.1", {"cann": "8.3.RC2", "torch_npu": "2.7.1"}),
        ("安装了2.7.1版本的torch_npu和CANN 8.3.RC1", {"torch_npu": "2.7.1", "cann": "8.3.RC1"}),
        ("I have installed version 2.5.1 of torch and Torch-NPU.", {"torch": "2.5.1", "torch_npu": "2.5.1"}),
        ("torch_npu==2.8.0post2", {"torch_npu": "2.8.0.post2"}),
        ("INFO 06-04 [utils.py:297]  ▄▄ ▄█ █     █ ▀▄▀ █  version 0.18.0", {"vllm": "0.18.0"}),
        ("Linux support 5.10.0-289.oe2203sp4.aarch64 #1 SMP aarch64 GNU/Linux", {"arch": "aarch64"}),
        ("- PyTorch version (GPU?): 2.0.1 (False)", {"torch": "2.0.1"}),
        ("----------Python Info----------\nVersion      : 3.11.15", {"python": "3.11.15"}),
        ("torch-npu in /usr/lib/python3/site-packages (2.4.0.post2)", {"torch_npu": "2.4.0.post2"}),
        ("我将torch降级到2.4.0后", {"torch": "2.4.0"}),
        ("vllm和vllm-ascend版本 v0.11.0", {"vllm": "0.11.0", "vllm_ascend": "0.11.0"}),
        ("torch & torch-npu==2.5.1", {"torch": "2.5.1", "torch_npu": "2.5.1"}),
        ("vLLM Ascend image: v0.23.0rc1", {"vllm_ascend": "0.23.0rc1"}),
        ("cann 24.1.rc3", {"driver": "24.1.rc3"}),
        ("bishengir-compile --target=Ascend910B2C", {"chip": "Ascend910B2C"}),
        ("| **CANN** | 9.1.0 |\n| **Driver** | 25.5.2 |", {"cann": "9.1.0", "driver": "25.5.2"}),
        ("CANN toolkit & kernel 8.1.RC1", {"cann": "8.1.RC1"}),
        ("CANN/ascend-toolkit/nnal 8.2RC1.", {"cann": "8.2.RC1"}),
        ("cat /usr/local/Ascend/driver/version.info\n\nVersion=24.1.rc3", {"driver": "24.1.rc3"}),
        ("using the image main-cann8.5.0-910b", {"cann": "8.5.0"}),
        ("vllm-ascend: 0.7.3 rc1", {"vllm_ascend": "0.7.3rc1"}),
        ("torch，torch-npu  2.9.0", {"torch": "2.9.0", "torch_npu": "2.9.0"}),
        ("vllm 分支： v0.22.1", {"vllm": "0.22.1"}),
        ("(PyTorch-2.7.1) [root@node ~]# ls", {}),
        ("--Pytorch 版本:2.7.1\n--Python 版本 :3.11.14", {"torch": "2.7.1", "python": "3.11.14"}),
        ("my toolkit is ascend-toolkit/8.2.RC1.alpha002", {"cann": "8.2.RC1.alpha002"}),
        ("pip install vllm-ascend==v0.9.0rc1", {"vllm_ascend": "0.9.0rc1"}),
        ("cann:8.5.0\nnpu:25.5.0", {"cann": "8.5.0", "driver": "25.5.0"}),
        ("使用main分支最新代码编译的vllm-ascend起服务失败", {"vllm_ascend": "main"}),
        (
            "socversion Ascend910B1 of bin package does not match the current device socverison Ascend310P3.",
            {"chip": "Ascend310P3"},
        ),
        (
            "vllm 0.9.0 requires torch==2.7.0, but you have torch 2.5.1 which is incompatible.",
            {"vllm": "0.9.0", "torch": "2.5.1"},
        ),
        ("ERROR: No matching distribution found for torch-npu==2.5.1.post1.dev20250619", {}),
        ("pip install vllm==0.8.3", {"vllm": "0.8.3"}),
        ("git clone --depth 1 --branch v0.9.2rc1 https://example.org/x/vllm-ascend.git", {"vllm_ascend": "0.9.2rc1"}),
        (
            "pip install torch_npu-2.5.1.dev20250218-cp310-cp310-manylinux_2_17_x86_64.whl",
            {"torch_npu": "2.5.1.dev20250218", "arch": "x86_64", "python": "3.10"},
        ),
        ("image registry/ascend/vllm-ascend:v0.10.0rc1", {"vllm_ascend": "0.10.0rc1"}),
        ("quay.io/ascend/cann:8.0.0-910b-ubuntu22.04-py3.10", {"cann": "8.0.0", "python": "3.10"}),
        ('File "/usr/local/python3.11/lib/python3.11/site-packages/x.py"', {"python": "3.11"}),
        ("driver 7.5.0.5.220-24.1.0.3", {"driver": "24.1.0.3", "firmware": "7.5.0.5.220"}),
        ("driver 7.0.RC1.alpha003", {}),
        ("NPU type: Ascend910B\nkernel 4.19.36 aarch64", {"chip": "Ascend910B", "arch": "aarch64"}),
        ("Device: 910B, kernel 4.19.36 aarch64", {"arch": "aarch64"}),
        ("NPU: 2 x Ascend910_9382, CANN: 9.0.0", {"chip": "910_9382", "cann": "9.0.0"}),
        ("Version=7.8.T5.0.B028\nversion_dir=8.2.RC1\n", {"cann": "8.2.RC1"}),
        (
            "cat /usr/local/Ascend/driver/version.info\nVersion=23.0.7\nascendhal_version=7.35.19\n",
            {"driver": "23.0.7"},
        ),
        (npu_smi_output(driver="24.1.rc3"), {"driver": "24.1.rc3", "chip": "910B3"}),
        ("| vllm | 0.9.1 |\n| **vllm-ascend** | v0.9.1rc1 |", {"vllm": "0.9.1", "vllm_ascend": "0.9.1rc1"}),
        ("- **torch**: `2.7.1`\n- torch_npu版本为2.7.1", {"torch": "2.7.1", "torch_npu": "2.7.1"}),
        ('{"torch": "2.7.1", "transformers": "4.56.1"}', {"torch": "2.7.1", "transformers": "4.56.1"}),
        ("CANN 版本：8.2rc1, 鲲鹏", {"cann": "8.2.RC1", "arch": "aarch64"}),
        ("cann is 8.1 RC1 on a x86 server", {"cann": "8.1.RC1", "arch": "x86_64"}),
        ("Ascend-cann-toolkit_8.3.RC1_linux-aarch64.run", {"cann": "8.3.RC1", "arch": "aarch64"}),
        ("Ascend-hdk-910b-npu-driver_25.2.0_linux-aarch64.run", {"driver": "25.2.0", "arch": "aarch64"}),
        ("\tSoftware Version               : 24.1.rc3", {"driver": "24.1.rc3"}),
        ("we have 8 cards of Ascend 910B3", {"chip": "910B3"}),
        ("we have 8 cards of 910B", {}),
        ("nothing to see", {}),
    ],
)
def test_facts(matrix: Matrix, text: str, facts: dict[str, str]) -> None:
    assert read(Catalog(matrix), PastedReport.of(text)) == facts


@pytest.mark.parametrize("sample", samples("env"), ids=lambda sample: sample.name)
def test_facts_of_real_reports(matrix: Matrix, sample: Sample) -> None:
    found = read(Catalog(matrix), PastedReport.of(sample.text))
    wrong = {
        name: (found[name], truth)
        for name in keys(Catalog(matrix))
        if (truth := sample.truth.get(name)) is not None
        and name in found
        and found[name] != truth
        and not same(found[name], truth)
    }
    assert not wrong


def test_nearly_every_fact_of_real_reports_is_found(matrix: Matrix) -> None:
    """A few facts are in parts of the reports that are not in the samples."""
    all_samples = [sample for sample in samples("env") if isinstance(sample, Sample)]
    if not all_samples:
        pytest.skip("needs the samples of ../shared/corpus/env")
    wanted = [(s, name) for s in all_samples for name in keys(Catalog(matrix)) if s.truth.get(name) is not None]
    missing = [(s.name, name) for s, name in wanted if name not in read(Catalog(matrix), PastedReport.of(s.text))]
    assert len(missing) <= len(wanted) // 20, missing


@pytest.mark.slow
@given(st.text())
def test_any_text_is_read(matrix: Matrix, text: str) -> None:
    assert diagnose(Catalog(matrix), text).findings


@pytest.mark.slow
@given(cut=st.integers(0, 3000), line=st.integers(0, 40))
def test_a_report_that_was_cut_is_read(matrix: Matrix, cut: int, line: int) -> None:
    text = (
        f"{npu_smi_output()}torch==2.7.1\ntorch_npu==2.7.1\nCANN 8.3.RC1\nlibatb.so: cannot open shared object file\n"
    )
    lines = text[:cut].splitlines()
    diagnose(Catalog(matrix), "\n".join(lines[:line] + lines[line + 1 :]))


# --- verdicts --------------------------------------------------------------------------------------------

EXAMPLES = yaml.safe_load((Path(__file__).parent / "symptoms.yaml").read_text(encoding="utf-8"))


def test_every_symptom_has_an_example_that_shows_it(matrix: Matrix) -> None:
    assert set(EXAMPLES) == {symptom.code for symptom in matrix.symptoms}
    unseen = set(matrix.symptoms)
    for code, lines in EXAMPLES.items():
        for line in lines["shows"]:
            found = [item for item in matrix.symptoms if item.code == code and item.place_in(line) is not None]
            assert found, line
            unseen -= set(found)
    assert not unseen


@pytest.mark.parametrize("code", EXAMPLES)
def test_similar_text_does_not_show_the_symptom(matrix: Matrix, code: str) -> None:
    assert EXAMPLES[code]["alike"]
    for line in EXAMPLES[code]["alike"]:
        assert code not in {item.code for item in matrix.symptoms if item.place_in(line) is not None}, line


def codes(diagnosis: Diagnosis, severity: str) -> set[str]:
    return {item.code for item in diagnosis.findings if item.severity == severity}


@pytest.mark.parametrize(
    ("text", "errors", "others"),
    [
        ("torch==2.8.0\ntorch_npu==2.7.1\nvllm==0.11.0", {"torch-overwritten"}, {}),
        ("torch==2.6.0\ntorch_npu==2.5.1.dev20250218", {"torch-npu-torch"}, {}),
        ("torch==2.5.1+cpu\ntorch_npu==2.5.1", set(), {"info": {"cannot-tell"}}),
        ("vllm==0.8.5.post1\nvllm-ascend==0.7.3", {"plugin-engine"}, {}),
        ("chip 910C1\nimage quay.io/ascend/vllm-ascend:v0.9.1", set(), {"warning": {"wrong-image-for-chip"}}),
        ("chip 910C1\nimage quay.io/ascend/cann:8.5.0-910b-ubuntu22.04", {"wrong-image-for-chip"}, {}),
        ("chip 910C1\nname=ascend, value=vllm_ascend:register", set(), {}),
        ("chip 910C1\nimage quay.io/ascend/vllm-ascend:v0.9.1-a3", set(), {}),
        (
            "NPU type: Ascend910B\nlibatb.so: cannot open shared object file",
            {"unsupported-chip"},
            {"warning": {"nnal-missing"}},
        ),
        ("my 910B\nlibatb.so: cannot open shared object file", {"nnal-missing"}, {}),
        ("my 300I Duo\nlibatb.so: cannot open shared object file", {"nnal-missing"}, {"warning": {"unsupported-chip"}}),
        ("triton==3.5.0\ntriton-ascend==3.2.0", {"triton-shadow"}, {}),
        ("triton==3.6.0\ntorch==2.9.0\ntorch_npu==2.9.0", set(), {"warning": {"triton-shadow"}}),
        ("vllm==0.8.5\nvllm-ascend==0.8.5rc1", set(), {}),
        ("numpy==2.2.4\nCANN 8.3.RC1", set(), {"warning": {"numpy-2"}}),
        (
            "NPU out of memory. Tried to allocate 5503.00 GiB (NPU 0; 61.27 GiB total)",
            set(),
            {"warning": {"allocation-size"}},
        ),
        ("numpy 2.2.6, CANN 8.5.0", set(), {"warning": {"numpy-2"}}),
        ("numpy 2.2.6, CANN 9.0.0", set(), {"info": {"cannot-tell"}}),
        ("numpy 1.26.4, CANN 8.5.0", set(), {"info": {"cannot-tell"}}),
        # this release of the plugin has no bound, so that of CANN counts
        ("numpy==2.2.6\nvllm-ascend==0.23.0\nCANN 8.5.0", {"plugin-cann"}, {"warning": {"numpy-2"}}),
        ("numpy==2.2.4\nvllm-ascend==0.7.3", {"numpy-2"}, {}),
        ("numpy==2.2.6\nvllm-ascend==0.23.0", set(), {}),
        ("torch==2.5.1\ntorchaudio==2.6.0", set(), {"warning": {"torch-abi"}}),
        ("CANN 9.1.0\ndriver 25.0.rc1", {"cann-hdk"}, {}),
        ("CANN 8.3.RC1\ndriver 24.1.rc3", set(), {"warning": {"cann-hdk"}}),
        ("pip install vllm-ascend\ntorch==2.4.0\ntorch-npu==2.4.0", set(), {"warning": {"torch-npu-too-old"}}),
        (
            "docker run --device /dev/davinci0 x\nexport ASCEND_RT_VISIBLE_DEVICES=7",
            set(),
            {"warning": {"visible-devices"}},
        ),
        ("AssertionError: Torch not compiled with CUDA enabled", set(), {"warning": {"cuda-assumed"}}),
        ("vllm-ascend doesn't work with my vllm\nvllm==0.6.0", set(), {"warning": {"plugin-engine"}}),
        ("请问使用哪个版本可以支持910A", {"unsupported-chip"}, {}),
        ("Does the Atlas 300I A2 support vllm-ascend?", set(), {"info": {"cannot-tell"}}),
        ("llamafactory on 910ProB\nNPU: 910ProB", set(), {"warning": {"unsupported-chip"}}),
        ("chip 310B4\nlibhccl.so: cannot open shared object file", {"cann-not-sourced"}, {}),
    ],
)
def test_verdicts(matrix: Matrix, text: str, errors: set[str], others: dict[str, set[str]]) -> None:
    found = diagnose(Catalog(matrix), text)
    assert codes(found, "error") == errors
    for severity, wanted in others.items():
        assert wanted <= codes(found, severity)


@pytest.mark.parametrize("pair", ["torch_npu==2.10.0\nCANN 9.0.0", "torch_npu==2.10.0.post2\nCANN 9.0.1"])
def test_a_published_pair_is_no_finding(matrix: Matrix, pair: str) -> None:
    found = diagnose(Catalog(matrix), f"torch==2.10.0\n{pair}")
    assert [item.code for item in found.findings] == ["cannot-tell"]


@pytest.mark.parametrize(
    "text",
    [
        "docker run --device /dev/davinci0 x\nexport ASCEND_RT_VISIBLE_DEVICES=0",
        "docker run --privileged --device /dev/davinci0 x\nexport ASCEND_RT_VISIBLE_DEVICES=7",
        "docker run --device=/dev/davinci6 --device=/dev/davinci7 x\nexport ASCEND_RT_VISIBLE_DEVICES=0,1",
    ],
)
def test_visible_devices_that_a_container_has(matrix: Matrix, text: str) -> None:
    assert "visible-devices" not in {item.code for item in diagnose(Catalog(matrix), text).findings}


def test_files_that_contradict_each_other(matrix: Matrix) -> None:
    text = (
        "cat /usr/local/Ascend/driver/version.info\nVersion=25.3.rc1\nascendhal_version=3.9\n\n"
        "cat /usr/local/Ascend/firmware/version.info\nVersion=7.1\ncompatible_version_drv=[23.0.0,23.0.0.]\n\n"
        "required_driver_ascendhal_version=4.0.0\n"
        "package_name=Ascend-cann-toolkit\nversion=8.3.RC1\narch=aarch64\n\n"
        "package_name=Ascend-cann-nnae\nversion=8.3.RC1\narch=x86_64\n"
    )
    found = diagnose(Catalog(matrix), text)
    assert codes(found, "error") == {"driver-too-old", "cann-arch"}
    assert "driver-firmware" in codes(found, "warning")


def test_a_long_log_is_condensed_before_it_is_read(matrix: Matrix) -> None:
    """The fault is in the middle of many similar lines."""
    noise = [f"(WorkerDict pid={n}) step:{n} - critic/rewards/mean:0.{n} - perf/throughput:{n}" for n in range(5_000)]
    noise.insert(2_500, "ImportError: libatb.so: cannot open shared object file")
    noise.insert(2_600, "torch_npu==2.7.1")
    text = "\n".join(noise)
    assert len(condensed(text)) < len(noise) / 50
    found = diagnose(Catalog(matrix), text)
    assert codes(found, "error") == {"nnal-missing"} and found.facts["torch_npu"] == "2.7.1"
    (place,) = found.findings[0].lines
    assert found.report.quoted(place).number == 2_501, "the number in the file of the user"


def test_the_time_for_a_long_line_grows_linearly(matrix: Matrix) -> None:
    catalog = Catalog(matrix)

    def seconds(text: str) -> float:
        return min(timeit.repeat(lambda: diagnose(catalog, text), number=1, repeat=2))

    for word in ("vllm ", "torch 2.5.1 ", " "):
        assert seconds(word * (16_000 // len(word))) < 12 * seconds(word * (4_000 // len(word))), word


def test_the_closest_environment(matrix: Matrix) -> None:
    def closest(text: str) -> str | None:
        found = diagnose(Catalog(matrix), text).closest
        return found.id if found else None

    assert closest("sglang==0.5.3\ntorch_npu==2.6.0\nchip Ascend910\narch aarch64") == ("verl-v0.6.0-sglang-a3-aarch64")
    assert (closest("vllm==0.11.0\nvllm-ascend==0.11.0\nArchitecture: x86_64") or "").endswith("a2-x86_64")
    assert (closest("openrlhf==0.7.5\nvllm==0.8.5") or "").startswith("openrlhf-")
    assert closest("chip 910ProB") is None
    assert closest("Python version: 3.11.2") is None


# the codes of diagnose by the maintainers' name of the fault, for samples without codes
VERDICTS = {
    "nnal-not-installed": {"nnal-missing"},
    "torch-npu-build-not-paired": {"torch-npu-too-old"},
    "x86-cpu-index-missing": {"cpu-index-missing"},
    "torch-overwritten-by-vllm": {"torch-overwritten"},
    "numpy": {"numpy-2"},
    "nnal-older-than-torch-npu": {"torch-abi"},
    "vllm-vs-plugin": {"plugin-engine"},
    "custom-kernels-not-built": {"kernels-missing"},
    "index-unreachable": {"index-missing"},
    "needs-huawei-index": {"index-missing"},
    "compiler-too-old": {"compiler-too-old"},
    "cann-build-older-than-release": {"cann-too-old"},
    "custom-kernels": {"kernels-missing"},
    "expected-metadata-conflict": {"expected-conflict"},
    "unsupported-hardware": {"unsupported-chip"},
    "multiple": {"cann-arch", "driver-firmware"},
    "nnal-vs-torch-npu": {"torch-abi"},
    "verl-main-needs-newer-vllm": {"engine-too-old"},
    "wrong-image-for-chip": {"wrong-image-for-chip"},
    "driver-not-mounted": {"driver-not-mounted"},
    "device-occupied": {"device-occupied"},
    "transformers-vs-torch": {"cuda-assumed"},
    "kernels-package-for-another-chip": {"wrong-kernels-package", "unsupported-chip"},
    "cann-python-deps": {"cann-python-deps"},
    "cuda-build-of-a-dependency": {"cuda-compiled"},
    "ray-visible-devices": {"ray-visible-devices"},
    "flash-attn-imported-on-npu": {"flash-attn-on-npu"},
    "device-permission": {"device-permission"},
    "driver-range-not-published": {"cannot-tell"},
}


@pytest.mark.parametrize("sample", samples("env"), ids=lambda sample: sample.name)
def test_verdicts_of_real_reports(matrix: Matrix, sample: Sample) -> None:
    found = diagnose(Catalog(matrix), sample.text)
    all_codes = {item.code for item in found.findings}
    kind = sample.entry.get("sub_kind")
    if "codes" in sample.entry:
        assert not sample.entry["codes"] or all_codes & set(sample.entry["codes"])
        assert codes(found, "error") <= set(sample.entry["errors_allowed"])
    elif kind is not None:
        assert VERDICTS[kind] <= all_codes
    if kind == "expected-metadata-conflict":
        assert not codes(found, "error")


# --- the command -----------------------------------------------------------------------------------------


def test_the_command(tmp_path: Path) -> None:
    file = tmp_path / "report.txt"
    file.write_text("torch==2.5.1\nlibatb.so: cannot open shared object file\n")
    result = succeeded(run("diagnose", str(file), "--json"))
    document = json.loads(result.stdout)
    assert set(document) == {"schema_version", "facts", "closest", "findings"}
    assert {
        "python", "torch", "torch_npu", "cann", "driver", "vllm", "vllm_ascend", "sglang", "transformers", "triton",
        "triton_ascend", "arch", "chip",
    } <= set(document["facts"])  # fmt: skip
    assert document["facts"]["vllm"] is None
    assert set(document["findings"][0]) == {"code", "severity", "message", "remedy", "source", "lines", "ask"}
    assert document["findings"][0]["lines"][0]["number"] == 2
    shown = run("diagnose", str(file)).stdout
    assert "cause" in shown and "nnal-missing" in shown and "the environment to use" in shown


def test_one_report_at_a_time(tmp_path: Path) -> None:
    for arguments in ((), ("-", "--live"), (str(tmp_path / "absent"),)):
        result = run("diagnose", *arguments)
        assert (result.returncode == 2 and "hint" in result.stderr) or "cannot be read" in result.stderr


def test_this_machine() -> None:
    found = json.loads(run("diagnose", "--live", "--json").stdout)
    assert found["facts"]["python"] and found["facts"]["arch"]


def test_an_invalid_pattern_is_named(edit: Edit) -> None:
    folder = edit("symptoms.yaml", "'ret is -8020'", "'ret (is -8020'")
    result = run("diagnose", "-", "--matrices", str(folder))
    assert (
        result.returncode == 3 and "is not a regular expression" in result.stderr and "symptoms.yaml:" in result.stderr
    )


# --- what works is not called broken -----------------------------------------------------------------------


def pip_list(versions: Mapping[str, str]) -> str:
    other = {"cann": "CANN: {}", "hdk": "driver version: {}", "python": "Python version: {}"}
    return "\n".join(
        other.get(name, name + "=={}").format(version.removeprefix("v")) for name, version in versions.items()
    )


def errors(matrix: Matrix, versions: Mapping[str, str]) -> list[str]:
    found = diagnose(Catalog(matrix), pip_list(versions)).findings
    return [f"{item.code}: {item.message}" for item in found if item.severity == "error"]


def test_no_row_is_broken(matrix: Matrix) -> None:
    rows = [resolve(matrix, coordinates) for coordinates in environments(matrix) if coordinates.hardware != CPU]
    broken = {row.id: errors(matrix, {name: pin.version for name, pin in row.pins.items()}) for row in rows}
    assert len(rows) > 30
    assert {name: found for name, found in broken.items() if found} == {}


@pytest.mark.parametrize("name", ["vllm_ascend", "sgl_kernel_npu", "vllm", "sglang"])
def test_no_release_is_broken_as_published(matrix: Matrix, name: str) -> None:
    broken = {}
    for release in matrix.components[name].releases:
        exact = {other: found[0] for other, found in release.paired.items() if found and not is_family(found[0])}
        if found := errors(matrix, {name: release.version, **exact}):
            broken[release.version] = found
    assert broken == {}
