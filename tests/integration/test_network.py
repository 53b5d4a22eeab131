"""Builds through proxies, mirrors and registries, and the search for what they leave behind."""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import trustme

from envbuilder.lock.index import default_index
from envbuilder.network import host_network
from tests.conftest import A2_VLLM, Edit, succeeded
from tests.helpers.servers import gateway, mirror, proxy, registry
from tests.integration.conftest import SMALL, Toy, build, docker, inside, labels, make_toy

PASSWORD, TOKEN = "pr0xy-passw0rd-7f3a", "index-t0ken-91cc"
LEAKING_SETUP = """
import os
from setuptools import setup
for name in ("HTTPS_PROXY", "PIP_INDEX_URL"):
    open(f"leak-{name}.txt", "w").write(os.environ[name])
open("leak-ca.txt", "w").write(open("/run/secrets/ca").read())
setup()
"""


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ca")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", str(folder / "key"), "-out", str(folder / "own"), "-subj", "/CN=own", "-days", "9"],
        check=True,
        capture_output=True,
    )  # fmt: skip
    known = host_network().ca_bundle
    (folder / "bundle").write_text((known.read_text() if known else "") + (folder / "own").read_text())
    return folder / "bundle"


def secret_build(toy: Toy, certificate: Path, folder: Path, registry_: str) -> tuple[dict[str, str], list[str]]:
    """Build with every kind of secret; return all text of the build, and the requests to the proxy."""
    index = urlsplit(default_index())
    with proxy("me", PASSWORD) as (port, seen):
        result = build(
            *toy.arguments, "--no-cache", "--registry", registry_, "--report", str(folder / "report.json"),
            "--proxy", f"http://me:{PASSWORD}@{gateway()}:{port}",
            "--pip-index", index._replace(netloc=f"me:{TOKEN}@{index.netloc}").geturl(),
            "--ca-bundle", str(certificate), "-v",
        )  # fmt: skip
    assert result.returncode == 0, result.stderr[-3000:]
    report = (folder / "report.json").read_text()
    return {
        "output": result.stdout + result.stderr,
        "report": report,
        "log": Path(json.loads(report)["builds"][0]["log"]).read_text(),
    }, seen


def places_of(needle: bytes, image: str) -> list[str]:
    """Return where the bytes occur in an image: files of every layer, their names, the configuration, the history."""
    saved = subprocess.run(["docker", "save", image], capture_output=True, check=True).stdout
    found = []
    with tarfile.open(fileobj=io.BytesIO(saved)) as archive:
        for member in archive:
            data = archive.extractfile(member)
            content = data.read() if data else b""
            if member.name.endswith("layer.tar") or (member.name.startswith("blobs/") and content[257:262] == b"ustar"):
                with tarfile.open(fileobj=io.BytesIO(content)) as layer:
                    for item in layer:
                        file = layer.extractfile(item) if item.isfile() else None
                        if needle in item.name.encode() or (file and needle in file.read()):
                            found.append(item.name)
            elif needle in content:
                found.append(member.name)
    return found


def needles(certificate: Path) -> dict[str, bytes]:
    own = (certificate.parent / "own").read_text().splitlines()[4]
    return {"proxy password": PASSWORD.encode(), "index token": TOKEN.encode(), "certificate": own.encode()}


def test_no_secret_stays_anywhere(toy: Toy, certificate: Path, tmp_path: Path) -> None:
    texts, seen = secret_build(toy, certificate, tmp_path, "secret")
    assert seen, "the build did not go through the proxy"
    for what, needle in needles(certificate).items():
        assert places_of(needle, toy.image("secret")) == [], what
        for name, text in texts.items():
            assert needle.decode() not in text, f"{what} in the {name}"


def test_the_search_finds_secrets_that_stay(certificate: Path, tmp_path: Path) -> None:
    """The build of the framework writes them into its source tree, which is in the image."""
    toy = make_toy(tmp_path, framework_setup=LEAKING_SETUP)
    secret_build(toy, certificate, tmp_path, "leaking")
    found = {
        what: [Path(name).name for name in places_of(needle, toy.image("leaking"))]
        for what, needle in needles(certificate).items()
    }
    assert found == {
        "proxy password": ["leak-HTTPS_PROXY.txt"],
        "index token": ["leak-PIP_INDEX_URL.txt"],
        "certificate": ["leak-ca.txt"],
    }
    docker("image", "rm", toy.image("leaking"))


def test_a_bundle_larger_than_a_secret_may_be(toy: Toy, certificate: Path, tmp_path: Path) -> None:
    """Real certificates, more than 500 KiB of them; what the index needs comes last."""
    many = (trustme.CA(organization_name=f"the organisation number {number}") for number in range(1000))
    bundle = tmp_path / "bundle"
    bundle.write_bytes(b"".join(ca.cert_pem.bytes() for ca in many) + certificate.read_bytes())
    assert bundle.stat().st_size > 600 * 1024
    succeeded(build(*toy.arguments, "--no-cache", "--registry", "large", "--ca-bundle", str(bundle)))
    assert inside(toy.image("large"), "find /dev/shm /run -type f") == ""


