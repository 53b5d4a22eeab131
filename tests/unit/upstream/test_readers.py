"""Readers of upstream's files; each test is a form of text that once changed a pin silently."""

from __future__ import annotations

import pytest

from envbuilder.matrix import Matrix
from envbuilder.upstream.document import Topic, document, releases, tables
from envbuilder.upstream.packages import project_requirements, requirements, setup, toml
from envbuilder.upstream.readers import age
from envbuilder.upstream.shell import build_arguments, shell, variables
from envbuilder.upstream.statement import Line, Names, Value, plain, values_of
from tests.unit.upstream.rules import rule

ABOUT = Topic("vllm", ("vllm", "sglang"), "a2")


@pytest.fixture
def names(matrix: Matrix) -> Names:
    return Names(matrix.components, ("numpy", "ray", "tensordict", "triton"), {})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2.9.0", [("exact", "2.9.0")]),
        ("v0.18.0", [("exact", "0.18.0")]),
        ("``2.8.0.post2``", [("exact", "2.8.0.post2")]),
        # neither a tag of HTML nor emphasis
        ("<=0.10.0,>=0.8.0,!=0.9.0", [("range", "<=0.10.0,>=0.8.0,!=0.9.0")]),
        ("!=5.0.*,>=4.57", [("range", "!=5.0.*,>=4.57")]),
        ("==5.3.0", [("exact", "5.3.0")]),
        ("==2.9.*", [("range", "==2.9.*")]),
        (">=3.10, <3.12，推荐 3.11", [("exact", "3.11"), ("range", ">=3.10,<3.12")]),
        ("latest release", [("any", "")]),
        ("最新", [("any", "")]),
        ("core_r0.16.0", [("reference", "core_r0.16.0")]),
        ("(0cd4ae23f2425da77)", [("reference", "0cd4ae23f2425da77")]),
        ("releases/v0.18.0", [("reference", "releases/v0.18.0")]),
        ("see below", []),
        ("CANN 9.0.0", []),
    ],
)
def test_what_a_cell_says(text: str, expected: list[tuple[str, str]]) -> None:
    assert [tuple(value) for value in values_of(text)] == expected


def test_marks_around_a_version() -> None:
    assert [plain(text) for text in ("'2.6.0'", "2.8.0%2Bcpu", "v0.7.1", "20250926")] == [
        "2.6.0",
        "2.8.0",
        "0.7.1",
        "20250926",
    ]


def test_names_in_documents(names: Names, matrix: Matrix) -> None:
    found = [names.component(text) for text in ("vLLM Ascend", "torch-npu", "**PyTorch**", "ray[default]", "TorchNPU")]
    assert found == ["vllm_ascend", "torch_npu", "torch", "ray", None]  # the last is a release of the vendor
    assert Names(matrix.components, (), {"triton": "triton_ascend"}).component("Triton") == "triton_ascend"


def test_requirement_files(names: Names) -> None:
    text = "# torch==1.0\n-r other.txt\ntransformers >= 4.56.0, < 5  # why\nnumpy; python_version > '3'\nleft-pad==1\n"
    assert list(requirements(text, names)) == [
        Line("transformers", Value("range", "<5,>=4.56.0"), 3),
        Line("numpy", Value("any", ""), 4),
    ]


def test_an_extra_may_name_another_of_the_same_package(names: Names) -> None:
    text = (
        '[project]\nname = "sglang"\ndependencies = ["numpy"]\n[project.optional-dependencies]\n'
        'base = ["torch==2.8.0"]\nsrt_npu = ["sglang[base]", "ray"]\ncuda = ["torch==9"]\n'
    )
    assert project_requirements(text, ("srt_npu",)) == ["numpy", "ray", "torch==2.8.0"]
    found = list(toml(text, names, rule("toml", extras=("srt_npu",))))
    assert found[-1] == Line("torch", Value("exact", "2.8.0"), 5)


def test_of_an_extra_of_setup_only_the_engine_counts(names: Names) -> None:
    text = 'install_requires = [\n  "numpy>=2.0.0",\n]\nSGLANG = ["sglang==0.5.8", "torch==2.9.1"]\n'
    assert list(setup(text, names, "sglang")) == [
        Line("numpy", Value("range", ">=2.0.0"), 2),
        Line("sglang", Value("exact", "0.5.8"), 4),
    ]


def test_dockerfiles(names: Names) -> None:
    text = (
        "FROM quay.io/ascend/cann:8.5.0-910b-ubuntu22.04-py3.11\nARG NPU=2.8.0\n# RUN pip install torch==1.0\n"
        "RUN pip install --index-url https://x \\\n  # remark\n  torch==2.8.0 \\\n  torch-npu==${NPU}\n"
        "RUN git clone -b core_r0.16.0 https://gitcode.com/Ascend/MindSpeed.git && "
        "git clone https://github.com/NVIDIA/Megatron-LM.git && cd Megatron-LM && git checkout core_v0.12.1\n"
        "RUN wget https://h/triton_ascend-3.2.0%2Bgit1-cp311-cp311-linux.whl\n"
        "RUN pip install git+https://github.com/huggingface/transformers.git@cc7ab9be508c\n"
    )
    assert [(item.component, item.value.text, item.number) for item in shell(text, names)] == [
        ("cann", "8.5.0", 1), ("python", "3.11", 1), ("torch", "2.8.0", 4), ("torch_npu", "2.8.0", 4),
        ("mindspeed", "core_r0.16.0", 8), ("megatron_lm", "", 8), ("megatron_lm", "core_v0.12.1", 8),
        ("triton_ascend", "3.2.0+git1", 9), ("transformers", "cc7ab9be508c", 10),
    ]  # fmt: skip


