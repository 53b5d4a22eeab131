"""Miniature projects as `matrix draft` reads them: a mirror of three repositories, and an index with the days of versions."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from envbuilder.upstream.tree import ArchiveTree
from tests.helpers.repositories import git, make_bare, repository

TAG, ENGINE_TAG, PLUGIN_TAG = "v97.1.0", "v98.0.0", "v98.0.0"
TOOLKIT = "9.0.0"
_BASE = "FROM quay.io/ascend/cann:{toolkit}-910b-ubuntu22.04-py3.11\n"

DOCUMENT = """\
Install
=======

=============== ==================
software        version
=============== ==================
Python          >=3.10, <3.12，推荐 3.11
CANN            9.0.0
HDK             26.0.RC1
torch           2.9.0
torch_npu       2.9.0.post2
triton-ascend   3.2.1
transformers    5.3.0
vLLM            98.0.0
vllm-ascend     98.0.0
tensordict      >=0.8.0,<=0.10.0,!=0.9.0
=============== ==================

SGLang
------

| software | version |
|----------|---------|
| torch    | 2.8.0   |
"""
SETUP = """\
install_requires = ["numpy", "ray[default]>=2.41.0", "transformers"]
VLLM_REQUIRES = ["vllm>=0.8.5,<=99.0", "torch==2.4.0"]
setup(python_requires=">=3.10")
"""
FRAMEWORK = {
    "docs/ascend_tutorial/get_start/install_guidance.rst": DOCUMENT,
    "docs/ascend_tutorial/get_start/dockerfile_build_guidance.rst": "Guidance\n========\n",
    "docker/ascend/Dockerfile.ascend_9.0.0_a2": _BASE.format(toolkit=TOOLKIT),
    "docker/ascend/Dockerfile.ascend_8.5.0_a2": _BASE.format(toolkit="8.5.0"),
    "scripts/install_vllm_mcore_npu.sh": "# pip install transformers==1.0\npip install numpy\n",
    "requirements-npu.txt": "tensordict>=0.8.0,<=0.10.0,!=0.9.0\n",
    "setup.py": SETUP,
}
PLUGIN = {
    "requirements.txt": "torch-npu==2.9.0.post2\ntorch==2.9.0\ntransformers>=4.57.4\n",
    "Dockerfile": _BASE.format(toolkit=TOOLKIT),
    "docs/source/community/versioning_policy.md": (
        "| vLLM Ascend | vLLM | Stable CANN | PyTorch/torch_npu |\n|---|---|---|---|\n"
        f"| {PLUGIN_TAG} | {ENGINE_TAG} | {TOOLKIT} | 2.9.0 / 2.9.0.post2 |\n"
    ),
}
ENGINE = {"requirements/common.txt": "transformers >= 4.56.0, < 5  # a remark\nopencv-python-headless >= 4.11\n"}


class Days:
    """An index that knows the days of a few versions."""

    def __init__(self, archive: ArchiveTree | None = None, **found: Mapping[str, str]) -> None:
        self._found, self._archive = found, archive

    def days(self, distribution: str) -> Mapping[str, str]:
        return self._found.get(distribution.replace("-", "_"), {})

    def archive(self, distribution: str, version: str) -> ArchiveTree | None:
        return self._archive


INDEX = Days(
    transformers={"4.57.6": "2020-01-01", "5.3.0": "2020-02-01", "4.99.0": "2039-01-01"},
    tensordict={"0.9.0": "2020-01-01", "0.10.0": "2020-01-02", "0.11.0": "2020-01-03"},
    ray={"2.48.0": "2020-01-01"},
    torch={"2.9.0": "2020-01-01", "2.8.0": "2020-01-01"},
    torch_npu={"2.9.0.post2": "2020-01-01"},
    opencv_python_headless={"4.11.0.86": "2020-01-01"},
)


def mirror(
    folder: Path, framework: Mapping[str, str | None] = {}, plugin: Mapping[str, str] = {},
    engine: Mapping[str, str] = {}, tag: str = TAG,
) -> Path:  # fmt: skip
    """Make a mirror of the three repositories; files given replace those of the fixture, and None leaves one out."""
    files = {name: text for name, text in (FRAMEWORK | dict(framework)).items() if text is not None}
    tagged(folder / "verl.git", files, tag)
    tagged(folder / "vllm-ascend.git", PLUGIN | dict(plugin), PLUGIN_TAG)
    tagged(folder / "vllm.git", ENGINE | dict(engine), ENGINE_TAG)
    return folder


def tagged(place: Path, files: Mapping[str, str], *tags: str) -> str:
    """Make a bare repository with one tagged commit of 2026, whose references are packed; return the commit."""
    with dated("2026-09-01T12:00:00Z"):
        commit = repository(place, dict(files))
    for tag in tags:
        git(place, "tag", tag)
    make_bare(place)
    git(place, "pack-refs", "--all")
    return commit


class dated:  # noqa: N801
    """Sets the date of commits."""

    def __init__(self, date: str) -> None:
        self._date = date

    def __enter__(self) -> None:
        os.environ["GIT_COMMITTER_DATE"] = os.environ["GIT_AUTHOR_DATE"] = self._date

    def __exit__(self, *error: object) -> None:
        del os.environ["GIT_COMMITTER_DATE"], os.environ["GIT_AUTHOR_DATE"]
