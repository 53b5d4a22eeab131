"""The committed matrices and everything generated from them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml

from envbuilder import versions
from envbuilder.check import check_environment, check_matrix
from envbuilder.environment import Catalog, resolve
from envbuilder.environment.coordinates import environments
from envbuilder.matrix import Matrix
from envbuilder.matrix.schema import KINDS, schema

ROOT = Path(__file__).resolve().parents[2]


def test_no_error_and_every_warning_explained(matrix: Matrix) -> None:
    assert check_matrix(matrix) == []
    for coordinates in environments(matrix):
        environment = resolve(matrix, coordinates)
        for finding in check_environment(environment):
            # a hash from only one public lock file can only be reported
            is_said = finding.code == "file-not-seen" and "has one public source" in finding.message
            assert finding.severity not in {"error", "warning"} or is_said, finding
            assert finding.severity != "accepted" or "the row says: " in str(finding.hint)


def test_every_commit_is_full_and_every_table_has_a_source(matrix: Matrix) -> None:
    for component in matrix.components.values():
        assert component.source
        if component.kind == "git":
            for release in component.releases:
                assert release.fixed or release.status == "candidate", f"{component.name} {release.version}"


@pytest.mark.parametrize("kind", KINDS)
def test_the_schemas_are_current(kind: str) -> None:
    committed = json.loads((ROOT / "matrices" / "schema" / f"{kind}.json").read_text(encoding="utf-8"))
    assert committed == schema(kind), "run `make generate`"


FILES = {
    "matrix": ["matrix.yaml"],
    "chips": ["chips.yaml"],
    "hardware": ["hardware/*.yaml"],
    "compat": ["compat/*.yaml"],
    "engine": ["engines/*.yaml"],
    "framework": ["frameworks/*.yaml"],
    "branch": ["frameworks/*/*.yaml"],
    "evidence": ["evidence/*/*.yaml"],
    "smoke": ["smoke/*.yaml"],
    "recipe": ["recipes/*.yaml"],
    "host": ["host.yaml"],
    "symptoms": ["symptoms.yaml"],
    "wheels": ["wheels/*.yaml"],
}


def test_every_file_has_exactly_one_schema(matrix: Matrix) -> None:
    assert set(FILES) == set(KINDS)
    found = [path for patterns in FILES.values() for pattern in patterns for path in (ROOT / "matrices").glob(pattern)]
    assert sorted(found) == sorted(file.path for file in matrix.files.values())


@pytest.mark.parametrize("kind", FILES)
def test_the_matrices_meet_their_schema(kind: str) -> None:
    """The schemas, which editors use, accept every file that the loader accepts."""
    validator = jsonschema.Draft202012Validator(schema(kind))
    paths = [path for pattern in FILES[kind] for path in (ROOT / "matrices").glob(pattern)]
    assert paths
    for path in paths:
        document = _text_dates(yaml.safe_load(path.read_text(encoding="utf-8")))
        assert [error.message for error in validator.iter_errors(document)] == [], path


def test_the_schema_refuses_what_the_loader_refuses() -> None:
    validator = jsonschema.Draft202012Validator(schema("hardware"))
    document = yaml.safe_load((ROOT / "matrices/hardware/cpu.yaml").read_text(encoding="utf-8"))
    assert not list(validator.iter_errors(document))
    assert list(validator.iter_errors({**document, "colour": "red"}))
    assert list(validator.iter_errors({key: value for key, value in document.items() if key != "title"}))


def _text_dates(value: object) -> object:
    if isinstance(value, dict):
        return {str(key): _text_dates(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_text_dates(item) for item in value]
    return value if isinstance(value, (str, int, float, bool)) else str(value)


def test_the_generated_documents_are_current() -> None:
    result = subprocess.run(
        [sys.executable, "tools/generate.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_build_packages_of_an_older_python_are_complete(matrix: Matrix) -> None:
    """setuptools-scm reads its settings by tomli before Python 3.11, and builds have no index to get it from."""
    for item in Catalog(matrix).environments:
        if item.lock is not None and versions.key(item.packages.python) < versions.key("3.11"):
            build = item.lock.files()["build"]
            assert ("setuptools-scm==" in build) <= ("tomli==" in build), item.id


def test_a_base_image_made_here_has_the_system_packages_of_its_rows(matrix: Matrix) -> None:
    """An image of CANN has them too; otherwise every build after a pruned cache downloads them again."""
    own = [item for item in Catalog(matrix).environments if item.hardware.local_base]
    assert own
    for item in own:
        base = item.hardware.local_base
        assert base and set(item.lists["system_packages"].values) <= set(base.packages), item.id
