"""Bundles that attackers wrote: consistent with themselves, and refused all the same."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from envbuilder import platforms
from envbuilder.bundle import Needed, ProvenSource, bundle_of, open_bundle, write_bundle
from envbuilder.bundle.read import SCHEMA_VERSION, hashes_of
from envbuilder.cli.console import Console
from envbuilder.cli.progress import Lines
from envbuilder.environment.locks import LockedPackage
from envbuilder.errors import EnvbuilderError, ValidationError
from envbuilder.files import add_file
from envbuilder.inputs.source_archives import SourceOptions, obtain, with_commits
from envbuilder.lock.index import Index
from envbuilder.matrix import load
from envbuilder.plan import SourceArchive
from envbuilder.signing.keys import PrivateKey, make_keys, read_private
from tests.conftest import A2_VLLM, Edit, environment, run
from tests.helpers.repositories import make_bare, repository

Contents = dict[str, bytes]


def contents_of(file: Path) -> Contents:
    with tarfile.open(file) as tar:
        return {name: tar.extractfile(name).read() for name in tar.getnames()}  # type: ignore[union-attr]


def forged(file: Path, change: Callable[[Contents, dict[str, Any]], None]) -> Path:
    """Write a bundle with other files, whose description has the digests of all of them."""
    contents = contents_of(file)
    description = json.loads(contents.pop("bundle.json"))
    del contents["bundle.json.sha256"]
    change(contents, description)
    listed = {name: content for name, content in contents.items() if name != "bundle.json.sig"}
    description["files"] = {name: hashlib.sha256(content).hexdigest() for name, content in listed.items()}
    contents["bundle.json"] = json.dumps(description).encode()
    contents["bundle.json.sha256"] = hashlib.sha256(contents["bundle.json"]).hexdigest().encode()
    other = file.with_name("forged")
    with tarfile.open(other, "w") as tar:
        for name, content in contents.items():
            add_file(tar, name, content)
    return other


def with_files(files: Contents) -> Callable[[Contents, dict[str, Any]], None]:
    return lambda contents, _: contents.update(files)


class Small:
    """A bundle of three files, and what it is opened with."""

    def __init__(self, folder: Path, key: PrivateKey | None = None) -> None:
        digest = hashlib.sha256(b"a wheel").hexdigest()
        self.wanted = Needed("row", "sha256:lock", hashes_of([LockedPackage("one", "1.0", (digest,))]))
        self.file, self.folder = folder / "bundle", folder / "open"
        described = {
            "schema_version": SCHEMA_VERSION, "environment": "row", "lock": "sha256:lock",
            "sources": [], "own_sources": [], "base_image": None,
            "files": {"offline/wheels/one-1.0-py3-none-any.whl": digest, "offline/uv.toml": "", "network.sh": ""},
        }  # fmt: skip
        with tarfile.open(self.file, "w") as tar:
            add_file(tar, "bundle.json", json.dumps(described).encode())
            add_file(tar, "bundle.json.sha256", b"")
            add_file(tar, "offline/wheels/one-1.0-py3-none-any.whl", b"a wheel")
            add_file(tar, "offline/uv.toml", b"no-index = true\n")
            add_file(tar, "network.sh", b"")
        self.file = forged(self.file, with_files({})).rename(self.file)

    def open(self, file: Path, *keys: PrivateKey) -> Any:
        return open_bundle(file, self.folder, self.wanted, [key.public for key in keys], for_build=False)


@pytest.fixture
def small(tmp_path: Path) -> Small:
    return Small(tmp_path)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> list[PrivateKey]:
    made = []
    for name in ("own", "other"):
        file = tmp_path_factory.mktemp(name) / f"{name}.key"
        file.write_bytes(make_keys(b"x")[0])
        made.append(read_private(file, b"x"))
    return made


@pytest.mark.parametrize(
    "added",
    [
        {"offline/wheels/uv-0.13.7-py3-none-any.whl": b"forged"},
        {"offline/wheels/one-1.0-py3-none-any.whl": b"forged"},
        {"offline/wheels/pip-99-py3-none-any.whl": b"forged"},
        {"offline/uv.toml": b'index-url = "https://evil.example"\n'},
        {"offline/sitecustomize.py": b"forged"},
    ],
    ids=lambda added: next(iter(added)).rpartition("/")[2],
)
def test_a_file_that_the_lock_does_not_name_is_refused(small: Small, added: Contents) -> None:
    """The forged uv of a consistent bundle was installed, and ran as root."""
    assert small.open(small.file).wheels.is_dir()
    (name,) = added
    other = forged(small.file, with_files(added))
    with pytest.raises(EnvbuilderError, match=f"{re.escape(name)} in .* is not what the lock of row names") as caught:
        small.open(other)
    assert caught.value.hint


@pytest.mark.parametrize("name", ["../x", "/etc/x", "offline/wheels/../../../x", "./x", "offline//x"])
def test_no_path_leads_out_of_a_bundle(small: Small, name: str) -> None:
    other = forged(small.file, with_files({name: b"x"}))
    with pytest.raises(EnvbuilderError, match="leads out of the bundle"):
        small.open(other)


def test_a_base_image_has_a_name_of_its_own(small: Small) -> None:
    """Loading an image replaces the one that the engine has under its name."""
    other = forged(small.file, lambda _, description: description.update(base_image="ubuntu:22.04"))
    with pytest.raises(EnvbuilderError, match=r"is not a bundle: ubuntu:22\.04"):
        small.open(other)


def test_a_bundle_is_not_larger_than_its_file(small: Small, tmp_path: Path) -> None:
    """Twelve kilobytes with holes became nineteen gigabytes."""

    def sparse(name: str, size: int) -> bytes:
        item = tarfile.TarInfo(name)
        item.type = tarfile.GNUTYPE_SPARSE
        header = bytearray(item.tobuf(tarfile.GNU_FORMAT))
        header[483:495] = b"%011o " % size
        header[148:156] = b"%06o\0 " % (sum(header[:148]) + sum(header[156:512]) + 8 * 32)
        return bytes(header)

    def announced(kind: bytes) -> bytes:
        item = tarfile.TarInfo("x")
        item.type, item.size = kind, 2**42
        return item.tobuf(tarfile.GNU_FORMAT)

    whole = small.file.read_bytes().rstrip(b"\0")
    whole += bytes(-len(whole) % 512)
    links = [tarfile.TarInfo(f"{kind!r}") for kind in (tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.CHRTYPE)]
    for kind, link in zip((tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.CHRTYPE), links, strict=True):
        link.type, link.linkname = kind, "/dev/zero"
    for more in (
        sparse("offline/wheels/large", 2**34),
        sparse("bundle.json", 2**34),
        announced(tarfile.REGTYPE),
        announced(tarfile.XHDTYPE),
        announced(tarfile.GNUTYPE_LONGNAME),
        *(link.tobuf() for link in links),
    ):
        for content in (whole + more, more + whole):
            other = tmp_path / "other"
            other.write_bytes(content + bytes(1024))
            with pytest.raises(EnvbuilderError, match="is not a bundle"):
                small.open(other)
            assert not small.folder.exists()


def test_a_bundle_has_a_limited_number_of_files(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("envbuilder.bundle.read._MOST_FILES", 4)
    with pytest.raises(EnvbuilderError, match="more than 4 files"):
        small.open(small.file)


def signed(small: Small, key: PrivateKey) -> Path:
    text = contents_of(small.file)["bundle.json"]
    with tarfile.open(small.file, "a") as tar:
        add_file(tar, "bundle.json.sig", base64.b64encode(key.sign(text)))
    return small.file


def test_a_signature_is_verified(small: Small, keys: list[PrivateKey]) -> None:
    own, other = keys
    with pytest.raises(ValidationError, match="has no signature, and must have one of"):
        small.open(small.file, own)
    file = signed(small, own)
    assert small.open(file, other, own).key == own.public
    assert small.open(file).key is None, "a signature alone proves nothing"
    with pytest.raises(ValidationError, match="is not of"):
        small.open(file, other)
    changed = forged(file, with_files({"network.sh": b"forged"}))
    with pytest.raises(ValidationError, match="is not of"):
        small.open(changed, own)
    for garbage in (b"", b"x", b"!" * 100, bytes(2**24 + 1)):
        changed = forged(file, with_files({"bundle.json.sig": garbage}))
        with pytest.raises(EnvbuilderError):
            small.open(changed, own)


@pytest.mark.parametrize("command", [("install", "--prefix", "x"), ("build", "--dry-run")], ids=lambda words: words[0])
def test_keys_that_verify_nothing_are_refused(command: tuple[str, ...], tmp_path: Path) -> None:
    """A key of images with a prefix would silently not be asked for a bundle."""
    public = tmp_path / "team.pub"
    public.write_bytes(make_keys(b"")[1])
    name, *words = command
    row = f"verl-v0.6.0-sglang-cpu-{platforms.arch()}"
    alone = run(name, row, *words, "--verify-key", str(public))
    assert alone.returncode == 2 and "hint: add --offline" in alone.stderr
    bundle = ("--offline", str(Small(tmp_path).file))
    prefixed = run(name, row, *words, *bundle, "--verify-key", f"registry.example.com/team={public}")
    assert prefixed.returncode == 2 and "none for bundles" in prefixed.stderr


@pytest.fixture
def equipped(tmp_path: Path, edit: Edit, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, SourceArchive, SourceOptions]:
    """Make a row whose source is a commit, and its archive."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    place = tmp_path / "mirror" / "vllm-project" / "vllm-ascend.git"
    commit = repository(place, {"setup.py": "print('the real one')\n"})
    make_bare(place)
    matrices = edit("compat/vllm_ascend.yaml", "commit: c69ceaca1ecc6b7546b4235465fa1d0d90d902af", f"commit: {commit}")
    row = environment(load(matrices), A2_VLLM)
    options = SourceOptions("git", Index("http://127.0.0.1:9/simple"), str(tmp_path / "mirror"))
    return row, obtain(row, "vllm_ascend", options, print), options


