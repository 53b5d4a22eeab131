"""What goes with a release of a component."""

from __future__ import annotations

import pytest

from envbuilder.environment import Catalog
from envbuilder.environment.partners import component_named, is_of, partners
from envbuilder.errors import NoMatchError
from envbuilder.matrix import Matrix
from tests.conftest import run


@pytest.fixture(scope="module")
def catalog(matrix: Matrix) -> Catalog:
    return Catalog(matrix)


def test_partners_are_found_in_both_directions(catalog: Catalog) -> None:
    """The table of torch_npu names CANN; that of CANN names no torch_npu."""
    (npu,) = partners(catalog, component_named(catalog, "torch-npu"), "2.8.0")
    assert npu.release.paired["cann"] == ("8.3.RC1",)
    (cann,) = partners(catalog, component_named(catalog, "cann"), "8.3.RC1")
    assert "2.8.0" in cann.named_by["torch_npu"] and "torch_npu" not in cann.release.paired
    pinned = {where.id for where in npu.environments}
    assert pinned == {item.id for item in catalog.environments if item.version("torch_npu") == "2.8.0"} and pinned


@pytest.mark.parametrize(
    ("version", "wanted", "found"),
    [
        ("2.8.0.post2", "2.8", True),
        ("2.8.0.post2", "2.8.0", False),
        ("v0.13.0", "0.13.0", True),
        ("2.10.0", "2.1", False),
        ("8.3.RC1", "8.3.rc1", True),
    ],
)
def test_a_series_and_a_release(version: str, wanted: str, found: bool) -> None:
    assert is_of(version, wanted) is found


def test_an_unknown_name_or_version_has_the_nearest(catalog: Catalog) -> None:
    with pytest.raises(NoMatchError) as caught:
        component_named(catalog, "torchnpu")
    assert str(caught.value.hint).startswith("did you mean 'torch_npu'?")
    with pytest.raises(NoMatchError, match="it does not exist") as caught:
        partners(catalog, component_named(catalog, "torch_npu"), "2.8.7")
    assert "2.8.0.post5" in str(caught.value.hint)


def test_the_commands() -> None:
    one = run("compat", "torch_npu", "2.8.0")
    assert one.returncode == 0 and "published with  PyTorch 2.8.0; CANN 8.3.RC1" in one.stdout
    assert "verl v0.7.1 sglang (a2, a3, cpu)" in " ".join(one.stdout.split()) and "https://" in one.stdout
    series = run("compat", "torch_npu", "2.8", "--markdown").stdout
    assert series.startswith("| torch_npu |") and "`2.8.0.post2`" in series
    listed = run("list", "--with", "vllm_ascend=0.13.0", "--hw", "a3").stdout.split()
    assert listed == ["verl-v0.7.1-vllm-a3-aarch64", "verl-v0.7.1-vllm-a3-x86_64"]
    none = run("list", "--with", "vllm-ascend=0.12")
    assert (none.returncode, none.stdout) == (4, "") and "they have: v0.7.3" in none.stderr
    assert run("list", "--with", "torch").returncode == 2
    why = run("show", "verl-v0.8.0-vllm-a3-aarch64", "--why", "vllm_ascend").stdout
    assert (
        "documented  0.18.0" in why and "because     the table is" in why and "source      https://github.com/" in why
    )
    markdown = run("show", "verl-v0.8.0-vllm-a3-aarch64", "--markdown").stdout
    assert (
        "| `torch_npu` | `2.9.0.post2` |" in markdown and "$ envbuilder build verl-v0.8.0-vllm-a3-aarch64" in markdown
    )


def test_a_printed_command_repeats_what_was_tried() -> None:
    shown = run("show", "verl-v0.8.0-vllm-a3-aarch64", "--pin", "torch=2.6.0").stderr.strip().splitlines()[-1]
    counts, _, command = shown.partition(": envbuilder ")
    assert "--pin torch=2.6.0" in command and not counts.startswith("0 errors")
    assert run(*command.split()).returncode == 3
