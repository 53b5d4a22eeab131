"""A rehearsal of a real row: the image of an NPU host is built on a stand-in of CANN, proven to level import, and broken."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from envbuilder import paths, platforms
from envbuilder.environment import Environment
from envbuilder.lock.index import uv_program
from envbuilder.matrix import load
from envbuilder.matrix.model import STAND_IN
from tests.conftest import editing, environment, succeeded
from tests.helpers.recorded import by_hand, recorded
from tests.helpers.sabotage import failures, sabotaged, tokens, trained
from tests.integration.conftest import build, docker, labels, run

pytestmark = pytest.mark.extended

ROW = f"verl-v0.8.0-vllm-a3-{platforms.arch()}"
CUDA = re.compile(r"nvidia-[\w-]+-cu12")
# the row on the plugin's tag in place of its branch, and without Megatron: all of that is on the package index
V080, VENDOR = "frameworks/verl/v0.8.0.yaml", "https://mirrors.huaweicloud.com/ascend/repos/pypi"
TAGGED = [
    (V080, "  - when: {family: [a2, a3]}", "  - when: {family: [a5]}"),
    (V080, "cann: {version: 9.0.0,", "cann: {version: 8.5.1,"),
    (
        V080,
        "hdk: {version: 26.0.RC1, source: document, documented: '26.0.rc1',",
        "hdk: {version: 25.5.0, source: document,",
    ),
    (V080, "torch_npu: {version: 2.9.0.post2,", "torch_npu: {version: 2.9.0,"),
    (V080, "version: v0.18.1.dev45", "version: v0.18.0"),
    (V080, "triton_ascend: {version: 3.2.1,", "triton_ascend: {version: 3.2.0,"),
    (V080, f"    remove: []\n    indexes: {{triton_ascend: '{VENDOR}'}}\n", ""),
    (
        V080,
        "  - when: {engine: [vllm], family: [a2, a3]}\n    pins:\n      triton: {version: 3.5.0, source: document}\n",
        "",
    ),
]


@pytest.fixture(scope="module")
def matrices(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lock the row for this machine: the index of its torch for x86_64 may be out of reach."""
    folder = tmp_path_factory.mktemp("matrices")
    edit = editing(folder)
    for file, old, new in TAGGED:
        edit(file, old, new)
    if platforms.arch() == "x86_64":
        # the torch of the package index is a CUDA build there, and torch_npu names another
        host = (paths.matrices() / "host.yaml").read_text(encoding="utf-8")
        edit("host.yaml", host[host.index("arches:\n") : host.index("# with the allocator")], "")
        libraries = sorted(set(CUDA.findall((paths.matrices() / "engines/vllm.yaml").read_text(encoding="utf-8"))))
        settings = f"force: {{append: [torch]}}, build_packages: {{append: [{', '.join(libraries)}]}}"
        edit("hardware/a3.yaml", "  x86_64: {}\n", f"  x86_64: {{{settings}}}\n")
    succeeded(run("lock", ROW, "--matrices", str(folder)))
    return folder


@pytest.fixture(scope="module")
def rehearsal(engine: None, matrices: Path) -> Iterator[Environment]:
    succeeded(build(ROW, "--rehearse", "--matrices", str(matrices)))
    # on x86_64 the wheels and layers of this build are 20 GB, and other tests need the disk
    docker("builder", "prune", "--all", "--force")
    found = environment(load(matrices, everything=True), ROW).rehearsed()
    yield found
    # it is large, and no other test uses it
    docker("image", "rm", found.image_name("envbuilder"))


def test_every_module_that_an_npu_host_imports_is_imported(rehearsal: Environment, matrices: Path) -> None:
    result = run("validate", ROW, "--matrices", str(matrices), "--level", "import", "--json")
    document = json.loads(result.stdout)
    failed = {check["name"]: check["message"] for check in document["checks"] if check["status"] == "failed"}
    assert (result.returncode, failed) == (0, {})
    imported = {check["name"] for check in document["checks"] if check["level"] == "import"}
    assert {f"import {name}" for name in rehearsal.used_modules().modules} <= imported
    left_out = [check["message"] for check in document["checks"] if check["status"] == "not-checked"]
    assert any("kernel-compiler" in message for message in left_out)


def test_nothing_of_the_stand_in_is_in_the_image(rehearsal: Environment) -> None:
    """Only its base image has a stand-in, and without the hook that computes on a CPU."""
    image = rehearsal.image_name("envbuilder")
    assert "envbuilder.rehearsal" in labels(image)
    files = docker("run", "--rm", image, "find", "/", "-xdev", "-name", "STAND_IN", "-o", "-name", "host_kernels.py")
    assert files.split() == ["/usr/local/Ascend/cann-8.5.1/STAND_IN"]


