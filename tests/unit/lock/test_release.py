"""What a package index publishes about a release: in its metadata, else in the source archive."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile

import pytest

from envbuilder.errors import NetworkError
from envbuilder.lock.index import Index
from envbuilder.lock.release import index_release
from envbuilder.matrix import Matrix
from envbuilder.matrix.model import Component
from envbuilder.matrix.scaffold import IndexRelease
from tests.helpers.web_server import files

METADATA = """Metadata-Version: 2.4
Name: verl
Version: 99.0
Requires-Python: >=3.10
Requires-Dist: ray[default]>=2.41.0
Requires-Dist: uvloop; sys_platform == "linux"
Requires-Dist: pytest; extra == "test"
Requires-Dist: liger; python_version < "3.12" and extra == "gpu"
"""
REQUIRES = ("ray[default]>=2.41.0", 'uvloop; sys_platform == "linux"')
WHEEL, ARCHIVE = "verl-99.0-py3-none-any.whl", "verl-99.0.tar.gz"


def archive(metadata: str) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, text in (("verl-99.0/verl.egg-info/PKG-INFO", "Name: other"), ("verl-99.0/PKG-INFO", metadata)):
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            tar.addfile(member, io.BytesIO(text.encode()))
    return packed.getvalue()


def asked(matrix: Matrix, contents: dict[str, str | bytes], component: str = "verl") -> IndexRelease | None:
    with files(contents) as server:
        return index_release(Index(server.url, back_off=0.01), matrix.components[component], "v99.0")


def page(*found: dict[str, object]) -> dict[str, str | bytes]:
    return {"/simple/verl/": json.dumps({"files": [{"url": f"/files/{item['filename']}", **item} for item in found]})}


@pytest.mark.parametrize("key", ["core-metadata", "data-dist-info-metadata", "dist-info-metadata"])
def test_metadata_that_the_index_serves_beside_a_wheel(matrix: Matrix, key: str) -> None:
    listed = page({"filename": ARCHIVE, "hashes": {"sha256": "5" * 64}}, {"filename": WHEEL, key: {"sha256": "0" * 64}})
    found = asked(matrix, {**listed, f"/files/{WHEEL}.metadata": METADATA})
    assert found == IndexRelease("pypi/verl@99.0", archive="5" * 64, python=">=3.10", requires=REQUIRES)


@pytest.mark.parametrize("key", ["data-core-metadata", "data-dist-info-metadata"])
def test_an_index_in_html(matrix: Matrix, key: str) -> None:
    text = f'<a href="/files/{WHEEL}#sha256=00" {key}="sha256=00">{WHEEL}</a>'
    found = asked(matrix, {"/simple/verl/": text, f"/files/{WHEEL}.metadata": METADATA})
    assert found == IndexRelease("pypi/verl@99.0", python=">=3.10", requires=REQUIRES)


def test_without_metadata_the_source_archive_is_read(matrix: Matrix) -> None:
    content = archive(METADATA)
    sha256 = hashlib.sha256(content).hexdigest()
    listed = page({"filename": WHEEL}, {"filename": ARCHIVE, "hashes": {"sha256": sha256}})
    found = asked(matrix, {**listed, f"/files/{ARCHIVE}": content})
    assert found == IndexRelease("pypi/verl@99.0", archive=sha256, python=">=3.10", requires=REQUIRES)
    with pytest.raises(NetworkError, match="does not have the hash"):
        asked(matrix, {**listed, f"/files/{ARCHIVE}": archive(METADATA.replace("ray", "rey"))})


def test_an_archive_is_used_only_where_the_component_declares_one(matrix: Matrix) -> None:
    values = {**matrix.components["verl"].__dict__, "sdist": None}
    listed = page({"filename": ARCHIVE, "core-metadata": True, "hashes": {"sha256": "5" * 64}})
    with files({**listed, f"/files/{ARCHIVE}.metadata": METADATA}) as server:
        found = index_release(Index(server.url), Component(**values), "v99.0")
    assert found == IndexRelease("pypi/verl@99.0", python=">=3.10", requires=REQUIRES)


def test_a_wheel_without_metadata_gives_only_its_version(matrix: Matrix) -> None:
    assert asked(matrix, page({"filename": WHEEL})) == IndexRelease("pypi/verl@99.0")


def test_another_version_or_name_is_not_the_release(matrix: Matrix) -> None:
    assert asked(matrix, page({"filename": "verl-98.0.tar.gz"})) is None
    assert asked(matrix, page({"filename": ARCHIVE}), "ms_swift") is None


@pytest.mark.parametrize("content", [b"x" * 2000, archive(METADATA)[:80]], ids=["text", "cut off"])
def test_a_file_that_is_not_an_archive_is_reported(matrix: Matrix, content: bytes) -> None:
    with pytest.raises(NetworkError, match=r"verl-99\.0\.tar\.gz .* is not a source archive"):
        asked(matrix, {**page({"filename": ARCHIVE}), f"/files/{ARCHIVE}": content})
