"""Publishing: with the proof of the image, never over other content, under one name for all architectures."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from envbuilder import platforms
from envbuilder.errors import HostError
from envbuilder.registry.attach import BILL, VALIDATION, attached
from envbuilder.registry.client import Registry
from envbuilder.registry.published import look_up
from envbuilder.registry.reference import Reference
from envbuilder.signing.keys import make_keys, read_public
from tests.conftest import succeeded
from tests.helpers.pulls import forget, pull
from tests.helpers.servers import secured_registry
from tests.integration.conftest import SMALL, Toy, docker, labels, run


@pytest.fixture(scope="module")
def proven(toy: Toy) -> str:
    """Build and prove the small image."""
    succeeded(run("build", *toy.arguments, "--registry", "pushed"))
    return toy.image("pushed")


def push(toy: Toy, address: str, *more: str) -> tuple[int, str, str]:
    result = run("push", toy.id, "--matrices", str(toy.matrices), "--registry", address, "--local", "pushed", *more)
    return result.returncode, result.stdout, result.stderr


def test_an_image_is_pushed_with_its_proof_and_its_bill(toy: Toy, proven: str, there: str) -> None:
    code, out, talk = push(toy, there)
    assert code == 0, talk
    assert "with validation and bill of materials" in talk
    digest = out.strip().rpartition("@")[2]
    found = Registry(there)
    report = json.loads(attached(found, "toy", digest, VALIDATION) or b"{}")
    assert report["environment"] == toy.id and report["proven"] == "import"
    assert json.loads(attached(found, "toy", digest, BILL) or b"{}")["bomFormat"] == "CycloneDX"
    # again: nothing is moved, nothing is attached twice
    code, _, talk = push(toy, there)
    assert code == 0 and "already in the registry" in talk
    assert len(found.referrers("toy", digest)) == 2
    # pull reports it
    name = toy.image(there)
    forget(name)
    result = succeeded(pull(toy, there))
    assert f"proven at level import, the result is attached: {labels(proven)['envbuilder.validation']}" in result.stderr
    forget(name)


def test_a_tag_with_other_content_is_left_alone(toy: Toy, proven: str, there: str) -> None:
    name = toy.image(there)
    docker("tag", SMALL, name)
    docker("push", name)
    docker("image", "rm", name)
    before = Registry(there).manifest("toy", name.rpartition(":")[2]).digest
    code, _, talk = push(toy, there)
    assert code == 1 and "is published with other content" in talk and "--replace" in talk
    assert Registry(there).manifest("toy", name.rpartition(":")[2]).digest == before
    code, out, talk = push(toy, there, "--replace")
    assert code == 0, talk
    assert Registry(there).manifest("toy", name.rpartition(":")[2]).digest == out.strip().rpartition("@")[2] != before
    forget(name)


def test_a_missing_image_is_not_pushed(toy: Toy, there: str) -> None:
    code, _, talk = push(toy, there, "--candidate")
    assert code == 4 and "candidate-" in talk and f"envbuilder build {toy.id}" in talk


def test_a_rehearsal_is_neither_pushed_nor_pulled(toy: Toy, proven: str, there: str, tmp_path: Path) -> None:
    """The label counts, not the name."""
    container = docker("create", proven).strip()
    name = toy.image(there)
    docker("commit", "--change", 'LABEL envbuilder.rehearsal="a stand-in"', container, toy.image("rehearsed"))
    docker("rm", container)
    code, _, talk = push(toy, there, "--local", "rehearsed")
    assert code == HostError.exit_code
    assert "is a rehearsal on a stand-in, and cannot be published" in talk
    assert Registry(there).tags("toy") == []
    # as docker push without envbuilder does
    docker("tag", toy.image("rehearsed"), name)
    docker("push", name)
    forget(name)
    for more in ((), ("--save", str(tmp_path / "image.tar"))):
        result = pull(toy, there, *more)
        assert result.returncode == HostError.exit_code
        assert "is a rehearsal on a stand-in, and cannot be pulled" in result.stderr
    assert not (tmp_path / "image.tar").exists()
    forget(toy.image("rehearsed"))


def test_one_name_for_all_architectures(toy: Toy, proven: str, there: str) -> None:
    assert push(toy, there)[0] == 0
    name, found = toy.image(there), Registry(there)
    mine = look_up(found, Reference.parse(name), platforms.arch())
    other = "x86_64" if platforms.arch() == "aarch64" else "aarch64"
    # as a machine of the other kind would have pushed it
    config = json.loads(found.blob("toy", mine.id)) | {"architecture": {"x86_64": "amd64", "aarch64": "arm64"}[other]}
    content = json.dumps(config).encode()
    manifest = mine.manifest.document
    manifest["config"] |= {"digest": found.put_blob("toy", content), "size": len(content)}
    tag = name.rpartition(":")[2].removesuffix(platforms.arch()) + other
    theirs = found.put_manifest("toy", tag, json.dumps(manifest).encode(), mine.manifest.media_type)
    code, _, talk = push(toy, there, "--index")
    assert code == 0, talk
    index = Reference.parse(name.removesuffix(f"-{platforms.arch()}"))
    assert look_up(found, index, platforms.arch()).digest == mine.digest
    assert look_up(found, index, other).digest == theirs
    forget(name)


def test_an_engine_that_cannot_read_zstd_gets_other_layers(toy: Toy, proven: str, there: str) -> None:
    code, _, talk = push(toy, there, "--zstd")
    assert code == 0, talk
    name, client = toy.image(there), Registry(there)
    tag = name.rpartition(":")[2]
    small = client.manifest("toy", f"{tag}-zstd")
    assert {layer["mediaType"].rpartition("+")[2] for layer in small.document["layers"]} == {"zstd"}
    assert attached(client, "toy", small.digest, VALIDATION), "with its proof"
    # again: nothing is moved
    assert push(toy, there, "--zstd")[0] == 0 and client.manifest("toy", f"{tag}-zstd").digest == small.digest
    forget(name)
    result = succeeded(pull(toy, there))
    major = docker("version", "--format", "{{.Server.Version}}").partition(".")[0]
    assert (f"{tag}-zstd@" in result.stderr) is (int(major) >= 23)
    forget(name)


def test_a_registry_with_certificate_and_password(toy: Toy, proven: str, tmp_path: Path) -> None:
    """The client trusts the CA by an option; the engine trusts loopback addresses."""
    with secured_registry(tmp_path) as there:
        name = toy.image(there.address)

        def config(password: str) -> dict[str, str]:
            folder = tmp_path / password.replace(":", "-")
            folder.mkdir(exist_ok=True)
            auth = base64.b64encode(f"{there.user}:{password}".encode()).decode()
            (folder / "config.json").write_text(json.dumps({"auths": {there.address: {"auth": auth}}}))
            return {"DOCKER_CONFIG": str(folder)}

        common = ("--matrices", str(toy.matrices), "--registry", there.address, "--ca-bundle", str(there.ca_bundle))
        succeeded(run("push", toy.id, "--local", "pushed", *common, **config(there.password)))
        forget(name)
        for action in ("pull", "push"):
            result = run(
                action, toy.id, *(("--local", "pushed") if action == "push" else ()), *common, **config("wrong")
            )
            assert result.returncode == 7, result.stderr
            assert "the password of 'ann' is not accepted" in result.stderr
            assert f"hint: docker login {there.address}" in result.stderr
        succeeded(run("pull", toy.id, *common, **config(there.password)))
        assert docker("images", "-q", name)
        forget(name)


def test_a_signed_image_is_pulled_and_any_other_is_refused(
    toy: Toy, proven: str, there: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENVBUILDER_KEY_PASSWORD", "")
    for name in ("team", "other"):
        (tmp_path / f"{name}.key").write_bytes((made := make_keys(b""))[0])
        (tmp_path / f"{name}.pub").write_bytes(made[1])
    demanded = f"{there}={tmp_path / 'team.pub'}"
    assert push(toy, there)[0] == 0
    forget(toy.image(there))
    unsigned = pull(toy, there, "--verify-key", demanded)
    assert unsigned.returncode == 6 and "has no signature, and must have one of" in unsigned.stderr
    # another push signs what is there
    code, _, talk = push(toy, there, "--sign-key", str(tmp_path / "team.key"))
    assert (
        code == 0
        and "already in the registry, with validation and bill of materials and signature and provenance" in talk
    )
    keyed = ("--verify", "--verify-key", demanded, "--json")
    listed = succeeded(run("images", toy.id, "--matrices", str(toy.matrices), "--registry", there, *keyed))
    (there_found,) = (item for item in json.loads(listed.stdout)["images"] if item["where"] != "here")
    assert there_found["signed"] == read_public(tmp_path / "team.pub").fingerprint
    other = pull(toy, there, "--verify-key", str(tmp_path / "other.pub"))
    assert other.returncode == 6 and "none of the signatures of" in other.stderr
    assert docker("image", "ls", "--quiet", toy.image(there)) == ""
    pulled = pull(toy, there, "--verify-key", demanded)
    assert "proven at level import, according to" in pulled.stderr
    assert pulled.returncode == 0 and f"signed as {toy.image(there)} by {tmp_path / 'team.pub'}" in pulled.stderr
    # a key for another registry is none for this one
    forget(toy.image(there))
    elsewhere = ("--verify-key", f"registry.example.com/={tmp_path / 'other.pub'}")
    assert pull(toy, there, *elsewhere).returncode == 6
    assert pull(toy, there, *elsewhere, "--allow-unsigned").returncode == 0
