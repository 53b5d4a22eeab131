"""Prebuilt images from a real registry: found, checked, pulled and saved, or refused."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envbuilder import platforms
from envbuilder.cli.console import Console
from envbuilder.cli.progress import Lines
from envbuilder.errors import NoMatchError
from envbuilder.matrix import Matrix
from envbuilder.registry.archive import verify
from envbuilder.registry.client import Registry
from envbuilder.registry.pull import RegistryOptions, choose_upstream
from tests.conftest import environment, succeeded
from tests.helpers.pulls import forget, pull, store
from tests.helpers.servers import Faults, faulty, registry
from tests.integration.conftest import SMALL, Toy, docker, make_image, run


@pytest.fixture
def absent(toy: Toy, published: str) -> str:
    """Remove the image and return its name."""
    forget(toy.image(published))
    return toy.image(published)


def test_an_image_is_pulled_by_digest(toy: Toy, published: str, absent: str) -> None:
    result = succeeded(pull(toy, published, "--json"))
    found = json.loads(result.stdout)
    assert found["image"] == absent and found["digest"].startswith("sha256:")
    there = json.loads(docker("image", "inspect", absent))[0]
    assert there["Id"] == found["id"]
    assert f"{absent.rpartition(':')[0]}@{found['digest']}" in there["RepoDigests"]
    assert "carries no proof" in result.stderr


def test_an_image_is_validated_after_the_pull(toy: Toy, published: str, absent: str) -> None:
    result = pull(toy, published, "--verify", "--json")
    found = json.loads(result.stdout)
    assert (result.returncode, found["validation"]["passed"]) == (0, True), result.stderr
    assert found["validation"]["image"] == absent
    assert {check["level"] for check in found["validation"]["checks"]} == {"static", "import", "train"}
    refused = pull(toy, published, "--verify", "--save", "image.tar")
    assert refused.returncode == 2 and "envbuilder load" in refused.stderr


def test_an_image_that_is_not_published(toy: Toy, published: str, tmp_path: Path) -> None:
    overlay = toy.matrices / "frameworks" / "toy" / "v2.yaml"
    overlay.write_text((toy.matrices / "frameworks" / "toy" / "v1.yaml").read_text().replace("Toy v1", "Toy v2"))
    try:
        other = toy.id.replace("-v1-", "-v2-")
        result = run("pull", other, "--matrices", str(toy.matrices), "--registry", published)
    finally:
        overlay.unlink()
    assert result.returncode == 4
    assert f"has no image of {other}" in result.stderr
    assert f"envbuilder build {other}; nearest published: {toy.id}" in result.stderr


def test_a_round_trip_through_a_file(toy: Toy, published: str, absent: str, tmp_path: Path) -> None:
    archive = tmp_path / "image.tar"
    succeeded(pull(toy, published, "--save", str(archive)))
    subprocess.run(["sha256sum", "--check", "--quiet", "image.tar.sha256"], cwd=tmp_path, check=True)
    assert docker("images", "-q", absent) == "", "nothing was handed to the engine"
    result = succeeded(run("load", str(archive)))
    assert result.stdout.strip() == absent
    wanted = Registry(published).manifest("toy", absent.rpartition(":")[2])
    assert wanted.digest in result.stderr, "the image has the digest that it has in the registry"
    assert json.loads(docker("image", "inspect", absent))[0]["Id"] == wanted.document["config"]["digest"]


@pytest.mark.parametrize("with_checksum", [True, False])
def test_a_file_that_was_changed_is_refused(
    toy: Toy, published: str, absent: str, tmp_path: Path, with_checksum: bool
) -> None:
    archive = tmp_path / "image.tar"
    assert pull(toy, published, "--save", str(archive)).returncode == 0
    if not with_checksum:
        (tmp_path / "image.tar.sha256").unlink()
    content = bytearray(archive.read_bytes())
    content[len(content) // 2] ^= 1
    archive.write_bytes(content)
    before = store()
    result = run("load", str(archive))
    assert result.returncode == 1
    assert ("does not have the checksum in" if with_checksum else "was changed: blobs/sha256/") in result.stderr
    assert store() == before


# --- mirrors and faults ----------------------------------------------------------------------------------


@pytest.fixture
def faults(published: str) -> Iterator[Faults]:
    with faulty(published) as found:
        yield found


def test_layers_come_from_a_mirror_that_agrees(toy: Toy, published: str, absent: str, faults: Faults) -> None:
    result = succeeded(pull(toy, published, "--mirror", "127.0.0.1:1", "--mirror", faults.address))
    assert "skipping the mirror 127.0.0.1:1" in result.stderr
    assert any("/blobs/" in line for line in faults.seen), "layers were requested from it"
    assert docker("images", "-q", absent)
    forget(f"{faults.address}/toy:x")


def test_a_file_is_saved_from_a_mirror(toy: Toy, published: str, faults: Faults, tmp_path: Path) -> None:
    archive = tmp_path / "image.tar"
    result = succeeded(pull(toy, "127.0.0.1:1", "--mirror", faults.address, "--save", str(archive)))
    assert "mirrors cannot be compared with it" in result.stderr
    assert any("/blobs/" in line for line in faults.seen)
    found = verify(archive)
    assert found.name == toy.image("127.0.0.1:1"), "the name is that of the registry, not of the mirror"
    assert found.digest == Registry(published).manifest("toy", found.name.rpartition(":")[2]).digest


def test_a_mirror_with_something_else_is_refused(toy: Toy, published: str, absent: str, tmp_path: Path) -> None:
    with registry(tmp_path) as other:
        image = f"{other}/toy:{absent.rpartition(':')[2]}"
        make_image(SMALL, f"LABEL envbuilder.environment={toy.id}", image)
        docker("push", image)
        docker("image", "rm", image)
        before = store()
        result = pull(toy, published, "--mirror", other)
    assert result.returncode == 7
    assert f"{other} has another image" in result.stderr
    assert store() == before


@pytest.mark.parametrize("labels", [{"envbuilder.environment": "other"}, {}])
def test_an_image_of_something_else_is_refused(toy: Toy, tmp_path: Path, engine: None, labels: dict[str, str]) -> None:
    with registry(tmp_path) as other:
        image = f"{other}/toy:{toy.image('x/y').rpartition(':')[2]}"
        make_image(SMALL, "\n".join(f"LABEL {key}={value}" for key, value in labels.items()), image)
        docker("push", image)
        docker("image", "rm", image)
        before = store()
        result = pull(toy, other)
    assert result.returncode == 5
    assert ("is an image of other, and not of" if labels else "has no label envbuilder.environment") in result.stderr
    assert store() == before


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ({"unavailable": 3}, 0),
        ({"cuts": 2}, 0),
        ({"expired": 1}, 0),
        ({"trickle": True}, 0),
        ({"changed_manifests": True}, 7),
        ({"changed_blobs": True}, 7),
        ({"unavailable": 10_000}, 7),
    ],
)
def test_a_fault_is_repaired_or_named(
    toy: Toy, published: str, absent: str, faults: Faults, fault: dict[str, Any], code: int
) -> None:
    for name, value in fault.items():
        setattr(faults, name, value)
    forget(f"{faults.address}/toy:x")
    before = store()
    result = pull(toy, faults.address)
    assert result.returncode == code, result.stderr
    if code:
        assert store() == before, "nothing is left of it"
    forget(f"{faults.address}/toy:x")


def test_an_image_of_a_project_is_pulled_by_its_name(toy: Toy, published: str, absent: str, tmp_path: Path) -> None:
    matrices = tmp_path / "matrices"
    shutil.copytree(toy.matrices, matrices)
    row = "engine: reel, family: none, versions: {toy: v1.0.0, tqdm: 4.0.0}"
    other = "engine: reel, family: a2, versions: {toy: v1.0.0}"
    tags = f"{{tag: absent, {row}}}, {{tag: '{absent.rpartition(':')[2]}', {row}}}, {{tag: other, {other}}}"
    framework = matrices / "frameworks" / "toy.yaml"
    plain = framework.read_text()
    framework.write_text(f"{plain}upstream: {{image: {published}/toy, source: a/b@c:d, tags: [{tags}]}}\n")
    result = succeeded(run("pull", toy.id, "--upstream", "--matrices", str(matrices)))
    assert f"skipping {published}/toy:absent" in result.stderr and "only its name shows" in result.stderr
    assert "it has other versions than the row: tqdm 4.0.0, not 4.67.1" in result.stderr
    assert result.stdout.strip() == absent and docker("images", "-q", absent)
    # an image for other chips is named, and never taken
    framework.write_text(
        f"{plain}upstream: {{image: {published}/toy, source: a/b@c:d, tags: [{{tag: other, {other}}}]}}\n"
    )
    result = run("pull", toy.id, "--upstream", "--matrices", str(matrices))
    assert result.returncode == 4 and f"Toy publishes no image of {toy.id}" in result.stderr
    assert f"nearest: {published}/toy:other (chips a2, not none)" in " ".join(result.stderr.split())


def test_every_published_image_of_verl_is_found_for_its_row(published: str, matrix: Matrix) -> None:
    """Each mirror has only one of these names; an image that is of no release belongs to no row."""
    upstream = matrix.frameworks["verl"].upstream
    assert upstream is not None and upstream.tags
    for number, tag in enumerate(upstream.tags):
        mirror = f"{published}/only-{number}"
        name = f"{mirror}/ascend/verl:{tag.tag}"
        docker("tag", SMALL, name)
        docker("push", "--quiet", name)
        docker("image", "rm", name)
        identifier = f"verl-{tag.versions.get('verl', 'v0.9.1')}-{tag.engine}-{tag.family}-{platforms.arch()}"
        asked = (environment(matrix, identifier), RegistryOptions(published, (mirror,)), Lines(Console(-2)))
        if "verl" in tag.versions:
            assert choose_upstream(*asked).name == f"{upstream.image}:{tag.tag}"
        else:
            with pytest.raises(NoMatchError, match=f"verl publishes no image of {identifier}"):
                choose_upstream(*asked)


def test_images_are_listed_and_pruned(toy: Toy, published: str) -> None:
    arguments = ("--matrices", str(toy.matrices), "--json")
    pull(toy, published)
    found = json.loads(run("images", toy.id, "--registry", published, *arguments).stdout)["images"]
    places = {(item["where"], item["image"]) for item in found}
    assert {("here", toy.image(published)), (published, toy.image(published))} <= places
    remote = next(item for item in found if item["where"] == published)
    assert remote["digest"] == Registry(published).manifest("toy", remote["image"].rpartition(":")[2]).digest
    assert remote["arch"] == platforms.arch() and remote["size"] > 10**6
    shown = run("images", toy.id, "--registry", published, *arguments[:2]).stdout
    assert f"{toy.image(published).rpartition(':')[0]} ({published})" in shown
    assert all(word in shown for word in ("proven", "today", remote["digest"][7:19]))
    # one of another lock, which no row has any more
    make_image(toy.image(published), "LABEL envbuilder.lock=sha256:0", "pruned/toy:1")
    listed = run("images", "--prune", "--matrices", str(toy.matrices))
    assert "pruned/toy:1" in listed.stdout and "was built from another lock" in listed.stdout
    assert toy.image(published) not in listed.stdout
    assert docker("images", "-q", "pruned/toy:1"), "it only lists images"
    docker("image", "rm", "pruned/toy:1")