def test_a_build_may_ignore_the_network_settings_of_the_host(toy: Toy) -> None:
    """A proxy that does not exist stops a build that uses it, and no other build."""
    dead = {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9", "NO_PROXY": ""}
    result = build(*toy.arguments, "--no-cache", "--registry", "dead", **dead)
    assert result.returncode == 7
    assert "failed in 'tools'" in result.stderr
    assert "check --proxy" in result.stderr
    bundle = host_network().ca_bundle
    only_certificates = ("--ca-bundle", str(bundle)) if bundle else ()
    result = build(
        *toy.arguments, "--no-cache", "--registry", "dead", "--network-settings", "none", *only_certificates, **dead
    )
    assert result.returncode == 0, result.stderr[-3000:]


def test_a_failing_step_shows_its_command_and_last_lines(toy: Toy) -> None:
    result = build(*toy.arguments, "--no-cache", "--registry", "words", "--pip-index", "http://127.0.0.1:9/simple")
    assert result.returncode == 7
    assert (
        "failed in 'tools'\n    $ " in result.stderr
        and "python3 -m pip install --no-cache-dir --no-deps --require-hashes" in result.stderr
    )
    assert "  | " in result.stderr
    assert "hint: the build cannot reach the network" in result.stderr
    log = Path(result.stderr.split("the whole log: ")[1].split()[0])
    assert "Connection refused" in log.read_text()


def test_packages_of_the_distribution_come_from_a_mirror(tmp_path: Path, engine: None) -> None:
    toy = make_toy(tmp_path, system_packages="hello")
    assert build(*toy.arguments, "--dry-run").returncode == 0
    sources = inside(SMALL, "cat /etc/apt/sources.list")
    upstream = urlsplit(sources.split()[1])
    with mirror(f"{upstream.scheme}://{upstream.netloc}") as (port, seen):
        result = build(*toy.arguments, "--no-cache", "--registry", "apt", "--apt-mirror", f"http://{gateway()}:{port}")
    assert result.returncode == 0, result.stderr[-3000:]
    assert any(path.startswith("/debian/pool/main/h/hello/") for path in seen)
    assert inside(toy.image("apt"), "cat /etc/apt/sources.list; hello -t") == sources + "hello, world\n"


def test_images_go_to_a_registry_and_base_images_come_from_a_mirror_of_one(toy: Toy, tmp_path: Path) -> None:
    with registry(tmp_path) as address:
        mirrored = SMALL.replace("docker.io", address)
        docker("tag", SMALL, mirrored)
        docker("push", mirrored)
        docker("image", "rm", mirrored)
        report = tmp_path / "report.json"
        result = build(
            *toy.arguments, "--registry", f"{address}/team", "--registry-mirror", address, "--push", "--report", str(report)
        )  # fmt: skip
        assert result.returncode == 0, result.stderr[-3000:]
        assert f"pulling {mirrored}" in result.stderr
        image = toy.image(f"{address}/team")
        assert result.stdout.strip() == image
        name, _, tag = image.removeprefix(f"{address}/").rpartition(":")
        asked = urllib.request.Request(
            f"http://{address}/v2/{name}/manifests/{tag}",
            headers={"Accept": "application/vnd.docker.distribution.manifest.v2+json"},
        )
        with urllib.request.urlopen(asked) as answer:  # noqa: S310
            digest = answer.headers["Docker-Content-Digest"]
        assert json.loads(report.read_text())["builds"][0]["digest"] == digest
        assert digest in result.stderr
        assert labels(image)["org.opencontainers.image.base.name"] == SMALL, (
            "the mirror of one build does not matter later"
        )


def test_an_unreachable_registry(toy: Toy) -> None:
    result = build(*toy.arguments, "--registry", "127.0.0.1:9/team", "--push")
    assert result.returncode == 7
    assert "does not answer" in result.stderr
    result = build(*toy.arguments, "--base-image", "127.0.0.1:9/none:1")
    assert result.returncode == 7
    assert "the base image 127.0.0.1:9/none:1 is not in the engine" in result.stderr


def small_disk(edit: Edit) -> tuple[str, str]:
    """Return the options for matrices whose images for NPUs need little room."""
    for hardware in ("a2", "a3"):
        folder = edit(f"hardware/{hardware}.yaml", "disk_gb: 40", "disk_gb: 1")
    return "--matrices", str(folder)


def test_a_build_without_the_registry_names_the_rehearsal(engine: None, edit: Edit) -> None:
    result = build(A2_VLLM, *small_disk(edit), "--registry-mirror", "127.0.0.1:9")
    assert result.returncode == 7, result.stderr
    assert "is not in the engine and cannot be pulled" in result.stderr
    assert "hint: with --rehearse it is built and proven on a stand-in of CANN" in result.stderr


def test_sources_are_missed_before_the_base_image_is_pulled(engine: None, edit: Edit, tmp_path: Path) -> None:
    (tmp_path / "mirror").mkdir()
    words = ("verl-v0.9.1-sglang-a3-x86_64", *small_disk(edit), "--git-mirror", str(tmp_path / "mirror"))
    result = build(*words, "--registry-mirror", "127.0.0.1:9", XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert result.returncode == 7, result.stderr
    assert "it must hold sgl-kernel-npu.git, MindSpeed.git, Megatron-LM.git; with --rehearse" in result.stderr
    assert "pulling" not in result.stderr
