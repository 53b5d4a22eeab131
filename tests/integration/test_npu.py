"""The whole build of an NPU image, with replacements for CANN and for the compilers that build.sh calls.

Real are the Dockerfile with its stages, every locked wheel of the row, the sources by commit with their steps, the
wheels that the stages make, and how they are installed and kept. Only the compilation of the kernels is not real.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from envbuilder import platforms
from envbuilder.matrix import load
from tests.conftest import A3_SGLANG, Edit, environment, succeeded
from tests.integration.conftest import (
    BASE,
    PROJECT,
    build,
    docker,
    inside,
    labels,
    lock_of,
    make_image,
    repository,
    run,
    write_part,
)

pytestmark = [
    pytest.mark.extended,
    pytest.mark.skipif(platforms.arch() != "aarch64", reason="this hardware is aarch64; emulation takes too long"),
]

# the files of the vendor's images; sourcing sets a variable that the fake compiler checks
TOOLKIT = """
RUN for place in ascend-toolkit nnal/atb; do \\
      mkdir -p /usr/local/Ascend/$place/lib64; echo "export SOURCED=\\$SOURCED:$place \\
      LD_LIBRARY_PATH=/usr/local/Ascend/$place/lib64:\\$LD_LIBRARY_PATH" > /usr/local/Ascend/$place/set_env.sh; done; \\
    cd /usr/local/Ascend && touch ascend-toolkit/lib64/libascendcl.so ascend-toolkit/lib64/libhccl.so nnal/atb/lib64/libatb.so
"""
BUILD_SH = """
set -e
[ "$SOURCED" = ":ascend-toolkit:nnal/atb" ]
echo "$LD_LIBRARY_PATH" | grep -q devlib
case "$2 $3" in
  "memory-saver ") name=torch_memory_saver ;;
  "kernels Ascend910_9382") name=sgl_kernel_npu ;;
  "deepep Ascend910_9382") name=deep_ep ;;
  *) echo "unexpected: $*"; exit 1 ;;
esac
mkdir -p project/$name output
mkdir -p project/$name/lib
touch project/$name/__init__.py project/$name/${name}_cpp.stand-in.so project/$name/lib/lib$name.so
if [ $name = torch_memory_saver ]; then
  echo 'const char *linked = "libascendcl.so";' > project/hook.c
  echo 'from setuptools import Extension, setup; setup(ext_modules=[Extension("torch_memory_saver_hook_mode_torch", ["hook.c"])])' > project/setup.py
