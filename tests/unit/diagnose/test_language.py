"""Prose in reports: current, former and wanted versions; and the same report in other forms."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envbuilder.diagnose.facts import read
from envbuilder.diagnose.judge import diagnose
from envbuilder.diagnose.report import PastedReport
from envbuilder.environment import Catalog
from envbuilder.matrix import Matrix
from tests.conftest import run
from tests.helpers.fake_host import npu_smi_output


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        # the present
        ("I run torch 2.5.1 with CANN 8.1.RC1", {"torch": "2.5.1", "cann": "8.1.RC1"}),
        ("torch / torch-npu: 2.5.1", {"torch": "2.5.1", "torch_npu": "2.5.1"}),
        ("vllm stays at v0.7.2", {"vllm": "0.7.2"}),
        ("机器上是torch_npu2.5.1，驱动为25.5.0的910B4", {"torch_npu": "2.5.1", "driver": "25.5.0", "chip": "910B4"}),
        # the past
        ("I tried triton-ascend 3.2.0 before.", {}),
        ("I first had torch 2.5.1, now torch 2.6.0", {"torch": "2.6.0"}),
        ("之前用的是torch 2.5.1，现在是torch 2.6.0", {"torch": "2.6.0"}),
        ("upgraded torch_npu from 2.5.1 to 2.7.1", {}),
        ("I found it with CANN 9.1.0. Then I downgraded CANN to 9.0.1", {"cann": "9.0.1"}),
        ("Another user had this:\nCANN: 9.0.0\n", {}),
        ("vllm 0.9.1 used to be installed", {}),
        ("triton_ascend 3.2.2 一切正常，换成 nightly 就不行", {}),
        # a wish, or what a document says
        ("vllm 需要torch 2.8.0版本", {}),
        ("verl requires transformers 4.57.1 or later", {}),
        ("According to the guide torch 2.7.1 is used", {}),
        ("torch 2.7.0 exists, but there is no torch_npu with that number", {}),
        ("文档推荐CANN 8.3.RC1，我的CANN 8.2.RC1", {"cann": "8.2.RC1"}),
        ("安装vllm 0.11.0版本时会卸载torch2.7.1", {"vllm": "0.11.0"}),
        # an attempt
        ("pip install vllm==0.13.0rc1时，提示conflict", {}),
        ("Successfully installed numpy-2.0.2 torch-npu-2.7.1", {"numpy": "2.0.2", "torch_npu": "2.7.1"}),
        ("想装 vllm0.14.0，它要 torch 2.9.1", {}),
        ("x/pip-build-env-x/overlay\nSuccessfully installed torch-2.8.0", {}),
        ("装的是 triton_ascend-3.6.0+git6a29e111.dev20260821", {"triton_ascend": "3.6.0+git6a29e111.dev20260821"}),
        # a comment
        ("# export IMAGE=quay.io/ascend/vllm-ascend:v0.14.0rc1-a3", {}),
        ("# pip install torch==2.5.1\npip install torch==2.7.1", {"torch": "2.7.1"}),
        ("## Environment\nCANN 8.3.RC1", {"cann": "8.3.RC1"}),
        # two machines
        ("Machine A (works):\ntorch 2.5.1\n\nMachine B (fails):\ntorch 2.6.0\n", {"torch": "2.6.0"}),
        ("正常的机器：\ntorch 2.5.1\n报错的机器：\ntorch 2.6.0\n", {"torch": "2.6.0"}),
        ("在另一个虚拟机里（python3.10.12）可以", {}),
        # images, clusters, checkouts
        ("the image of AscendHub (8.5.0-910b-ubuntu22.04-py3.11)", {"cann": "8.5.0", "python": "3.11"}),
        ("用官方镜像 quay.io/ascend/vllm-ascend:v0.21.0rc1-310p", {"vllm_ascend": "0.21.0rc1"}),
        ("SOC_VERSION=ascend910b1", {}),
        ("/home/x/anaconda3/envs/PyTorch-2.1.0/bin/x", {}),
        ("image: lmsysorg/sglang:main-cann8.2.rc1-a3", {"sglang": "main", "cann": "8.2.RC1"}),
        ("FROM quay.io/ascend/vllm-ascend:v0.11.0rc1-a3-openeuler", {"vllm_ascend": "0.11.0rc1"}),
        ("quay.io/ascend/verl:verl-8.3.rc1-910b-ubuntu22.04-py3.11-latest", {"cann": "8.3.RC1", "python": "3.11"}),
        ("the main branch of vllm-ascend", {"vllm_ascend": "main"}),
        ("huawei.com/Ascend910: 1\ndevice='npu:0'", {}),
        ("INFO 10-01 Initializing a V1 LLM engine (v0.9.1) with config", {"vllm": "0.9.1"}),
        ("/usr/local/Ascend/cann-8.5.0/tools/bishengir/bin/bishengir-compile", {"cann": "8.5.0"}),
    ],
)
def test_only_current_facts_are_found(matrix: Matrix, text: str, facts: dict[str, str]) -> None:
    assert read(Catalog(matrix), PastedReport.of(text)) == facts


def errors(matrix: Matrix, text: str) -> set[str]:
    return {item.code for item in diagnose(Catalog(matrix), text).findings if item.severity == "error"}


def found(matrix: Matrix, text: str) -> dict[str, str]:
    return {item.code: item.severity for item in diagnose(Catalog(matrix), text).findings}


TRACE = '  File "/usr/lib/python3.11/site-packages/{}/worker.py", line 3, in <module>\n'
IMPORT = "ImportError: cannot import name 'MoEConfig' from 'vllm.model_executor.layers.fused_moe.layer'"


def test_an_import_error_blames_versions_only_if_they_are_not_a_pair(matrix: Matrix) -> None:
    wrong = f"vllm==0.10.0\nvllm-ascend==0.9.1\n{TRACE.format('vllm_ascend')}{IMPORT}\n"
    assert "engine-too-old" in errors(matrix, wrong)
    pair = f"vllm==0.9.1\nvllm-ascend==0.9.1\n{TRACE.format('vllm_ascend')}{IMPORT}\n"
    assert found(matrix, pair)["engine-packaging"] == "warning" and not errors(matrix, pair)
    # a program of the user imports, or the versions are unknown
    assert found(matrix, f"{TRACE.format('my_tool')}{IMPORT}\n")["engine-too-old"] == "warning"
    nowhere = "ImportError: cannot import name 'LLM' from 'vllm' (unknown location)\nvllm==0.9.1\nvllm-ascend==0.9.1"
    assert errors(matrix, nowhere) == {"shadowed-package"}
    variable = f"vllm==0.20.2\nvllm-ascend==0.20.2rc1\nexport VLLM_VERSION=0.18.0\n{IMPORT}"
    assert errors(matrix, variable) == {"vllm-version-variable"}
    assert "vllm-version-variable" not in found(matrix, "vllm==0.20.2\nexport VLLM_VERSION=0.20.2")


def test_versions_are_judged_without_a_close_row(matrix: Matrix) -> None:
    assert "torch-npu-torch" in errors(matrix, "torch==2.1.0\ntorch_npu==2.0.1")
    assert found(matrix, "CANN 8.0.RC1\ndriver version: 23.0.3")["cann-hdk"] == "warning"
    assert not errors(matrix, "torch==2.1.0\ntorch_npu==2.1.0.post8\nCANN 8.0.RC3")


def test_two_values_of_one_fact_are_uncertain(matrix: Matrix) -> None:
    text = "torch==2.6.0\ntorch==2.5.1\ntorch_npu==2.5.1\n"
    assert found(matrix, text)["torch-npu-torch"] == "warning" and not errors(matrix, text)


def test_development_builds_contradict_nothing(matrix: Matrix) -> None:
    assert not errors(matrix, "vllm==0.11.1rc6.dev0+g2918c1b49\nvllm-ascend==0.11.0rc1")
    assert found(matrix, "vllm-ascend main, CANN 9.0.0")["moving-ref"] == "warning"


def test_every_published_image_fits_its_chip(matrix: Matrix) -> None:
    catalog = Catalog(matrix)
    seen = 0
    for framework in catalog.frameworks.values():
        if framework.upstream is None:
            continue
        for tag in framework.upstream.tags:
            chip = catalog.chips.families[tag.family].chips[0].replace("*", "1")
            versions = "\n".join(f"{name}=={version}" for name, version in tag.versions.items())
            text = f"image: {framework.upstream.image}:{tag.tag}\nNPU type: {chip}\n{versions}\n"
            assert not errors(matrix, text), text
            seen += 1
    for release in catalog.components["cann"].releases:
        for tag_name in release.images:
            family = "a3" if "-a3-" in tag_name else "a2" if "-910b-" in tag_name else None
            if family is not None:
                chip = catalog.chips.families[family].chips[0]
                assert not errors(matrix, f"FROM quay.io/ascend/cann:{tag_name}\nchip {chip}\n"), tag_name
                seen += 1
    assert seen > 60


# --- the same in another form ------------------------------------------------------------------------------

PACKAGES = "torch                     2.8.0\ntorch_npu                 2.7.1\nvllm                      0.11.0\n"
FAULTY = {
    "torch-overwritten": [npu_smi_output(), PACKAGES],
    "nnal-missing": [
        npu_smi_output(),
        "torch==2.7.1\ntorch_npu==2.7.1\n",
        "ImportError: libatb.so: cannot open shared object file\n",
    ],
    "plugin-engine": ["vllm==0.8.5.post1\nvllm-ascend==0.7.3\n", "Architecture: aarch64\n"],
    "unsupported-chip": [npu_smi_output("910ProB"), "torch==2.7.1\ntorch_npu==2.7.1\n"],
    "wrong-image-for-chip": [npu_smi_output("910B3"), "image: quay.io/ascend/vllm-ascend:v0.9.1-a3\n"],
    "hccl-port": [
        "torch==2.7.1\n",
        "EJ0003: Failed to bind the IP port. Reason: The IP address and port have been bound already.\n",
    ],
}


def chinese(text: str) -> str:
    """Return a report with Chinese labels around the output of tools."""
    return f"环境信息如下，请帮忙看看是什么问题：\n{text}\n以上是全部日志，谢谢！\n".replace(
        "Architecture:", "架构: Architecture:"
    )


def stamped(text: str) -> str:
    """Return a report with the prefixes of a logger before its errors."""
    return re.sub(
        r"^(?=\w*Error|EJ)", "(Worker pid=4711) ERROR 11-05 13:27:55 [core.py:515] ", text, flags=re.MULTILINE
    )


def fenced(text: str) -> str:
    return "<details>\n\n```text\n" + text + "```\n\n</details>\n"


def cut(text: str) -> str:
    """Return a report whose tables lost their right half."""
    return re.sub(r"^(\|[^|\n]*\|)[^\n]*$", r"\1", text, flags=re.MULTILINE) if "Chip" in text else text


FORMS: list[Callable[[str], str]] = [
    chinese,
    stamped,
    fenced,
    str.lstrip,
    lambda text: text.replace("\n", "\r\n"),
    lambda text: text.replace("==", " == "),
]


@pytest.mark.parametrize("code", FAULTY)
def test_another_form_keeps_the_verdict(matrix: Matrix, code: str) -> None:
    parts = FAULTY[code]
    assert errors(matrix, "\n".join(parts)) == {code}
    assert errors(matrix, "\n".join(reversed(parts))) == {code}
    for form in FORMS:
        assert errors(matrix, form("\n".join(parts))) == {code}, form("\n".join(parts))


@pytest.mark.slow
@given(code=st.sampled_from(sorted(FAULTY)), order=st.randoms(), forms=st.lists(st.sampled_from(FORMS[:4]), max_size=3))
def test_any_mixture_of_forms_keeps_the_verdict(
    matrix: Matrix, code: str, order: Random, forms: list[Callable[[str], str]]
) -> None:
    parts = list(FAULTY[code])
    order.shuffle(parts)
    text = "\n".join(parts)
    for form in forms:
        text = form(text)
    assert errors(matrix, text) == {code}


# --- the answer --------------------------------------------------------------------------------------------


def test_the_answer_quotes_its_lines(tmp_path: Path) -> None:
    file = tmp_path / "report.txt"
    file.write_text("hello\ntorch==2.8.0\ntorch_npu==2.7.1\nvllm==0.11.0\n", encoding="utf-8")
    shown = run("diagnose", str(file)).stdout
    cause, _, rest = shown.partition("certain")
    assert "torch is 2.8.0" in cause and "2: torch==2.8.0" in rest and "to be sure" in rest and "change" in rest
    assert re.search(r"envbuilder build verl-\S+", rest)
    finding = json.loads(run("diagnose", str(file), "--json").stdout)["findings"][0]
    assert finding["lines"] == [{"number": 2, "text": "torch==2.8.0"}, {"number": 3, "text": "torch_npu==2.7.1"}]
    reply = run("diagnose", str(file), "--markdown").stdout
    assert reply.startswith("**cause** (`torch-overwritten`)") and "```console\nenvbuilder show " in reply
    assert run("diagnose", str(file), "--markdown", "--json").returncode == 2


def test_an_unclear_report_names_what_to_send(tmp_path: Path) -> None:
    file = tmp_path / "report.txt"
    file.write_text("it does not work\n", encoding="utf-8")
    shown = " ".join(run("diagnose", str(file)).stdout.split())
    assert "cannot tell" in shown and "pip list" in shown and "the whole traceback" in shown


def test_a_report_in_chinese_is_answered_in_chinese(tmp_path: Path) -> None:
    file = tmp_path / "report.txt"
    file.write_text(
        "按照文档安装以后启动服务报错，请问是什么原因？怎么解决？\nlibatb.so: cannot open shared object file\n",
        encoding="utf-8",
    )
    shown = run("diagnose", str(file)).stdout
    assert "原因" in shown and "确定" in shown and "nnal" in shown
    document = json.loads(run("diagnose", str(file), "--json").stdout)
    assert document["findings"][0]["message"].startswith("libatb.so belongs to nnal")
