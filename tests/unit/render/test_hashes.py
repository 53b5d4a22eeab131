"""What a build downloads is compared with a hash before it is used."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from uv import find_uv_bin

from envbuilder.environment import resolve
from envbuilder.environment.coordinates import environments
from envbuilder.install.parts import parts_of
from envbuilder.matrix import Matrix
from envbuilder.network import UV_SETTINGS
from envbuilder.plan import make_plan
from envbuilder.process import undisturbed
from envbuilder.render import render_dockerfile, render_script
from envbuilder.render.text import body
from tests.conftest import A2_X86, environment
from tests.helpers.rendered import in_order, plan
from tests.helpers.servers import served
from tests.helpers.wheels import small_wheel

_INSTALL = re.compile(r"python3 -m pip install (?:(?!\s&&|\n).)*", re.S)


def installs(text: str) -> list[str]:
    """Return the arguments of each command that installs the programs which install everything else."""
    found = (match.replace("python3 -m pip ", "").split() for match in _INSTALL.findall(text))
    return [words for words in found if "--editable" not in words and "wheels/*/*.whl" not in words]


@pytest.mark.parametrize("where", ["dockerfile", "script", "host"])
def test_a_forged_installer_is_refused(matrix: Matrix, tmp_path: Path, where: str) -> None:
    """It would run before anything is compared, as root in a build."""
    planned = plan(matrix, A2_X86)
    text = {
        "dockerfile": render_dockerfile(planned),
        "script": render_script(planned),
        "host": parts_of(planned, {}, tmp_path)[0].commands,
    }[where]
    (words,) = installs(text)
    small_wheel(tmp_path / "index", "uv", "0.13.7", "print('forged')")
    for path, content in planned.files.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(content)
    here = [word.replace('"$PREFIX"/', "") for word in words]
    command = [sys.executable, "-m", "pip", *here, "--no-index", "--find-links", "index", "--target", "x"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode != 0 and "DO NOT MATCH THE HASHES" in result.stderr, result.stdout + result.stderr
    assert not (tmp_path / "x").exists()


def test_every_installer_has_a_hash_for_every_machine(matrix: Matrix) -> None:
    for coordinates in environments(matrix):
        planned = make_plan(resolve(matrix, coordinates))
        assert planned.tools and all(tool.hashes for tool in planned.tools), coordinates.id


@pytest.fixture
def indexes(tmp_path: Path) -> Iterator[str]:
    """Serve an index of a vendor, and a public one where anybody may claim any name."""

    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments, directory=str(tmp_path))

        def log_message(self, *arguments: object) -> None:
            pass

    for index, code in (("vendor", "ours = True"), ("public", "ours = False")):
        wheel = small_wheel(tmp_path / index / "triton-ascend", "triton-ascend", "3.2.2", code)
        wheel.with_name("index.html").write_text(f'<a href="{wheel.name}">{wheel.name}</a>')
    with served(Handler) as port:
        yield f"http://127.0.0.1:{port}"


def test_no_other_index_answers_for_a_wheel_without_a_hash(matrix: Matrix, tmp_path: Path, indexes: str) -> None:
    """The lock has only its version, and the user's index may have a package of that name too."""
    row = environment(matrix, "verl-v0.9.1-vllm-a3-aarch64")
    url = next(url for name, url in row.indexes.items() if name == "triton_ascend")
    (layer,) = (layer for layer in make_plan(row).layers if layer.title == "wheels without a hash")
    commands = str(body(layer)).replace(url, f"{indexes}/vendor")
    public = dict.fromkeys(("UV_INDEX", "UV_DEFAULT_INDEX"), f"{indexes}/public")
    own = {"UV_NO_CONFIG": "1", "UV_NO_CACHE": "1", "VIRTUAL_ENV": str(tmp_path / "venv"), **UV_SETTINGS, **public}
    path = f"{Path(find_uv_bin()).parent}:{os.environ['PATH']}"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    subprocess.run(
        ["bash", "-ec", commands], env={**undisturbed(), "PATH": path, **own}, check=True, capture_output=True
    )
    found = [file.read_text() for file in (tmp_path / "venv").rglob("triton_ascend.py")]
    assert found == ["ours = True"]


def test_only_wheels_with_a_hash_may_come_from_several_indexes(matrix: Matrix) -> None:
    for coordinates in environments(matrix):
        planned = make_plan(resolve(matrix, coordinates))
        for text in (render_dockerfile(planned), render_script(planned)):
            commands = re.findall(r"uv pip install (?:\\\n|[^&\n])*", text)
            assert [item for item in commands if "--extra-index-url" in item and "--require-hashes" not in item] == []


def test_an_unlocked_wheel_of_another_index_comes_from_there_alone(matrix: Matrix) -> None:
    """Its requirements come from the package index, which is not asked for the wheel itself."""
    (row,) = (item for item in environments(matrix) if item.id == "verl-v0.4.1-vllm-a2-x86_64")
    text = render_dockerfile(make_plan(resolve(matrix, row)))
    in_order(
        text,
        "--default-index https://download.pytorch.org/whl/cpu/ torch==2.5.1+cpu && ",
        "uv pip install --overrides requirements/overrides.txt --requirement requirements/torch.txt\n",
        "uv pip install --no-deps torch-npu==2.5.1 &&",
    )