DEVICE = """
import torch, torch_npu
# an NPU gathers by indices of 32 bits
values, index = torch.arange(6.0, device="npu").view(2, 3), torch.tensor([[2], [0]], dtype=torch.int32, device="npu")
assert values.gather(1, index).tolist() == [[2.0], [3.0]]
# FSDP hangs its hooks on results, which trainers then change in place
result = torch.ones(1, 2, 3, device="npu", requires_grad=True) @ torch.ones(3, 3, device="npu", requires_grad=True)
called = []
result.register_hook(called.append)
result.div_(2.0).sum().backward()
assert called
# and frees memory: what is read too early is an error, not a number
values.untyped_storage().resize_(0)
try:
    raise SystemExit(f"read {values + 1}")
except RuntimeError as error:
    assert "freed before its use" in str(error)
"""

# every layout of MindSpeed's attention, with a mask that is given and one that is described, against torch's own
ATTENTION = """
import torch, torch_npu
from torch.nn.functional import scaled_dot_product_attention

layouts = {
    "BNSD": lambda item: item,
    "BSND": lambda item: item.transpose(1, 2),
    "BSH": lambda item: item.transpose(1, 2).flatten(2),
    "SBH": lambda item: item.permute(2, 0, 1, 3).flatten(2),
    "TND": lambda item: item.transpose(1, 2).flatten(0, 1),
}
torch.manual_seed(1)
future = torch.ones(5, 5).triu(1).bool()
for layout, arranged in layouts.items():
    for mode, mask in ((0, future), (2, torch.ones(8, 8).triu(1).bool())):
        host = [torch.randn(2, heads, 5, 8, requires_grad=True) for heads in (4, 2, 2)]
        query, key, value = host
        spread = [item.repeat_interleave(2, 1) for item in (key, value)]
        wanted = arranged(scaled_dot_product_attention(query, *spread, attn_mask=~future, scale=0.3))
        wanted.backward(torch.ones_like(wanted) * torch.arange(8.0).repeat(wanted.shape[-1] // 8))
        device = [arranged(item.detach()).contiguous().npu().requires_grad_() for item in host]
        ends = {"actual_seq_qlen": [5, 10], "actual_seq_kvlen": [5, 10]} if layout == "TND" else {}
        options = dict(atten_mask=mask.npu(), scale=0.3, sparse_mode=mode, next_tockens=0, **ends)
        made = torch_npu.npu_fusion_attention(*device, 4, layout, **options)[0]
        made.backward(torch.ones_like(made) * torch.arange(8.0).repeat(made.shape[-1] // 8).npu())
        assert torch.allclose(made.cpu(), wanted, atol=1e-5), (layout, mode)
        for one, two in zip(device, host):
            assert torch.allclose(one.grad.cpu(), arranged(two.grad), atol=1e-4), (layout, mode)
"""


@pytest.mark.parametrize("script", [DEVICE, ATTENTION], ids=["device", "attention"])
def test_the_stand_in_keeps_the_rules_of_the_device(rehearsal: Environment, tmp_path: Path, script: str) -> None:
    (tmp_path / "device.py").write_text(script)
    with sabotaged(rehearsal, STAND_IN, "python3 /tmp/device.py", tmp_path):
        pass


# --- sabotage ------------------------------------------------------------------------------------------------------------


def wheel(requirement: str, folder: Path) -> Path:
    """Install another release into a folder, for a container without a network."""
    words = [uv_program(), "pip", "install", "--quiet", "--no-deps", "--target", str(folder / "other")]
    platform = ["--python-version", "3.11", "--python-platform", f"{platforms.arch()}-unknown-linux-gnu"]
    subprocess.run([*words, *platform, requirement], check=True)
    return folder


SITE = "$(python3 -c 'import sysconfig; print(sysconfig.get_path(\"platlib\"))')"


@pytest.mark.parametrize(
    ("requirement", "replaced", "module", "words"),
    [
        ("vllm-ascend==0.13.0", "vllm_ascend*", "vllm_ascend.worker.worker", "ImportError|ModuleNotFoundError"),
        ("transformers==5.3.0", "transformers*", "vllm.entrypoints.llm", "transformers|ImportError"),
    ],
)
def test_another_release_is_found(
    rehearsal: Environment, tmp_path: Path, requirement: str, replaced: str, module: str, words: str
) -> None:
    files = wheel(requirement, tmp_path)
    with sabotaged(rehearsal, STAND_IN, f"rm -r {SITE}/{replaced} && cp -r /tmp/other/. {SITE}", files) as target:
        found = failures(rehearsal, "import", target, tmp_path, module)
    assert re.search(words, found[f"import {module}"])