fi
printf '[build-system]\\nrequires = ["setuptools"]\\nbuild-backend = "setuptools.build_meta"\\n[project]\\nname = "%s"\\nversion = "1"\\n' $name > project/pyproject.toml
printf '[tool.setuptools]\\npackages = ["%s"]\\n[tool.setuptools.package-data]\\n"*" = ["*.so", "lib/*.so"]\\n' $name >> project/pyproject.toml
python3 -m pip wheel --no-deps --no-build-isolation --wheel-dir output ./project
"""


# what the row changes in this release
SGLANG_FILES = {
    "sglang/__init__.py": "",
    "sglang/srt/patch_torch.py": "reductions.init_reductions()\n",
    "pyproject_other.toml": PROJECT.format(name="sglang", version="0.5.3rc0"),
}


@pytest.fixture
def matrices(tmp_path: Path, edit: Edit) -> Path:
    mirror = tmp_path / "mirror"
    commits = {
        "compat/verl.yaml": ("ddd86f527a4af75095e4677b02b5aa272913a088", repository(mirror, "verl", version="0.6.0")),
        "compat/sglang.yaml": (
            "86a32bb5cd50ae1f06fddea9db2633f2f469482e",
            repository(mirror, "sglang", folder="python", files=SGLANG_FILES),
        ),
        "compat/sgl_kernel_npu.yaml": (
            "41ba5d7401ab7789d182dae5fe3cda92335e95e7",
            repository(mirror, "sgl-kernel-npu", files={"build.sh": BUILD_SH}),
        ),
    }
    # without CANN in it the image is small
    folder = edit("hardware/a3.yaml", "disk_gb: 40", "disk_gb: 8")
    for file, (old, new) in commits.items():
        folder = edit(file, old, new)
    return folder


def test_an_npu_image_with_stand_ins_for_the_compilers(tmp_path: Path, matrices: Path, engine: None) -> None:
    make_image(BASE, TOOLKIT, "stand-in/cann:1")
    arguments = (
        A3_SGLANG, "--matrices", str(matrices), "--git-mirror", str(tmp_path / "mirror"), "--source", "git",
        "--base-image", "stand-in/cann:1", "--registry", "npu", "--wheel-cache", str(tmp_path / "wheels"),
        "--report", str(tmp_path / "report.json"),
    )  # fmt: skip
    succeeded(build(*arguments))
    names = ["wheels-sglang", "wheels-sgl_kernel_npu", "wheels-sgl_kernel_npu-2", "wheels-sgl_kernel_npu-3"]
    assert json.loads((tmp_path / "report.json").read_text())["builds"][0]["wheels"] == dict.fromkeys(names, "built")
    image = environment(load(matrices), A3_SGLANG).image_name("npu")
    assert image == "npu/verl:v0.6.0-cann8.3.rc1-torch_npu2.6.0.post3-a3-ubuntu22.04-py3.11-sglang-aarch64"
    code = "import torch_memory_saver, sgl_kernel_npu, deep_ep, sglang, verl"
    inside(image, f"TORCH_DEVICE_BACKEND_AUTOLOAD=0 python3 -c '{code}'")
    linked = inside(image, "readlink -e /usr/local/lib/python3.11/dist-packages/deep_ep_cpp.stand-in.so")
    assert linked.strip() == "/usr/local/lib/python3.11/dist-packages/deep_ep/deep_ep_cpp.stand-in.so"
    assert inside(image, "ls /opt/envbuilder/src").split() == ["verl"], "sources of wheels do not stay"
    assert labels(image)["envbuilder.environment"] == A3_SGLANG
    # a program that no shell starts has the vendor's paths as well
    found = docker("run", "--rm", image, "python3", "-c", "import os; print(os.environ['SOURCED'])")
    assert found.strip() == ":ascend-toolkit:nnal/atb"
    _check_static(image, matrices)
    # another pin of the row compiles nothing
    lock = lock_of(load(matrices), A3_SGLANG)
    before, name, pins = lock.part("pins").partition("transformers==")
    pins = pins.replace("    --hash=", f"    --hash=sha256:{'0' * 64} \\\n    --hash=", 1)
    write_part(matrices, lock, A3_SGLANG, "pins", before + name + pins)
    succeeded(build(*arguments))
    assert json.loads((tmp_path / "report.json").read_text())["builds"][0]["wheels"] == dict.fromkeys(names, "kept")


def _check_static(image: str, matrices: Path) -> None:
    """The image is correct, and faults that occur in real images are found."""
    assert _failures(image, matrices) == {}
    atb = "/usr/local/Ascend/nnal/atb"
    site = "/usr/local/lib/python3.11/dist-packages"
    broken = {
        f"RUN rm {atb}/lib64/libatb.so": ("library libatb.so", "libatb.so is neither in a folder of LD_LIBRARY_PATH"),
        "ENV BASH_ENV=": (f"set env {atb}/set_env.sh", "a shell of the image does not source"),
        f"RUN cd {site} && echo libcudart.so > $(ls torch_memory_saver_hook*.so)": (
            "product torch_memory_saver_hook_mode_*.so", "is not linked with libascendcl.so: it is the build for another device",
        ),
        f"RUN rm {site}/sgl_kernel_npu/lib/libsgl_kernel_npu.so": (
            "product sgl_kernel_npu/lib/libsgl_kernel_npu.so", "was not compiled",
        ),
    }  # fmt: skip
    for number, (change, (name, words)) in enumerate(broken.items()):
        other = f"npu/broken:{number}"
        make_image(image, change, other)
        assert words in _failures(other, matrices)[name]


def _failures(image: str, matrices: Path) -> dict[str, str]:
    result = run("validate", image, "--level", "static", "--json", "--matrices", str(matrices))
    assert result.returncode in {0, 6}, result.stderr
    checks = json.loads(result.stdout)["checks"]
    assert any(check["message"] == "needs Ascend HDK (driver and firmware)" for check in checks), "there is no driver"
    return {check["name"]: check["message"] for check in checks if check["status"] == "failed"}
