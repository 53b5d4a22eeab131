"""Bundles, the files for sites without a network: written whole, and refused if any byte was changed."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from envbuilder import platforms, versions
from envbuilder.bundle import (
    BuildBase,
    Bundle,
    Needed,
    ProvenSource,
    check_output,
    environment_in,
    open_bundle,
    require_lock,
    write_bundle,
)
from envbuilder.bundle.read import SCHEMA_VERSION, hashes_of
from envbuilder.cli.console import Console
from envbuilder.cli.progress import Lines
from envbuilder.environment.locks import Lock, LockedPackage, split_lock
from envbuilder.errors import EnvbuilderError, NetworkError, UsageError
from envbuilder.files import add_file
from envbuilder.inputs.source_archives import check_sources
from envbuilder.lock.index import IndexFile
from envbuilder.matrix import Matrix
from envbuilder.plan import Plan, SourceArchive, make_plan
from envbuilder.signing.keys import PublicKey
from tests.conftest import A2_VLLM, A2_X86, environment, run

WHEEL, OTHER = b"a wheel", b"another"


class FakeIndex:
    """A package index that has these files, and states this size for each."""

    def __init__(self, url: str, files: dict[str, bytes], size: int | None = 1) -> None:
        self.shown, self.reads, self._size = url, 0, size
        self._files = files

    def files(self, name: str) -> list[IndexFile]:
        return [
            IndexFile(file, file.split("-")[1], True, None, file, hashlib.sha256(content).hexdigest())
            for file, content in self._files.items()
            if file.startswith(f"{name}-")
        ]

    def size(self, file: IndexFile) -> int | None:
        return self._size

    def read(self, file: IndexFile) -> bytes:
        self.reads += 1
        return self._files[file.name]


def lock(**contents: bytes) -> Lock:
    packages = [LockedPackage(name, "1.0", (hashlib.sha256(data).hexdigest(),)) for name, data in contents.items()]
    return Lock(split_lock(packages, {"pins": ("one",)}), "0" * 64, {})


@pytest.fixture
def plan(matrix: Matrix) -> Plan:
    found, locked = make_plan(environment(matrix, A2_VLLM)), lock(one=WHEEL, two=OTHER)
    files = {path: text for path, text in found.files.items() if not path.startswith("locks/")}
    files |= {f"locks/{name}.txt": text for name, text in locked.files().items()}
    tool = LockedPackage("uv", "0.1", (hashlib.sha256(b"uv").hexdigest(),))
    return replace(found, lock=locked, files=files, tools=(tool,))


@pytest.fixture
def source(tmp_path: Path) -> SourceArchive:
    archive = tmp_path / "thing-1.tar.gz"
    archive.write_bytes(b"source")
    return SourceArchive("thing", "sdist", "1", archive, hashlib.sha256(b"source").hexdigest(), 1, ".")


@pytest.fixture
def indexes() -> list[Any]:
    first = {"one-1.0-py3-none-any.whl": WHEEL, "uv-0.1-py3-none-any.whl": b"uv"}
    return [FakeIndex("https://first", first), FakeIndex("https://second", {"two-1.0-py3-none-any.whl": OTHER})]


def opened(
    file: Path, folder: Path, plan: Plan, keys: tuple[PublicKey, ...] = (), *, for_build: bool = False,
    unpack: bool = True,
) -> Bundle:  # fmt: skip
    assert plan.lock is not None
    wanted = Needed(plan.environment, plan.lock.digest, hashes_of((*plan.lock.packages, *plan.tools)))
    return open_bundle(file, folder, wanted, keys, for_build=for_build, unpack=unpack)


def test_a_bundle_holds_what_the_lock_names(
    plan: Plan, source: SourceArchive, indexes: list[Any], tmp_path: Path
) -> None:
    file = tmp_path / "out" / "bundle"
    size = write_bundle(plan, [ProvenSource(source, None)], indexes, file, None, Lines(Console()))
    assert size == file.stat().st_size
    assert environment_in(file) == A2_VLLM
    found = opened(file, tmp_path / "open", plan)
    with tarfile.open(file) as tar:
        texts = {path: tar.extractfile(path).read().decode() for path in (*plan.files, "Dockerfile")}  # type: ignore[union-attr]
    assert texts.pop("Dockerfile").startswith("# Generated") and texts == plan.files
    assert sorted(path.name for path in found.wheels.iterdir()) == [
        "one-1.0-py3-none-any.whl", "two-1.0-py3-none-any.whl", "uv-0.1-py3-none-any.whl",
    ]  # fmt: skip
    assert found.sources["thing"]._replace(archive=source.archive) == source
    assert found.sources["thing"].archive.read_bytes() == b"source"
    assert found.base_image is None and not found.base_archive.exists()
    assert not (found.folder / "install.sh").exists(), "nothing is unpacked that is not used"


def test_the_size_is_said_before_anything_is_downloaded(
    plan: Plan, source: SourceArchive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"one-1.0-py3-none-any.whl": WHEEL, "two-1.0-py3-none-any.whl": OTHER, "uv-0.1-py3-none-any.whl": b"uv"}
    source.archive.write_bytes(bytes(10**7))
    large: Any = FakeIndex("https://index", files, size=10**9)
    said: list[tuple[str, int]] = []
    progress = Lines(Console())
    monkeypatch.setattr(progress, "say", lambda text: said.append((text, large.reads)))
    write_bundle(plan, [ProvenSource(source, None)], [large], tmp_path / "bundle", None, progress)
    assert said == [("downloads 3.00 GB; the bundle will have 3.01 GB", 0)]
    silent: Any = FakeIndex("https://index", files, size=None)
    write_bundle(plan, [], [silent], tmp_path / "bundle", None, progress)
    assert said[1][0] == "downloads more than 0.00 GB: the index does not state the size of 3 files"


def test_a_bundle_for_building_has_the_base_image_and_its_packages(
    plan: Plan, source: SourceArchive, indexes: list[Any], tmp_path: Path
) -> None:
    (tmp_path / "debs").mkdir()
    (tmp_path / "debs" / "git_arm64.deb").write_bytes(b"a package")
    (tmp_path / "debs" / "Packages").write_text("Package: git\n")
    base = BuildBase("envbuilder/base:0123456789ab", io.BytesIO(b"an image"), tuple((tmp_path / "debs").iterdir()))
    write_bundle(plan, [ProvenSource(source, None)], indexes, tmp_path / "bundle", base, Lines(Console()))
    small = opened(tmp_path / "bundle", tmp_path / "small", plan)
    assert not small.base_archive.exists() and not (small.wheels.parent / "debs").exists(), (
        "an installation needs neither"
    )
    found = opened(tmp_path / "bundle", tmp_path / "open", plan, for_build=True)
    assert found.base_image == "envbuilder/base:0123456789ab" and found.base_archive.read_bytes() == b"an image"
    (tmp_path / "context").mkdir()
    found.lay_out(tmp_path / "context")
    laid = {str(path.relative_to(tmp_path / "context")) for path in (tmp_path / "context").rglob("*.*")}
    assert laid >= {"offline/debs/git_arm64.deb", "offline/wheels/one-1.0-py3-none-any.whl"}
    assert (tmp_path / "context" / "offline" / "debs" / "Packages").read_text() == "Package: git\n"


def test_a_bundle_of_another_environment_lock_or_purpose_is_refused(
    plan: Plan, indexes: list[Any], tmp_path: Path
) -> None:
    write_bundle(plan, [], indexes, tmp_path / "bundle", None, Lines(Console()))
    with pytest.raises(EnvbuilderError, match=f"is a bundle of {A2_VLLM}$"):
        opened(tmp_path / "bundle", tmp_path / "one", replace(plan, environment="another"))
    with pytest.raises(EnvbuilderError, match="made from another lock"):
        opened(tmp_path / "bundle", tmp_path / "two", replace(plan, lock=lock(one=WHEEL)))
    with pytest.raises(EnvbuilderError, match="is only for installing"):
        opened(tmp_path / "bundle", tmp_path / "three", plan, for_build=True)
    assert not any((tmp_path / name).exists() for name in ("one", "two", "three")), (
        "refused before anything is unpacked"
    )
    described = opened(tmp_path / "bundle", tmp_path / "four", plan, unpack=False)
    assert described.sources == {} and not (tmp_path / "four").exists()


def test_a_full_disk_is_not_reported_as_a_broken_bundle(
    plan: Plan, indexes: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_bundle(plan, [], indexes, tmp_path / "bundle", None, Lines(Console()))

    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("envbuilder.bundle.read._unpack", full)
    with pytest.raises(OSError, match="No space left"):
        opened(tmp_path / "bundle", tmp_path / "open", plan)


def test_a_bundle_needs_a_lock(matrix: Matrix) -> None:
    with pytest.raises(EnvbuilderError) as caught:
        require_lock(environment(matrix, A2_X86))
    assert caught.value.hint == f"envbuilder lock {A2_X86}"


def test_a_package_that_no_index_has_is_named_and_no_file_is_written(
    plan: Plan, indexes: list[Any], tmp_path: Path
) -> None:
    with pytest.raises(NetworkError, match=r"no index has two 1\.0 as it was locked; searched: https://first"):
        write_bundle(plan, [], indexes[:1], tmp_path / "bundle", None, Lines(Console()))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_every_changed_byte_is_refused(plan: Plan, source: SourceArchive, indexes: list[Any], tmp_path: Path) -> None:
    file = tmp_path / "bundle"
    write_bundle(plan, [ProvenSource(source, None)], indexes, file, None, Lines(Console()))
    whole = file.read_bytes()
    with tarfile.open(file) as tar:
        members = [member for member in tar if member.isfile() and member.size]
    # scripts, Dockerfile, settings, source, three wheels, the description and its checksum
    assert len(members) == 10 + sum(bool(text) for text in plan.files.values())
    # the first byte of each file, and every byte of the description of the others
    described = next(member for member in members if member.name == "bundle.json")
    places = [member.offset_data for member in members]
    places += range(described.offset_data, described.offset_data + described.size)
    for number, place in enumerate(places):
        changed = bytearray(whole)
        changed[place] ^= 1
        file.write_bytes(changed)
        with pytest.raises(
            EnvbuilderError, match=r"was changed|is not a bundle|are not those that its description lists"
        ):
            opened(file, tmp_path / f"open-{number}", plan)


def test_two_writers_of_one_file(plan: Plan, indexes: list[Any], tmp_path: Path) -> None:
    """The second writer starts and ends while the first is writing; each writes a whole file."""
    file = tmp_path / "bundle"

    class Slow(Lines):
        def started(self, title: str) -> None:
            write_bundle(plan, [], indexes, file, None, Lines(Console()))
            opened(file, tmp_path / "first", plan)

    write_bundle(plan, [], indexes, file, None, Slow(Console()))
    opened(file, tmp_path / "second", plan)
    assert [item.name for item in tmp_path.iterdir() if item.is_file()] == ["bundle"]


@pytest.mark.parametrize("output", ["-", "/dev/null", "."])
def test_only_a_file_is_replaced(output: str) -> None:
    with pytest.raises(UsageError, match="a bundle is a file"):
        check_output(Path(output))


def test_a_link_leads_to_the_file(plan: Plan, indexes: list[Any], tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write_bundle(plan, [], indexes, tmp_path / "link", None, Lines(Console()))
    assert (tmp_path / "link").is_symlink() and environment_in(tmp_path / "target") == A2_VLLM
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "target"], "no temporary file is left"


@pytest.mark.parametrize(
    "changed",
    [{"archive": "/etc/hostname"}, {"archive": "../../etc/hostname"}, {"sha256": "0" * 64}, None],
    ids=["absolute", "outside", "another digest", "no table"],
)
def test_a_description_with_a_wrong_path_digest_or_form_is_refused(
    plan: Plan, source: SourceArchive, indexes: list[Any], tmp_path: Path, changed: dict[str, str] | None
) -> None:
    file, other = tmp_path / "bundle", tmp_path / "other"
    write_bundle(plan, [ProvenSource(source, None)], indexes, file, None, Lines(Console()))
    with tarfile.open(file) as old, tarfile.open(other, "w") as new:
        contents = {name: old.extractfile(name).read() for name in old.getnames()}  # type: ignore[union-attr]
        described = json.loads(contents["bundle.json"])
        if changed is None:
            described["files"] = list(described["files"])
        else:
            described["sources"][0] |= changed
        contents["bundle.json"] = json.dumps(described).encode()
        contents["bundle.json.sha256"] = hashlib.sha256(contents["bundle.json"]).hexdigest().encode()
        for name, content in contents.items():
            add_file(new, name, content)
    with pytest.raises(EnvbuilderError, match="is not a bundle"):
        opened(other, tmp_path / "open", plan)


def test_sources_are_those_of_the_row(matrix: Matrix, tmp_path: Path) -> None:
    row = environment(matrix, f"verl-v0.6.0-sglang-cpu-{platforms.arch()}")
    assert row.lock is not None
    names, locked = make_plan(row).components, row.lock.sdists
    (tmp_path / "x").touch()
    right = {
        name: SourceArchive(
            name, "sdist", versions.public(row.pins[name].version), tmp_path / "x", locked[name], 1,
            matrix.components[name].sdist.holds,  # type: ignore[union-attr]
        )
        for name in names
    }  # fmt: skip
    check_sources(row, names, right, "the bundle")
    first = names[0]
    for other in ({"into": "../.."}, {"strip": 0}, {"reference": "9"}, {"sha256": "0" * 64}, {"kind": "git"}):
        with pytest.raises(EnvbuilderError, match="that the row names"):
            check_sources(row, names, {**right, first: right[first]._replace(**other)}, "the bundle")
    with pytest.raises(EnvbuilderError, match="but none"):
        check_sources(row, names, {}, "the bundle")


def test_a_bundle_of_another_version_is_refused(
    plan: Plan, indexes: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("envbuilder.bundle.write.SCHEMA_VERSION", SCHEMA_VERSION + 1)
        write_bundle(plan, [], indexes, tmp_path / "bundle", None, Lines(Console()))
    with pytest.raises(EnvbuilderError, match="another version of envbuilder"):
        opened(tmp_path / "bundle", tmp_path / "open", plan)


def test_files_that_are_not_bundles_are_refused(tmp_path: Path, plan: Plan, indexes: list[Any]) -> None:
    for content in (b"", b"text", b"\0" * 10240, gzip.compress(bytes(10**6))[:500]):
        (tmp_path / "file").write_bytes(content)
        with pytest.raises(EnvbuilderError, match="is not a bundle"):
            opened(tmp_path / "file", tmp_path / "open", plan)
    write_bundle(plan, [], indexes, tmp_path / "bundle", None, Lines(Console()))
    with tarfile.open(tmp_path / "bundle", "a") as tar:
        tar.addfile(tarfile.TarInfo("more"), io.BytesIO())
    with pytest.raises(EnvbuilderError, match="are not those that its description lists"):
        opened(tmp_path / "bundle", tmp_path / "open", plan)


def test_packages_of_openeuler_are_not_gathered(tmp_path: Path) -> None:
    file = tmp_path / "x.tar"
    result = run("bundle", "verl-v0.9.1-vllm-a3-aarch64", "--os", "openeuler", "--for-build", "-o", str(file))
    assert result.returncode == 2 and "not of openEuler 24.03" in result.stderr and not file.exists()
