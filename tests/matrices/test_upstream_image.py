"""Our image of the newest release has everything of upstream's Dockerfile, or a reason for its absence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from envbuilder.matrix import Matrix
from envbuilder.plan import make_plan
from envbuilder.render import render_dockerfile
from envbuilder.requirements import normalize
from tests.conftest import environment

DATA: dict[str, Any] = yaml.safe_load((Path(__file__).with_name("upstream_image.yaml")).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def lacking(matrix: Matrix) -> set[str]:
    """Return what is in upstream's image and not in ours."""
    row = environment(matrix, DATA["environment"])
    plan = make_plan(row)
    assert row.lock is not None
    packages = {normalize(name) for name in row.lock.versions}
    return {
        *(set(DATA["system_packages"]) - set(plan.system_packages)),
        *(name for name in DATA["packages"] if normalize(name) not in packages),
        *(set(DATA["components"]) - set(plan.components)),
    }


def test_what_upstream_installs_is_in_the_image_or_has_a_reason(lacking: set[str]) -> None:
    assert lacking == set(DATA["reasons"]), "a reason that is not needed any more is wrong too"


def test_the_base_and_the_steps_are_those_of_upstream(matrix: Matrix) -> None:
    row = environment(matrix, DATA["environment"])
    assert row.base_image.endswith(f":{DATA['base']}")
    text = render_dockerfile(make_plan(row))
    for name, value in DATA["variables"].items():
        assert f"{name}={value}" in text
    for component, patched in DATA["patches"].items():
        assert patched in text, component
    for component, documented in DATA["components"].items():
        pin = row.pins[component]
        same = pin.version.removesuffix(".post1") == documented
        assert same or pin.because or component == row.framework.component, (
            f"{component} {pin.version}, not {documented}"
        )