def test_the_workflow_gives_the_arguments_of_an_image(names: Names) -> None:
    given = build_arguments(
        "build-args: |\n    SGLANG_KERNEL_NPU_TAG=2026.03.10\nstrategy:\n  cann_version: ['8.5.0', '9']\n  torch: [2.8.0]\n"
    )
    assert given["SGLANG_KERNEL_NPU_TAG"] == "2026.03.10"
    assert given["TORCH"] == "2.8.0"
    text = "ARG SGLANG_KERNEL_NPU_TAG=main\nARG TORCH=1.0\nRUN pip install torch==$TORCH\n"
    found = list(shell(text, names, {"SGLANG_KERNEL_NPU_TAG": "sgl_kernel_npu"}, given))
    assert [(item.component, item.value.text, item.number) for item in found] == [
        ("sgl_kernel_npu", "2026.03.10", 0), ("torch", "2.8.0", 3),
    ]  # fmt: skip


def test_variables_of_a_program(names: Names) -> None:
    text = "OTHER = '1'\n    TORCH = '2.9.0'\nNPU: ['2.9.0.post2']\n"
    found = variables(text, names, rule("variables", variables={"TORCH": "torch", "NPU": "torch_npu"}))
    assert [(item.component, item.value.text) for item in found] == [("torch", "2.9.0"), ("torch_npu", "2.9.0.post2")]


GRID = "+--------+-------+\n| torch  | 2.9.0 |\n+--------+-------+\n"
SIMPLE = "======  ======\nname    version\n======  ======\ntorch   2.9.0\n======  ======\n"
PIPE = "| name | version |\n|:---|---|\n| torch | 2.9.0 |\n"
HTML = "<table>\n<tr>\n  <td>torch</td>\n  <td>2.9.0</td>\n</tr>\n</table>\n"


@pytest.mark.parametrize(("text", "line"), [(GRID, 2), (SIMPLE, 4), (PIPE, 3), (HTML, 2)])
def test_notations_of_tables(names: Names, text: str, line: int) -> None:
    assert list(document(text, names, rule("document"), ABOUT)) == [Line("torch", Value("exact", "2.9.0"), line)]


def test_a_column_of_the_chips_is_taken(names: Names) -> None:
    text = "| name | A3 | A2 |\n|---|---|---|\n| torch | 2.8.0 | 2.9.0 |\n"
    assert [item.value.text for item in document(text, names, rule("document"), ABOUT)] == ["2.9.0"]
    assert [row.number for row in tables(text.splitlines())] == [1, 3]


def test_sections_about_others_are_not_read(names: Names) -> None:
    text = (
        "Install\n=======\nvLLM\n----\n| torch | 2.9.0 |\n\nSGLang\n------\n| torch | 2.8.0 |\n\n"
        "MindSpeed-LLM\n-------------\n| torch | 2.7.0 |\n"
    )
    read = rule("document", skip="MindSpeed-LLM|A5")
    assert [item.value.text for item in document(text, names, read, ABOUT)] == ["2.9.0"]
    assert [item.value.text for item in document(text, names, rule("document"), ABOUT)] == ["2.9.0", "2.7.0"]


def test_sentences_are_read_where_the_rule_wants_them(names: Names) -> None:
    text = "It needs CANN 9.0.0.\n\n    pip install torch==2.9.0\n\n| ray 1.0 | x |\n"
    read = rule("document", prose=True)
    assert [item.component for item in document(text, names, read, ABOUT)] == ["torch", "cann"]
    assert [item.component for item in document(text, names, rule("document"), ABOUT)] == ["torch"]


def test_a_table_of_releases_has_one_per_row(names: Names) -> None:
    text = (
        "| vLLM Ascend | vLLM | Stable CANN | PyTorch/torch_npu |\n|---|---|---|---|\n"
        "| v0.17.0 | v0.17.0 | 8.5.0 | 2.8.0 / 2.8.0 |\n| v0.18.0 | v0.18.0/v0.18.1 | 8.5.1 | 2.9.0 / 2.9.0.post1 |\n"
    )
    found = releases(text, names, {"vllm_ascend": "0.18.0"})
    assert [(item.component, item.value.text) for item in found] == [
        ("vllm", "0.18.0"), ("cann", "8.5.1"), ("torch", "2.9.0"), ("torch_npu", "2.9.0.post1"),
    ]  # fmt: skip


def test_the_age_of_a_document() -> None:
    assert age("Last updated: 06/01/2025.", "2025-12-01") == 183
    assert age("Last updated: 2025/11/25", "2025-12-01") == 0
    assert age("Last updated: 13/99/2025.", "2025-12-01") == 0
    assert age("Nothing", "2025-12-01") == 0
