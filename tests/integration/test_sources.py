"""`check --sources` on real source archives."""

from __future__ import annotations

import pytest

from tests.conftest import A3_SGLANG, run, succeeded

# the kernels are in no package index
REACHABLE = ("--sources", "--source", "sdist")


def test_the_rollout_imports_what_its_engine_has() -> None:
    result = succeeded(run("check", A3_SGLANG, *REACHABLE))
    assert "imports not checked: sgl-kernel-npu" in result.stderr
    assert "import-missing" not in result.stdout


def test_the_release_of_the_engine_that_the_rollout_does_not_fit() -> None:
    """verl v0.6.0 imports a function that SGLang v0.5.3 no longer has."""
    result = run("check", A3_SGLANG, "--pin", "sglang=v0.5.3", *REACHABLE)
    assert result.returncode == 3, result.stderr
    assert "verl v0.6.0 imports get_ip of sglang.srt.utils, which SGLang v0.5.3 does not have" in result.stdout


@pytest.mark.extended
def test_every_row_imports_what_its_sources_have() -> None:
    result = run("check", *REACHABLE)
    assert result.returncode == 0, result.stdout
    assert "error" not in result.stdout
