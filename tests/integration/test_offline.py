"""A bundle is enough for a machine without a network: environments on a host, and images."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from uv import find_uv_bin

from envbuilder.docker.client import build_command
from envbuilder.signing.keys import make_keys
from tests.conftest import succeeded
from tests.integration.conftest import Toy, command, cut_off, docker, inside, installed, labels, make_toy, run


def bundled(toy: Toy, folder: Path, *more: str) -> Path:
    file = folder / "toy.bundle"
    succeeded(run("bundle", *toy.arguments, *more, "-o", str(file)))
    return file


@pytest.fixture(scope="module")
def small(toy: Toy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a bundle for installing."""
    return bundled(toy, tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="module")
def equipped(engine: None, tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """Make a small matrix whose image needs a system package; the version of the package has an epoch."""
    return make_toy(tmp_path_factory.mktemp("equipped"), system_packages="iputils-ping")


@pytest.fixture(scope="module")
def large(equipped: Toy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a bundle for building."""
    return bundled(equipped, tmp_path_factory.mktemp("large"), "--for-build")


def remember_the_index(packages: str, cache: Path) -> None:
    """Let uv cache the addresses of these packages, which it would download from there."""
    words = [find_uv_bin(), "pip", "compile", "--no-deps", "--cache-dir", str(cache / "uv"), "-"]
    subprocess.run(words, input=packages, text=True, check=True, capture_output=True)


def test_a_bundle_installs(toy: Toy, small: Path, tmp_path: Path) -> None:
    """The folder has characters in its name at which pip and uv split lists."""
    prefix = tmp_path / "an odd, name"
    words = command("install", toy.id, "--matrices", str(toy.matrices), "--prefix", str(prefix))
    assert cut_off(words, tmp_path / "home").returncode != 0, "the network is really cut off"
    shutil.rmtree(prefix, ignore_errors=True)
    offline = [*words, "--offline", str(small)]
    planned = cut_off([*offline, "--dry-run"], tmp_path / "home")
    assert planned.stdout.startswith("to do") and not prefix.exists()
    for cache in (tmp_path / "home" / "cache", Path(os.environ["XDG_CACHE_HOME"])):
        remember_the_index("setuptools==79.0.1\nwheel==0.45.1\ntqdm==4.67.1\n", cache)
    # one of two waits for the other, and finds everything done
    other = subprocess.Popen(offline, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    result = cut_off(offline, tmp_path / "home")
    said, _ = other.communicate()
    assert (result.returncode, other.returncode) == (0, 0), f"{result.stderr}\n--- the other:\n{said}"
    assert not (prefix / "bundle").exists()
    names = [line.partition("==")[0] for line in installed(prefix)]
    assert {"toy", "reel", "tqdm"} <= set(names)


def test_a_bundle_has_the_sources_of_the_row(toy: Toy, small: Path, tmp_path: Path) -> None:
    """A lock has versions; another commit of the same version is another source."""
    matrices = Path(shutil.copytree(toy.matrices, tmp_path / "matrices"))
    compat = matrices / "compat" / "reel.yaml"
    compat.write_text(re.sub(r"commit: \w+", f"commit: {'1' * 40}", compat.read_text()))
    result = run("install", "--matrices", str(matrices), "--prefix", str(tmp_path / "prefix"), "--offline", str(small))
    assert result.returncode == 1 and "does not have the source of reel that the row names" in result.stderr
    assert not (tmp_path / "prefix" / "venv").exists()


def test_a_bundle_builds_an_image(equipped: Toy, large: Path, tmp_path: Path) -> None:
    """Its commands have no network, and no cache of an earlier build is used."""
    words = command("build", "--matrices", str(equipped.matrices), "--registry", "offline", "--no-validate")
    offline = [*words, "--offline", str(large)]
    result = cut_off([*offline, "--no-cache"], tmp_path / "home")
    assert result.returncode == 0, result.stderr
    image = equipped.image("offline")
    assert labels(image)["envbuilder.environment"] == equipped.id
    assert inside(image, "python3 -c 'import toy, reel, tqdm; print(tqdm.__version__)'; ping -V").startswith("4.67.1\n")
    left = inside(image, "find /run/envbuilder /var/lib/apt/lists /tmp -type f; grep -r trusted /etc/apt; env")
    assert "offline" not in left and "trusted" not in left and "FIND_LINKS" not in left
    first = docker("image", "inspect", "--format", "{{.Id}}", image)
    again = cut_off(offline, tmp_path / "home")
    assert again.returncode == 0, again.stderr
    assert docker("image", "inspect", "--format", "{{.Id}}", image) == first, "nothing was done again"


def test_a_bundle_needs_no_envbuilder(toy: Toy, equipped: Toy, small: Path, large: Path, tmp_path: Path) -> None:
    """Its script installs the environment, and its Dockerfile builds the image."""
    for name, file in (("small, odd", small), ("large", large)):
        (tmp_path / name).mkdir()
        subprocess.run(["tar", "xf", file, "-C", tmp_path / name], check=True)
    script = ["bash", str(tmp_path / "small, odd" / "install.sh")]
    assert cut_off([*script, str(tmp_path)], tmp_path / "home").returncode == 2, "this folder has other files"
    done = cut_off([*script, str(tmp_path / "prefix")], tmp_path / "home")
    assert done.returncode == 0, done.stderr
    assert {"toy", "reel", "tqdm"} <= {line.partition("==")[0] for line in installed(tmp_path / "prefix")}
    base = json.loads((tmp_path / "large" / "bundle.json").read_text())["base_image"]
    docker("load", "--input", str(tmp_path / "large" / "base-image.tar"))
    words = [*build_command(), "--network", "none", "--build-arg", f"BASE_IMAGE={base}", "--tag", "offline/plain:1"]
    words += ["--secret", f"id=network,src={tmp_path}/large/network.sh", str(tmp_path / "large")]
    built = subprocess.run(
        words, capture_output=True, text=True, check=False, env={**os.environ, "DOCKER_BUILDKIT": "1"}
    )
    assert built.returncode == 0, built.stderr
    assert labels("offline/plain:1")["envbuilder.environment"] == equipped.id
    assert inside("offline/plain:1", "python3 -c 'import toy, reel' && ping -V").startswith("ping")


def test_what_a_bundle_lacks_is_named(toy: Toy, small: Path) -> None:
    result = run("build", "--matrices", str(toy.matrices), "--registry", "lacking", "--offline", str(small))
    assert result.returncode == 1 and "only for installing" in result.stderr and "--for-build" in result.stderr
    assert "lacking/" not in docker("images")
    tried = run("build", "--matrices", str(toy.matrices), "--dry-run", "--offline", str(small))
    assert tried.returncode == 1 and "only for installing" in tried.stderr


def test_the_plan_of_a_build_from_a_bundle(equipped: Toy, large: Path) -> None:
    planned = run("build", "--matrices", str(equipped.matrices), "--dry-run", "--offline", str(large))
    assert planned.returncode == 0 and "offline/wheels" not in planned.stderr
    assert "none: everything comes from the bundle" in planned.stdout


def changed(file: Path, folder: Path) -> Path:
    """Copy a file and change one byte in the middle."""
    copy = folder / "changed.bundle"
    shutil.copyfile(file, copy)
    with copy.open("r+b") as content:
        content.seek(copy.stat().st_size // 2)
        byte = content.read(1)[0]
        content.seek(-1, os.SEEK_CUR)
        content.write(bytes([byte ^ 1]))
    return copy


def test_a_signed_bundle_is_verified(toy: Toy, small: Path, tmp_path: Path) -> None:
    own, other = (tmp_path / f"{name}.key" for name in ("own", "other"))
    for file in (own, other):
        private, public = make_keys(b"")
        file.write_bytes(private)
        file.with_suffix(".pub").write_bytes(public)
    unencrypted = {**os.environ, "ENVBUILDER_KEY_PASSWORD": ""}
    signed = tmp_path / "signed.bundle"
    words = command("bundle", *toy.arguments, "--sign-key", str(own), "-o", str(signed))
    subprocess.run(words, check=True, capture_output=True, env=unencrypted)
    install = ("install", "--matrices", str(toy.matrices), "--prefix", str(tmp_path / "prefix"), "--offline")
    for file, key in ((small, own), (signed, other)):
        refused = run(*install, str(file), "--verify-key", str(key.with_suffix(".pub")))
        assert refused.returncode == 6 and "hint: nothing of it was used" in refused.stderr
        assert not (tmp_path / "prefix" / "venv").exists() and not (tmp_path / "prefix" / "bundle").exists()
    verified = run(*install, str(signed), "--verify-key", str(own.with_suffix(".pub")))
    assert verified.returncode == 0 and f"is signed with {own.with_suffix('.pub')}" in verified.stderr
    # as the guide says, without envbuilder
    subprocess.run(["tar", "xf", signed, "-C", tmp_path], check=True)
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "offline.md").read_text()
    by_hand = "\n".join(re.findall(r"^(?:openssl|python3) .*$", guide, re.M)).replace("team.pub", "own.pub")
    subprocess.run(["bash", "-eo", "pipefail", "-c", by_hand], cwd=tmp_path, check=True)
    unsigned = run(*install, str(small))
    assert unsigned.returncode == 0 and "with no key (--verify-key)" in unsigned.stderr


def test_a_bundle_with_another_byte_is_not_installed(toy: Toy, small: Path, tmp_path: Path) -> None:
    words = ("install", "--matrices", str(toy.matrices), "--prefix", str(tmp_path / "prefix"))
    result = run(*words, "--offline", str(changed(small, tmp_path)))
    assert result.returncode == 1 and "was changed" in result.stderr
    assert not (tmp_path / "prefix" / "venv").exists() and not (tmp_path / "prefix" / "bundle").exists()


def test_a_bundle_with_another_byte_is_not_built(equipped: Toy, large: Path, tmp_path: Path) -> None:
    words = ("build", "--matrices", str(equipped.matrices), "--registry", "changed")
    result = run(*words, "--offline", str(changed(large, tmp_path)))
    assert result.returncode == 1 and "was changed" in result.stderr
    assert docker("images", "--quiet", equipped.image("changed")) == ""
