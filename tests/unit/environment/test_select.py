"""Selection of environments by identifiers, globs, dimensions and defaults, and the errors without a match."""

from __future__ import annotations

from pathlib import Path

import pytest

from envbuilder.environment import Filters, resolve
from envbuilder.environment.coordinates import environments
from envbuilder.environment.select import pick, rank, select
from envbuilder.errors import NoMatchError, UsageError
from envbuilder.matrix import Matrix, evidence, load
from envbuilder.plan import make_plan
from tests.conftest import A3_SGLANG, environment, findings
from tests.helpers.releases import invent, lock, rehearse


def test_hardware_and_engine_select_a_proven_row(matrix: Matrix) -> None:
    """The options of the examples in the README select a row without errors."""
    chosen = pick(matrix, filters=Filters(hardware="atlas-800t-a3", engine="sglang"))
    assert chosen.engine == "sglang" and chosen.hardware == "a3" and environment(matrix, chosen.id).lock is not None
    alike = select(matrix, (), Filters(hardware="atlas-800t-a3", engine="sglang", arch=chosen.arch))
    assert rank(matrix, chosen) == max(rank(matrix, item) for item in alike), "proven before newer"
    assert not [item for item in findings(matrix, chosen.id) if item.severity == "error"]


def test_defaults_fill_in_missing_dimensions(matrix: Matrix) -> None:
    chosen = pick(matrix)
    assert (chosen.framework, chosen.engine, chosen.hardware) == ("verl", "vllm", "cpu")
    assert chosen.arch == next(iter(matrix.hardware["cpu"].arches))


def test_the_default_is_the_newest_row_with_the_best_proof(tmp_path: Path) -> None:
    """A proven row, else a locked one, else the newest: v99.10.0 is newer than v99.9.0."""
    invent(tmp_path, "v99.9.0", "v99.10.0", "v99.11.0")
    assert default_of(tmp_path) == "v99.11.0"
    lock(tmp_path, "v99.9.0")
    lock(tmp_path, "v99.10.0")
    evidence.record(tmp_path, "openrlhf/v99.9.0/vllm-a2-aarch64", "built")
    assert default_of(tmp_path) == "v99.10.0"
    rehearse(tmp_path, "v99.9.0")
    assert default_of(tmp_path) == "v99.9.0"


def test_a_default_without_a_proof_goes_by_that_of_the_other_architecture(tmp_path: Path) -> None:
    invent(tmp_path, "v99.8.0", "v99.9.0", "v99.10.0")
    for branch in ("v99.8.0", "v99.9.0", "v99.10.0"):
        lock(tmp_path, branch)
    rehearse(tmp_path, "v99.9.0", "x86_64", depth="import")
    assert default_of(tmp_path) == "v99.10.0", "imports are not a training"
    rehearse(tmp_path, "v99.9.0", "x86_64")
    assert default_of(tmp_path) == "v99.9.0"
    rehearse(tmp_path, "v99.8.0")
    assert default_of(tmp_path) == "v99.8.0", "its own proof comes before that of another architecture"


def default_of(matrices: Path) -> str:
    filters = Filters("openrlhf", "v99.*", hardware="a2", arch="aarch64")
    return pick(load(matrices), filters=filters).branch


def test_every_product_has_the_rows_of_its_family(matrix: Matrix) -> None:
    for name, hardware in matrix.hardware.items():
        for product, spec in hardware.products.items():
            found = select(matrix, filters=Filters(hardware=product))
            assert {item.product for item in found} == {product}
            assert {item.arch for item in found} == set(spec.arches or hardware.arches)
            own = [item for item in environments(matrix) if item.hardware == name and item.arch == found[0].arch]
            assert [item.id for item in found if item.arch == found[0].arch] == [item.id for item in own]
            assert environment(matrix, found[0].id).hardware.title == hardware.title, "an identifier names no product"
            named = resolve(matrix, found[0])
            assert (named.hardware.title, named.hardware.devices) == (spec.title, spec.devices or hardware.devices)
            assert make_plan(named).labels == make_plan(environment(matrix, found[0].id)).labels, "all have one image"


@pytest.mark.parametrize(
    ("wanted", "hardware"), [("a2", "a2"), ("A3", "a3"), ("910B", "a2"), ("910c", "a3"), ("Atlas 800I A3", "a3")]
)
def test_names_of_a_family(matrix: Matrix, wanted: str, hardware: str) -> None:
    assert {item.hardware for item in select(matrix, filters=Filters(hardware=wanted))} == {hardware}


def test_an_identifier_may_name_a_product(matrix: Matrix) -> None:
    (chosen,) = select(matrix, ["verl-v0.6.0-sglang-atlas-800t-a3-aarch64"])
    assert (chosen.id, chosen.product) == (A3_SGLANG, "atlas-800t-a3")
    with pytest.raises(NoMatchError):
        select(matrix, ["verl-v0.6.0-sglang-atlas-800t-a3-x86_64"])


def test_hardware_in_the_spelling_of_the_vendor(matrix: Matrix) -> None:
    assert pick(matrix, filters=Filters(hardware="Atlas 800T A3", branch="v0.6.0")).id == A3_SGLANG


def test_globs_and_filters(matrix: Matrix) -> None:
    found = select(matrix, ["verl-*-vllm-*"], Filters(arch="x86_64"))
    assert found
    assert all(item.framework == "verl" and item.engine == "vllm" and item.arch == "x86_64" for item in found)
    assert select(matrix, [A3_SGLANG, A3_SGLANG]) == [pick(matrix, A3_SGLANG)]


def test_every_row_has_a_cpu_environment(matrix: Matrix) -> None:
    rows = {(item.framework, item.branch, item.engine) for item in environments(matrix)}
    cpu = {(item.framework, item.branch, item.engine) for item in environments(matrix) if item.hardware == "cpu"}
    assert rows == cpu


def test_an_unknown_identifier_has_the_nearest_as_hint(matrix: Matrix) -> None:
    with pytest.raises(NoMatchError) as caught:
        pick(matrix, "verl-v0.6.0-sglang-atlas-800t-a3")
    assert A3_SGLANG in str(caught.value.hint)


@pytest.mark.parametrize(
    ("filters", "message", "hint"),
    [
        (Filters(hardware="atlas-800t-a4"), "no environment has the hardware 'atlas-800t-a4'", "did you mean 'atlas-800t-a3'?"),
        (Filters(engine="vlm"), "no environment has the engine 'vlm'", "did you mean 'vllm'?"),
        (Filters(hardware="atlas-800t-a3", framework="openrlhf"), "no environment fits --framework openrlhf --hw atlas-800t-a3", "nearest: "),
    ],
)  # fmt: skip
def test_an_unknown_dimension_has_a_hint(matrix: Matrix, filters: Filters, message: str, hint: str) -> None:
    with pytest.raises(NoMatchError) as caught:
        pick(matrix, filters=filters)
    assert caught.value.message == message
    assert hint in str(caught.value.hint)


def test_a_glob_of_several_environments_is_refused(matrix: Matrix) -> None:
    count = sum(item.branch == "v0.6.0" for item in environments(matrix))
    with pytest.raises(UsageError, match=f"names {count} environments"):
        pick(matrix, "verl-v0.6.0-*")
