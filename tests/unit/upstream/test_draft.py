"""Drafts of miniature releases: what binds, what agrees, what a rule without files does."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from envbuilder.errors import NoMatchError
from envbuilder.matrix import Matrix
from envbuilder.upstream.draft import Drafted, Sources, UnagreedError, draft
from envbuilder.upstream.readers import MissingFileError, RowTarget, UnreadableFileError
from envbuilder.upstream.references import Repositories
from envbuilder.upstream.tree import ArchiveTree
from tests.helpers.repositories import git, repository
from tests.helpers.upstream import DOCUMENT, INDEX, SETUP, TAG, Days, dated, mirror, tagged

DOCUMENT_PATH = "docs/ascend_tutorial/get_start/install_guidance.rst"


def made(matrix: Matrix, folder: Path, index: Days = INDEX, **by_hand: str) -> Drafted:
    target = RowTarget("verl", TAG, "vllm", "a2")
    return draft(matrix, target, Sources(index, str(folder), folder / "kept"), by_hand)


def test_a_draft(matrix: Matrix, tmp_path: Path) -> None:
    drafted = made(matrix, mirror(tmp_path))
    chosen = {name: (pin.version, pin.status) for name, pin in drafted.pins.items()}
    assert chosen == {
        "verl": (TAG, "stated"), "cann": ("9.0.0", "stated"), "python": ("3.11", "stated"), "vllm": ("98.0.0", "stated"),
        "vllm_ascend": ("98.0.0", "stated"), "hdk": ("26.0.RC1", "stated"), "torch": ("2.9.0", "stated"),
        "torch_npu": ("2.9.0.post2", "paired"), "torchvision": ("0.24.0", "paired"), "triton_ascend": ("3.2.1", "paired"),
        "transformers": ("4.57.6", "guessed"), "tensordict": ("0.10.0", "guessed"), "ray": ("2.48.0", "guessed"),
        "opencv_python_headless": ("4.11.0.86", "guessed"),
    }  # fmt: skip
    assert drafted.pins["cann"].clean
    assert drafted.pins["torch"].place.endswith(f":{DOCUMENT_PATH}#L10")
    assert drafted.tree.date == "2026-09-01"
    assert drafted.until == "2026-09-11"


def test_the_metadata_of_a_package_binds_against_a_document(matrix: Matrix, tmp_path: Path) -> None:
    pin = made(matrix, mirror(tmp_path)).pins["transformers"]
    assert pin.place.endswith("requirements/common.txt#L1")
    (against,) = pin.contradictions
    assert against.startswith("document says 5.3.0 (verl-project/verl@")
    assert against.endswith(f":{DOCUMENT_PATH}#L13)")


def test_requirements_that_exclude_each_other_are_undecided(matrix: Matrix, tmp_path: Path) -> None:
    folder = mirror(tmp_path, {"setup.py": SETUP.replace('"transformers"', '"transformers>=5"')})
    pin = made(matrix, folder).pins["transformers"]
    assert (pin.version, pin.status) == ("5.3.0", "undecided")
    assert pin.because == "no release meets all of: <5,>=4.56.0, >=4.57.4, >=5"


def test_a_rule_without_its_files_is_an_error(matrix: Matrix, tmp_path: Path) -> None:
    folder = mirror(tmp_path, {DOCUMENT_PATH: None})
    with pytest.raises(MissingFileError, match="has no file of the rule 'document'") as caught:
        made(matrix, folder)
    assert caught.value.where is not None
    assert caught.value.where.file.endswith("frameworks/verl.yaml")


def test_a_file_of_another_form_is_an_error(matrix: Matrix, tmp_path: Path) -> None:
    folder = mirror(tmp_path, {"setup.py": "install_requires = [\n"})
    with pytest.raises(UnreadableFileError, match=r":setup\.py cannot be read as setup"):
        made(matrix, folder)


def test_files_of_two_stacks_are_refused_unless_a_person_chooses(matrix: Matrix, tmp_path: Path) -> None:
    base = "FROM quay.io/ascend/cann:8.5.1-910b-ubuntu22.04-py3.11\n"
    folder = mirror(tmp_path, plugin={"Dockerfile": base})
    with pytest.raises(UnagreedError, match=r"CANN 9\.0\.0 .*whose image is for CANN 8\.5\.1") as caught:
        made(matrix, folder)
    assert caught.value.hint == "choose one of them: --pin cann=9.0.0 or --pin cann=8.5.1"
    assert made(matrix, folder, cann="8.5.1").pins["cann"].version == "8.5.1"


def test_the_branch_of_a_plugin_can_be_for_another_toolkit_than_its_tag(matrix: Matrix, tmp_path: Path) -> None:
    base = "FROM quay.io/ascend/cann:{}-910b-ubuntu22.04-py3.11\n"
    folder = mirror(tmp_path, plugin={"Dockerfile": base.format("8.5.1")})
    work = tmp_path / "work"
    git(tmp_path, "clone", "-q", str(folder / "vllm-ascend.git"), str(work))
    git(work, "checkout", "-q", "-b", "releases/v98.0.0")
    (work / "Dockerfile").write_text(base.format("9.0.0"))
    with dated("2026-08-31T12:00:00Z"):
        git(work, "commit", "-qam", "x")
    git(work, "push", "-q", "origin", "releases/v98.0.0")
    pin = made(matrix, folder).pins["vllm_ascend"]
    assert (pin.version, pin.commit) == ("98.0.1.dev1", git(work, "rev-parse", "HEAD"))
    assert "98.0.0 is for 8.5.1, 98.0.1.dev1 for 9.0.0 as the row" in pin.contradictions


def test_the_newest_image_at_the_tag_decides_on_the_toolkit(matrix: Matrix, tmp_path: Path) -> None:
    folder = mirror(tmp_path, {DOCUMENT_PATH: DOCUMENT.replace("CANN            9.0.0", "CANN            8.5.0")})
    pin = made(matrix, folder).pins["cann"]
    assert pin.version == "9.0.0"
    assert pin.place.endswith("docker/ascend/Dockerfile.ascend_9.0.0_a2#L1")
    assert not pin.clean


def test_a_build_on_no_index_comes_after_one_that_is(matrix: Matrix, tmp_path: Path) -> None:
    older = DOCUMENT.replace("torch           2.9.0", "torch           2.9.0.dev20251113")
    folder = mirror(tmp_path, {DOCUMENT_PATH: older}, plugin={"requirements.txt": "torch>=2.8\n"})
    script = "pip install torch==2.9.0\n"
    folder = mirror(tmp_path / "b", {DOCUMENT_PATH: older, "scripts/install_vllm_mcore_npu.sh": script},
                    plugin={"requirements.txt": "torch>=2.8\n"})  # fmt: skip
    pin = made(matrix, folder).pins["torch"]
    assert pin.version == "2.9.0"
    assert any("2.9.0.dev20251113" in text for text in pin.contradictions)


def test_a_stale_document_is_marked(matrix: Matrix, tmp_path: Path) -> None:
    folder = mirror(tmp_path, {DOCUMENT_PATH: "Last updated: 06/01/2026.\n\n" + DOCUMENT})
    assert made(matrix, folder).notes == ("document: last updated 92 days before the release",)


def test_a_release_without_a_tag_is_read_from_its_archive(matrix: Matrix, tmp_path: Path) -> None:
    folder = mirror(tmp_path, tag="v97.0.0")
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        text = SETUP.replace('"numpy"', '"numpy<2"').encode()
        member = tarfile.TarInfo("verl-97.1.0/setup.py")
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text))
    index = Days(ArchiveTree("pypi/verl@97.1.0", "2026-09-05", content.getvalue()))
    drafted = made(matrix, folder, index)
    assert drafted.tree.label == "pypi/verl@97.1.0"
    # the document is not in the archive
    assert drafted.pins["cann"].place.startswith("verl-project/verl@")
    assert drafted.notes[0].startswith(f"no commit of {TAG} is published")


def test_an_unknown_release_names_the_newest(matrix: Matrix, tmp_path: Path) -> None:
    folder = mirror(tmp_path, tag="v96.0.0")
    with pytest.raises(NoMatchError, match=f"has no release {TAG}") as caught:
        made(matrix, folder)
    assert caught.value.hint == "its newest tags: v96.0.0"


@pytest.fixture
def training(matrix: Matrix, tmp_path: Path) -> Repositories:
    """A repository whose branch goes on after the release, with a file that states its version."""
    tagged(tmp_path / "MindSpeed.git", {"setup.py": "__version__ = '0.16.0'\n"})
    work = tmp_path / "work"
    git(tmp_path, "clone", "-q", str(tmp_path / "MindSpeed.git"), str(work))
    git(work, "checkout", "-q", "-b", "core_r0.16.0")
    (work / "later").write_text("")
    with dated("2026-10-01T12:00:00Z"):
        git(work, "add", ".")
        git(work, "commit", "-qm", "x")
    git(work, "push", "-q", "origin", "core_r0.16.0")
    return Repositories(matrix.components, str(tmp_path), tmp_path / "kept")


@pytest.mark.parametrize(("day", "version"), [("2026-09-15", "0.16.0.20260901"), ("2026-10-02", "0.16.0.20261001")])
def test_a_branch_is_taken_at_the_day_of_the_release(training: Repositories, day: str, version: str) -> None:
    revision = training.revision("mindspeed", "core_r0.16.0", day)
    assert revision is not None
    assert revision.version == version
    assert training.revision("mindspeed", "core_r9", day) is None


def test_a_repository_at_a_host_is_copied_once(matrix: Matrix, tmp_path: Path) -> None:
    commit = repository(tmp_path / "hosts" / "x" / "MindSpeed", {"setup.py": "__version__ = '1.0'\n"})
    component = matrix.components["mindspeed"].changed(repository=(tmp_path / "hosts/x/MindSpeed").as_uri())
    for _ in range(2):
        repositories = Repositories({"mindspeed": component}, None, tmp_path / "kept")
        assert repositories.revision("mindspeed", commit, "2026-09-15") is not None
    assert (tmp_path / "kept").is_dir()
