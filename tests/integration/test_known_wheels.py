"""Locks of an index that cannot be reached, from the hashes of public lock files; with the real uv and package index."""

from __future__ import annotations

import re

import pytest

from envbuilder import paths
from envbuilder.check import check_environment
from envbuilder.environment import Environment
from envbuilder.environment.locks import read_lock
from envbuilder.errors import NetworkError
from envbuilder.lock.index import Index, default_index
from envbuilder.lock.known import served
from envbuilder.lock.uv import LockError, make_lock
from envbuilder.matrix import Matrix, load
from tests.conftest import Edit, environment

INDEX = Index(default_index())
OUT_OF_REACH = "http://127.0.0.1:9/simple/"
OFFICIAL = "https://download.pytorch.org/whl/cpu/"
X86 = "verl-v0.7.1-vllm-a2-x86_64"
TORCH = "torch-2.8.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl"
FILES = ("wheels/torch.yaml", "wheels/torchvision.yaml", "wheels/torchaudio.yaml")

pytestmark = pytest.mark.usefixtures("impatient")


def at(edit: Edit, address: str) -> Environment:
    """Return the environment with another address of the index, also in the known wheels."""
    for file in FILES:
        edit(file, f"index: {OFFICIAL}", f"index: {address}")
    return environment(load(edit("host.yaml", OFFICIAL, address, count=9), everything=True), X86)


def known_hash(matrix: Matrix) -> str:
    """Return the hash of TORCH in the matrices."""
    files = [file for release in matrix.known_wheels["torch"].releases for file in release.files]
    return next(file.sha256 for file in files if file.file == TORCH)


def codes(item: Environment) -> dict[str, str]:
    return {found.message: found.severity for found in check_environment(item) if found.code == "file-not-seen"}


def test_public_hashes_lock_the_wheels_of_an_unreachable_index(edit: Edit, matrix: Matrix) -> None:
    target = at(edit, OUT_OF_REACH)
    lock = make_lock(target, INDEX)
    assert lock.versions["torch"] == "2.8.0+cpu" and not any(name.startswith("nvidia") for name in lock.versions)
    (torch,) = (item for item in lock.packages if item.name == "torch")
    assert torch.hashes == (known_hash(matrix),)
    assert TORCH in lock.unseen and f"hash from public locks, file not seen: {TORCH}" in lock.files()["origin"]
    assert "127.0.0.1" not in "".join(lock.files().values()), "the lock does not contain the local address"
    assert read_lock(lock.files()) == lock
    target.__dict__["lock"] = lock
    assert {severity for message, severity in codes(target).items() if TORCH in message} == {"info"}
    stated, sources = _stated(TORCH)
    one = edit("wheels/torch.yaml", stated + sources, f"{stated}    - 'one/source:uv.lock'\n")
    target = environment(load(one, everything=True), X86)
    target.__dict__["lock"] = lock
    assert (
        codes(target)[f"the hash of {TORCH} has one public source; its index was out of reach when the row was locked"]
        == "warning"
    )


def _stated(file: str) -> tuple[str, str]:
    """Return the lines of a file with its hash, and those of its sources."""
    text = (paths.matrices() / "wheels" / "torch.yaml").read_text(encoding="utf-8")
    found = re.search(rf"(  - file: {re.escape(file)}\n.*\n    sources:\n)((?:    - .*\n)+)", text)
    assert found
    return found[1], found[2]


def test_a_file_without_a_known_hash_is_named(edit: Edit) -> None:
    text = "  - file: torchvision-0.23.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl\n"
    edit("wheels/torchvision.yaml", text, text.replace("cp311-cp311", "cp313-cp313"))
    with pytest.raises(NetworkError, match=rf"needs torchvision 0\.23\.0\+cpu for Python 3\.11 from {OUT_OF_REACH}"):
        make_lock(at(edit, OUT_OF_REACH), INDEX)


def test_an_index_that_disagrees_is_an_error(edit: Edit, matrix: Matrix) -> None:
    """The index answers and has another file under a known name."""
    with served({name.replace("_", "-"): item for name, item in matrix.known_wheels.items()}) as addresses:
        target = at(edit, addresses[OFFICIAL])
        assert make_lock(target, INDEX).unseen == (), "an index that answers is used"
        edit("wheels/torch.yaml", known_hash(matrix), "0" * 64)
        with pytest.raises(LockError, match=f"{re.escape(TORCH)} on the index differs"):
            make_lock(at_again(edit), INDEX)


def at_again(edit: Edit) -> Environment:
    return environment(load(edit("wheels/torch.yaml", "source:", "source:"), everything=True), X86)


def test_a_lock_with_another_hash_than_the_facts_is_wrong(edit: Edit, matrix: Matrix) -> None:
    lock = make_lock(at(edit, OUT_OF_REACH), INDEX)
    edit("wheels/torch.yaml", known_hash(matrix), "0" * 64)
    target = at_again(edit)
    target.__dict__["lock"] = lock
    assert codes(target)[f"the lock has another hash of {TORCH} than the matrices"] == "error"
