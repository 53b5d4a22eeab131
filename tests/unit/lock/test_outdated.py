"""Releases on an index that are newer than the matrices, and adding them without changing the rest of a file."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from envbuilder import versions
from envbuilder.lock.index import Index
from envbuilder.lock.outdated import Newer, allowed_upgrades, newer_releases, tagged_releases, write_candidates
from envbuilder.matrix import Matrix, load
from envbuilder.matrix.model import Component
from tests.conftest import A2_VLLM, Edit, environment
from tests.helpers.repositories import git, make_bare, repository


class _Index:
    def __init__(self, **found: list[str]) -> None:
        self.found = found

    def versions(self, distribution: str) -> list[str]:
        return self.found.get(distribution.replace("-", "_"), [])


def index(**found: list[str]) -> Index:
    return cast(Index, _Index(**found))


def test_only_newer_final_releases_are_reported(matrix: Matrix) -> None:
    newest = max((release.version for release in matrix.components["verl"].releases), key=versions.key)
    on_index = ["0.5.0", versions.public(newest), "99.0.0", "99.1.0.dev1"]
    found = list(newer_releases(matrix, index(verl=on_index, torch_npu=["2.5.1"])))
    assert found == [Newer("verl", newest, ("99.0.0",))]


def test_a_fork_is_not_compared_with_the_original(matrix: Matrix) -> None:
    assert list(newer_releases(matrix, index(openrlhf=["99.0"]))) == []


def test_upgrades_that_a_row_allows(edit: Edit) -> None:
    folder = edit(
        "frameworks/verl/v0.7.0.yaml",
        ", because: 'the version that later releases of this image have as their upper bound; no newer one was tried with this release'",
        "",
    )
    row = environment(load(folder, everything=True), "verl-v0.7.0-vllm-cpu-aarch64")
    (found,) = allowed_upgrades([row], index(ray=["2.48.0", "2.49.0rc1", "2.60.0"]))
    assert (found.package, found.pinned, found.newest) == ("ray", "2.48.0", "2.60.0")


def test_pins_with_a_reason_are_not_upgraded(matrix: Matrix) -> None:
    assert list(allowed_upgrades([environment(matrix, A2_VLLM)], index(pybind11=["3.0.0"], numpy=["1.27.0"]))) == []


def test_a_repair_of_an_older_series_is_reported_and_an_unlisted_series_is_not(matrix: Matrix) -> None:
    on_index = ["1.9.0", "2.10.0.post4", "2.10.0.post99"]
    (found,) = newer_releases(matrix, index(torch_npu=on_index))
    assert found.newer == ("2.10.0.post99",)


def test_a_candidate_stands_behind_the_releases_before_it(edit: Edit) -> None:
    folder = edit("compat/verl.yaml", "title: verl", "title: verl  # a remark")
    assert write_candidates(folder, load(folder, everything=True), Newer("verl", "v0.9.0", ("0.7.99",)))
    changed = [release.version for release in load(folder, everything=True).components["verl"].releases]
    assert changed == sorted(changed, key=versions.key)
    assert "v0.7.99" in changed


def test_candidates_are_appended_and_the_rest_is_unchanged(edit: Edit) -> None:
    folder = edit("compat/verl.yaml", "title: verl", "title: verl  # a remark")
    path = folder / "compat" / "verl.yaml"
    before = path.read_text()
    assert write_candidates(folder, load(folder, everything=True), Newer("verl", "v0.9.0", ("99.9.1", "99.10.0")))
    after = path.read_text()
    assert after.startswith(before)
    changed = load(folder, everything=True).components["verl"].releases
    assert [(item.version, item.status) for item in changed[-2:]] == [
        ("v99.9.1", "candidate"),
        ("v99.10.0", "candidate"),
    ]


def test_an_overlay_gets_the_whole_table(tmp_path: Path, matrix: Matrix) -> None:
    """A folder without a table of the component gets the built-in one with the candidate added."""
    assert write_candidates(tmp_path, matrix, Newer("torch_npu", "2.13.0", ("99.0.0",)))
    (tmp_path / "hardware").mkdir()
    changed = load(tmp_path, everything=True).components["torch_npu"].releases
    assert len(changed) == len(matrix.components["torch_npu"].releases) + 1
    assert (changed[-1].version, changed[-1].status) == ("99.0.0", "candidate")


def test_an_empty_index_gives_no_newer_releases(matrix: Matrix) -> None:
    assert list(newer_releases(matrix, index())) == []


def test_a_candidate_counts_as_unknown_and_is_not_added_twice(edit: Edit) -> None:
    folder = edit("compat/sglang.yaml", "title: SGLang", "title: SGLang  # a remark")
    path = folder / "compat" / "sglang.yaml"
    path.write_text(path.read_text().rstrip("\n") + "\n- {version: v98.0.0, status: candidate}\n")
    matrix = load(folder, everything=True)
    (found,) = newer_releases(matrix, index(sglang=["98.0.0"]))
    assert found.newer == ("98.0.0",)
    assert not write_candidates(folder, matrix, found)


def test_a_release_of_a_framework_without_a_row_is_unknown(edit: Edit) -> None:
    folder = edit("compat/verl.yaml", "title: verl", "title: verl  # a remark")
    path = folder / "compat" / "verl.yaml"
    path.write_text(path.read_text().rstrip("\n") + f"\n- {{version: v98.0.0, commit: {'a' * 40}}}\n")
    (found,) = newer_releases(load(folder, everything=True), index(verl=["98.0.0"]))
    assert found.newer == ("98.0.0",)


def test_components_on_no_index_are_asked_for_at_their_repositories(matrix: Matrix, tmp_path: Path) -> None:
    folder = tmp_path / "Megatron-LM.git"
    repository(folder, {"x": ""})
    for tag in ("core_v0.12.0", "core_v98.0.0", "core_v98.1.0.dev1", "other-99.0.0", "v99"):
        git(folder, "tag", tag)
    make_bare(folder)
    git(folder, "pack-refs", "--all")

    def tagged(component: Component) -> list[str]:
        return tagged_releases(component, str(tmp_path)) if component.name == "megatron_lm" else []

    (found,) = newer_releases(matrix, index(), tagged)
    assert (found.component, found.newer) == ("megatron_lm", ("98.0.0",))


def test_branches_are_the_releases_of_a_component_that_says_so(matrix: Matrix, tmp_path: Path) -> None:
    folder = tmp_path / "MindSpeed.git"
    repository(folder, {"x": ""})
    git(folder, "branch", "core_r98.0.0")
    git(folder, "tag", "core_r99.0.0")
    assert tagged_releases(matrix.components["mindspeed"], str(tmp_path)) == ["98.0.0"]
