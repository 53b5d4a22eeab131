"""The bill of materials is valid by CycloneDX's schema, and lists the packages of the lock and the sources."""

from __future__ import annotations

import json
from pathlib import Path

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from envbuilder.build.bill_of_materials import bill_of_materials
from envbuilder.matrix import Matrix
from envbuilder.plan import SourceArchive
from tests.conftest import A3_SGLANG, environment


def bill(matrix: Matrix) -> str:
    found = environment(matrix, A3_SGLANG)
    sources = {
        "verl": SourceArchive("verl", "git", "c" * 40, Path("verl.tar.gz"), "d" * 64, 0, "."),
        "sglang": SourceArchive("sglang", "sdist", "0.5.3", Path("sglang.tar.gz"), "e" * 64, 1, "python"),
    }
    return bill_of_materials(found, sources, "quay.io/x:1", f"sha256:{'a' * 64}")


def test_the_bill_is_valid(matrix: Matrix) -> None:
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(bill(matrix)) is None


def test_the_bill_lists_every_locked_package_and_source(matrix: Matrix) -> None:
    parts = {item["name"]: item for item in json.loads(bill(matrix))["components"]}
    lock = environment(matrix, A3_SGLANG).lock
    assert lock is not None
    assert {name: parts[name]["version"] for name in lock.versions} == lock.versions
    for package in lock.packages:
        hashes = [item["content"] for item in parts[package.name].get("hashes", ())]
        assert hashes == (list(package.hashes) if len(package.hashes) == 1 else []), (
            "only the hash of the installed file is certain"
        )
    assert parts["transformers"]["hashes"]
    assert parts["verl"]["properties"][0]["value"] == "git:" + "c" * 40
    assert parts["sglang"]["properties"][0]["value"] == "sdist:0.5.3"
    assert parts["quay.io/x:1"]["version"] == "sha256:" + "a" * 64


def test_the_same_image_has_the_same_bill(matrix: Matrix) -> None:
    assert bill(matrix) == bill(matrix)
