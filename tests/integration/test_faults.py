"""Load and full disks: many commands at once, and no space in each of the places that are written to."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from envbuilder import platforms
from envbuilder.registry.attestations import attested
from envbuilder.registry.client import Registry
from envbuilder.registry.published import look_up
from envbuilder.registry.reference import Reference
from envbuilder.registry.signatures import accepted
from envbuilder.signing.keys import make_keys, read_public
from tests.conftest import succeeded
from tests.helpers.pulls import forget, pull, store
from tests.helpers.waiting import wait_until
from tests.integration.conftest import Toy, build, command, docker, run

# without the checks after each write, as few lose signatures
AT_ONCE = 8


def all_at_once(commands: Sequence[Sequence[str]]) -> None:
    running = [
        subprocess.Popen(command(*words), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for words in commands
    ]
    ended = [(process.communicate(timeout=900)[1], process.returncode) for process in running]
    assert [said[-500:] for said, code in ended if code != 0] == []


# --- load ------------------------------------------------------------------------------------------------


@pytest.mark.extended
def test_many_pulls_at_once(toy: Toy, published: str) -> None:
    name = toy.image(published)
    wanted = look_up(Registry(published), Reference.parse(name), platforms.arch()).id
    forget(name)
    common = ("pull", toy.id, "--matrices", str(toy.matrices), "--registry", published)
    all_at_once([common] * AT_ONCE)
    assert docker("image", "inspect", "--format", "{{.Id}}", name).strip() == wanted


@pytest.mark.extended
def test_many_pushes_at_once_lose_nothing(
    toy: Toy, published: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Signatures and lists of attachments are under tags that each push reads, extends and writes again."""
    monkeypatch.setenv("ENVBUILDER_KEY_PASSWORD", "")
    keys = [tmp_path / f"{number}.key" for number in range(5)]
    for key in keys:
        private, public = make_keys(b"")
        key.write_bytes(private)
        key.with_suffix(".pub").write_bytes(public)
    common = ("push", toy.id, "--matrices", str(toy.matrices), "--registry", published, "--sign-key")
    all_at_once([(*common, str(keys[number % len(keys)])) for number in range(AT_ONCE)])
    client, tag = Registry(published), toy.image(published).rpartition(":")[2]
    digest = client.manifest("toy", tag).digest
    public_keys = [read_public(key.with_suffix(".pub")) for key in keys]
    for public_key in public_keys:
        assert len(list(accepted(client, "toy", digest, [public_key]))) == 1, "each key has signed once"
        assert len(list(attested(client, "toy", digest, [public_key]))) == 2, "provenance and bill"
    # beside the bill itself
    assert len(client.referrers("toy", digest)) == 1 + 3 * len(keys)
    for kind, layers in (("sig", len(keys)), ("att", 2 * len(keys))):
        document = client.manifest("toy", f"{digest.replace(':', '-')}.{kind}").document
        assert len(document["layers"]) == layers, "cosign reads this one"


# --- full disks ------------------------------------------------------------------------------------------


@contextmanager
def disk(folder: Path, size: str, *, full: bool = True) -> Iterator[Path]:
    """Mount a small file system."""
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=False)
    if mounted.returncode != 0:
        pytest.skip("needs root, to mount a file system of its own")
    try:
        if full:
            fill(folder)
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def fill(folder: Path, *, blocks_left: int = 0) -> None:
    status = os.statvfs(folder)
    (folder / "filler").write_bytes(bytes((status.f_bavail - blocks_left) * status.f_frsize))


# Python writes a file of four bytes to find a folder for temporary files, and takes another one where that fails
@pytest.mark.parametrize(("variable", "blocks_left"), [("XDG_STATE_HOME", 0), ("TMPDIR", 4)])
def test_a_build_on_a_full_disk(toy: Toy, tmp_path: Path, variable: str, blocks_left: int) -> None:
    before = store()
    with disk(tmp_path / "full", "64k", full=False) as full:
        fill(full, blocks_left=blocks_left)
        result = build(*toy.arguments, "--registry", "full", **{variable: str(full)})
        assert [item.name for item in full.rglob("*") if item.is_file() and item.stat().st_size] == ["filler"]
    assert result.returncode == 5, result.stderr
    assert "No space left on device\n" in result.stderr and variable in result.stderr
    assert "Traceback" not in result.stderr
    assert store() == before


