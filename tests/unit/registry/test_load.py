"""Loading an image from a file: with the signatures that its name needs, which travel in the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from envbuilder.cli.console import Console
from envbuilder.cli.progress import Lines
from envbuilder.environment.image_names import ENVIRONMENT
from envbuilder.errors import ValidationError
from envbuilder.matrix import Matrix
from envbuilder.registry.archive import trusted_image
from envbuilder.registry.client import Registry
from envbuilder.registry.reference import Reference
from envbuilder.registry.signatures import sign
from envbuilder.registry.trust import Trust, TrustedKey
from envbuilder.signing.keys import make_keys, read_private, read_public
from tests.conftest import A2_VLLM, environment, run, succeeded
from tests.helpers.registry_in_memory import in_memory, published

SILENT = Lines(Console(-2))


@pytest.fixture
def keys(tmp_path: Path) -> dict[str, Path]:
    for name in ("team", "other"):
        for end, content in zip(("key", "pub"), make_keys(b"x"), strict=True):
            (tmp_path / f"{name}.{end}").write_bytes(content)
    return {name: tmp_path / f"{name}.pub" for name in ("team", "other")}


def saved(matrix: Matrix, folder: Path, key: Path | None) -> tuple[Path, Reference]:
    """Return a file of `pull --save`, whose image the key has signed."""
    row = environment(matrix, A2_VLLM)
    with in_memory() as (host, _):
        name = Reference.parse(row.image_name(f"{host}/team"))
        published(host, name.wanted, config={"Labels": {ENVIRONMENT: row.id}})
        if key is not None:
            registry = Registry(host, back_off=0)
            image = registry.manifest(name.repository, name.wanted)
            sign(registry, name, image, read_private(key.with_suffix(".key"), b"x"))
        succeeded(run("pull", A2_VLLM, "--registry", f"{host}/team", "--save", str(folder / "x.tar")))
    return folder / "x.tar", name


def trust(name: Reference, key: Path) -> Trust:
    return Trust((TrustedKey(name.registry, read_public(key)),))


def test_a_signed_file_is_accepted_and_only_by_its_key(matrix: Matrix, tmp_path: Path, keys: dict[str, Path]) -> None:
    archive, name = saved(matrix, tmp_path, keys["team"])
    for trusted in (trust(name, keys["team"]), Trust()):
        assert trusted_image(archive, trusted, SILENT).name == str(name)
    with pytest.raises(ValidationError, match=r"none of the signatures of .*x\.tar"):
        trusted_image(archive, trust(name, keys["other"]), SILENT)
    with pytest.raises(ValidationError, match="no key that verify-key gives is for"):
        trusted_image(archive, trust(Reference.parse("registry.example.com/x"), keys["team"]), SILENT)


def test_a_file_without_a_signature_is_refused(matrix: Matrix, tmp_path: Path, keys: dict[str, Path]) -> None:
    archive, name = saved(matrix, tmp_path, None)
    with pytest.raises(ValidationError, match="has no signature") as raised:
        trusted_image(archive, trust(name, keys["team"]), SILENT)
    assert raised.value.hint == "nothing was loaded"


def test_the_command_obeys_the_setting(matrix: Matrix, tmp_path: Path, keys: dict[str, Path]) -> None:
    archive, name = saved(matrix, tmp_path, None)
    nowhere = {"DOCKER_HOST": "tcp://127.0.0.1:9", "CONTAINER_HOST": "tcp://127.0.0.1:9"}
    config = {"XDG_CONFIG_HOME": str(tmp_path), **nowhere}
    assert run("load", str(archive), **config).returncode == 5, "only the engine is missing"
    succeeded(run("config", "set", "verify-key", f"{name.registry}={keys['team']}", **config))
    result = run("load", str(archive), **config)
    assert result.returncode == 6 and "has no signature" in result.stderr
    assert run("load", str(archive), "--verify-key", f"registry.example.com={keys['team']}", **config).returncode == 6
    elsewhere = ("--verify-key", f"registry.example.com={keys['team']}", "--allow-unsigned")
    assert run("load", str(archive), *elsewhere, **config).returncode == 5