def test_a_source_is_that_of_its_commit(
    equipped: tuple[Any, SourceArchive, SourceOptions], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any bytes passed for a source that is a commit."""
    row, source, options = equipped
    monkeypatch.setattr("envbuilder.bundle.read.built_components", lambda environment: ["vllm_ascend"])
    plan: Any = type("Small", (), {"lock": row.lock, "tools": (), "environment": row.id, "files": {}})()
    monkeypatch.setattr("envbuilder.bundle.write._contents", _only_sources)
    monkeypatch.setattr("envbuilder.bundle.write._wheels", lambda *_: [])
    proven = ProvenSource(*with_commits(row, source, options, print))
    write_bundle(plan, [proven], [], tmp_path / "bundle", None, Lines(Console()))
    opened = bundle_of(row, tmp_path / "bundle", tmp_path / "open", (), for_build=False)
    with tarfile.open(opened.sources["vllm_ascend"].archive) as tar:
        assert tar.extractfile("setup.py").read() == b"print('the real one')\n"  # type: ignore[union-attr]

    def forge(contents: Contents, description: dict[str, Any]) -> None:
        (item,) = description["sources"]
        with tarfile.open(tmp_path / "x.tar.gz", "w:gz") as tar:
            add_file(tar, "setup.py", b"print('forged')\n")
        contents[item["archive"]] = (tmp_path / "x.tar.gz").read_bytes()
        item["sha256"] = hashlib.sha256(contents[item["archive"]]).hexdigest()

    other = forged(tmp_path / "bundle", forge)
    with pytest.raises(EnvbuilderError, match="does not have the files of the commit"):
        bundle_of(row, other, tmp_path / "open", (), for_build=False)


def _only_sources(plan: object, sources: list[ProvenSource], *rest: object) -> list[tuple[str, bytes]]:
    return [(item.place, item.archive.archive.read_bytes()) for item in sources]


def test_a_source_that_an_earlier_version_cached_is_fetched_again(
    equipped: tuple[Any, SourceArchive, SourceOptions], tmp_path: Path
) -> None:
    row, source, options = equipped
    for item in source.archive.parent.glob("*.json"):
        item.unlink()
    with tarfile.open(source.archive, "w:gz") as tar:
        add_file(tar, "setup.py", b"print('another')\n")
    found, commits = with_commits(row, source, options, print)
    assert found == source and commits.texts.keys() == {"."}