def test_a_build_without_space_for_its_cache_succeeds(toy: Toy, tmp_path: Path) -> None:
    with disk(tmp_path / "full", "64k") as full:
        (tmp_path / "sources").mkdir()
        result = succeeded(
            build(*toy.arguments, "--registry", "full", "--wheel-cache", str(full / "wheels"), "--no-cache")
        )
        assert "is not kept for other builds" in result.stderr
        listed = run("list", XDG_CACHE_HOME=str(full))
        assert listed.returncode == 0 and "verl-" in listed.stdout
        fetched = build(*toy.arguments, "--registry", "full", XDG_CACHE_HOME=str(full))
    assert fetched.returncode == 5 and "No space left on device\n" in fetched.stderr, fetched.stderr


def test_files_on_a_full_disk_are_unchanged(toy: Toy, published: str, tmp_path: Path) -> None:
    with disk(tmp_path / "full", "64k", full=False) as full:
        settings, archive = full / "envbuilder/envbuilder.toml", full / "image.tar"
        assert run("config", "set", "registry", "one.example", XDG_CONFIG_HOME=str(full)).returncode == 0
        before = settings.read_text()
        fill(full)
        changed = run("config", "set", "registry", "two.example", XDG_CONFIG_HOME=str(full))
        assert changed.returncode == 5 and "No space left on device" in changed.stderr
        assert settings.read_text() == before
        saved = pull(toy, published, "--save", str(archive))
        assert saved.returncode == 5 and "No space left on device" in saved.stderr, saved.stderr
        assert sorted(item.name for item in full.iterdir()) == ["envbuilder", "filler"]


@contextmanager
def engine_at(root: Path) -> Iterator[str]:
    """Start one more engine with its images in a folder; without its own bridge it would delete docker0."""
    # the name of a socket has at most 107 characters
    folder = Path(tempfile.mkdtemp(prefix="engine-", dir="/tmp"))
    address, bridge = f"unix://{folder}/docker.sock", "envbuilder-full"
    subprocess.run(["ip", "link", "add", bridge, "type", "bridge"], check=True)
    subprocess.run(["ip", "address", "add", "10.214.8.1/24", "dev", bridge], check=True)
    places = ("--data-root", root / "images", "--exec-root", folder / "exec", "--pidfile", folder / "pid")
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            ["dockerd", "--host", address, *places, "--bridge", bridge, "--iptables=false"], stdout=log, stderr=log
        )
    try:
        words = ["docker", "--host", address, "version"]
        wait_until(
            lambda: subprocess.run(words, capture_output=True, check=False).returncode == 0,
            lambda: (folder / "log").read_text()[-2000:],
            process=process,
        )
        yield address
    finally:
        process.terminate()
        process.wait(300)
        subprocess.run(["ip", "link", "delete", bridge], check=True)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.extended
def test_an_engine_on_a_full_disk(toy: Toy, published: str, tmp_path: Path) -> None:
    with disk(tmp_path / "small", "60m", full=False) as small, engine_at(small) as address:
        archive = tmp_path / "image.tar"
        refused = build(*toy.arguments, "--registry", "full", DOCKER_HOST=address)
        assert refused.returncode == 5 and "are free at the engine's root" in refused.stderr
        assert pull(toy, published, "--save", str(archive)).returncode == 0
        for words in (
            ("pull", toy.id, "--matrices", str(toy.matrices), "--registry", published),
            ("load", str(archive)),
        ):
            result = run(*words, DOCKER_HOST=address)
            assert result.returncode in {5, 7} and "no space left on device" in result.stderr, result.stderr
            assert "hint: the disk of the engine is full: docker system prune" in result.stderr
            assert docker("--host", address, "images", "--all", "--quiet") == "", "nothing half is there"
