"""Wheels that are known without their index: every entry is complete."""

from __future__ import annotations

import pytest
import requests
from packaging.requirements import Requirement
from packaging.utils import parse_wheel_filename

from envbuilder.errors import MatrixError
from envbuilder.lock.known import served
from envbuilder.matrix import Matrix, load
from tests.conftest import Edit


def test_every_file_is_a_wheel_with_a_hash_of_its_own(matrix: Matrix) -> None:
    files = [item for wheels in matrix.known_wheels.values() for x in wheels.releases for item in x.files]
    assert len(files) > 20 and len({item.sha256 for item in files}) == len({item.file for item in files}) == len(files)
    for item in files:
        parse_wheel_filename(item.file)
        assert item.sources and item.publishers
    for wheels in matrix.known_wheels.values():
        for release in wheels.releases:
            for text in release.requires:
                Requirement(text)


def test_files_of_one_organisation_are_one_source(matrix: Matrix) -> None:
    torch = {item.file: item for x in matrix.known_wheels["torch"].releases for item in x.files}
    several = torch["torch-2.6.0+cpu-cp310-cp310-linux_x86_64.whl"]
    assert len(several.sources) == 4 and several.publishers == {"Ascend", "docling-project", "meta-llama"}


def test_the_index_has_names_hashes_and_requirements_but_no_files(matrix: Matrix) -> None:
    with served(matrix.known_wheels) as addresses:
        address = next(iter(addresses.values()))
        page = requests.get(f"{address}torch/", timeout=10).json()
        file = next(item for item in page["files"] if item["filename"].startswith("torch-2.8.0+cpu-cp311"))
        base = address.removesuffix("/simple/")
        text = requests.get(f"{base}{file['url']}.metadata", timeout=10).text
        assert "Version: 2.8.0+cpu" in text and "Requires-Dist: sympy>=1.13.3" in text
        for missing in (f"{base}{file['url']}", f"{address}nothing/"):
            assert requests.get(missing, timeout=10).status_code == 404


def test_a_file_of_another_release_is_refused(edit: Edit) -> None:
    folder = edit("wheels/torch.yaml", "file: torch-2.8.0+cpu-cp311", "file: torch-2.7.0+cpu-cp311")
    with pytest.raises(MatrixError, match=r"is not a wheel of torch 2\.8\.0\+cpu"):
        load(folder, everything=True)