def test_an_engine_without_its_plugin_is_found(rehearsal: Environment, tmp_path: Path) -> None:
    with sabotaged(rehearsal, STAND_IN, f"rm {SITE}/vllm_ascend-*.dist-info/entry_points.txt") as target:
        found = failures(rehearsal, "import", target, tmp_path)
    [message] = found.values()
    assert "and not 'npu': the plugin of the engine is not found" in message


def test_a_shell_without_the_toolkit_is_found(rehearsal: Environment, tmp_path: Path) -> None:
    with sabotaged(
        rehearsal, STAND_IN, "for file in /root/.bashrc /etc/bash.bashrc $BASH_ENV; do echo > $file; done"
    ) as target:
        found = failures(rehearsal, "static", target, tmp_path)
    assert any("set_env" in name for name in found), found


def test_triton_over_triton_ascend_is_found(rehearsal: Environment, tmp_path: Path) -> None:
    files = wheel("triton==3.5.0", tmp_path)
    with sabotaged(rehearsal, STAND_IN, f"cp -r /tmp/other/. {SITE}", files) as target:
        found = failures(rehearsal, "static", target, tmp_path)
    assert any("triton" in message for message in found.values()), found


# --- training ------------------------------------------------------------------------------------------------------------


@by_hand
def test_the_engine_generates_as_transformers_and_the_run_learns(rehearsal: Environment, tmp_path: Path) -> None:
    with sabotaged(rehearsal, STAND_IN, "true") as target:
        assert tokens(rehearsal, STAND_IN, target, tmp_path / "tokens.log").status == "passed"
        checks = trained(rehearsal, STAND_IN, target, tmp_path / "train.log")
    recorded(tmp_path / "train.log", rehearsal, "good")
    assert {check.status for check in checks.values()} == {"passed"}


@by_hand
def test_an_attention_that_forgets_the_past_is_found(rehearsal: Environment, tmp_path: Path) -> None:
    hook = "/opt/stand-in/inside/hook/npu_attention.py"
    forgets = f"sed -i 's/    key, value = cached$/    key, value = (item[-1:] for item in cached)/' {hook}"
    with sabotaged(rehearsal, STAND_IN, f"{forgets} && grep -q 'item\\[-1:' {hook}") as target:
        found = tokens(rehearsal, STAND_IN, target, tmp_path / "tokens.log")
    recorded(tmp_path / "tokens.log", rehearsal, "forgotten-past")
    assert found.status == "failed" and "answers of the engine differ from those of transformers" in found.message


def test_weights_that_are_not_sent_are_found(rehearsal: Environment, tmp_path: Path) -> None:
    file = "/opt/envbuilder/src/verl/verl/workers/rollout/vllm_rollout/utils.py"
    with sabotaged(rehearsal, STAND_IN, f"sed -i '/def _update_weights/a\\        return' {file}") as target:
        found = trained(rehearsal, STAND_IN, target, tmp_path / "train.log")
    recorded(tmp_path / "train.log", rehearsal, "weights-not-sent")
    assert found["process"].status == "passed", found["process"].message
    assert "a run that learns gains at least" in found["reward"].message


@by_hand
def test_a_learning_rate_of_zero_is_found(rehearsal: Environment, tmp_path: Path) -> None:
    with sabotaged(rehearsal, STAND_IN, "true") as target:
        found = trained(rehearsal, STAND_IN, target, tmp_path / "train.log", learning_rate="0.0")
    recorded(tmp_path / "train.log", rehearsal, "rate-zero")
    assert {"divergence", "reward"} <= {name for name, check in found.items() if check.status == "failed"}


@by_hand
def test_a_wrong_soc_is_found(rehearsal: Environment, tmp_path: Path) -> None:
    other = f"sed -i \"s/__device_type__ = .*/__device_type__ = 'A2'/\" {SITE}/vllm_ascend/_build_info.py"
    with sabotaged(rehearsal, STAND_IN, other) as target:
        found = tokens(rehearsal, STAND_IN, target, tmp_path / "tokens.log")
    assert found.status == "failed" and "device type" in found.message.lower(), found.message
