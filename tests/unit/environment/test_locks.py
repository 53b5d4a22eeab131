"""Locks: their parts, their files, and the folders of those files."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from envbuilder import paths
from envbuilder.environment import Catalog
from envbuilder.environment.locks import HASHED, Lock, LockedPackage, read_lock, split_lock
from envbuilder.errors import MatrixError, UsageError
from envbuilder.files import digest_of
from envbuilder.lock.uv import save_lock
from envbuilder.matrix import Matrix, load
from envbuilder.requirements import normalize
from tests.conftest import A2_VLLM, A3_SGLANG, Edit, environment


def package(name: str, version: str = "1.0", *digits: str) -> LockedPackage:
    return LockedPackage(name, version, tuple(digit * 64 for digit in digits or ("0",)))


def lock(*packages: LockedPackage, pins: tuple[str, ...] = ("alpha",)) -> Lock:
    parts = split_lock(packages, {"torch": ("torch",), "build": ("wheel",), "large": ("torchvision",), "pins": pins})
    return Lock(parts, "f" * 64, {"verl": "a" * 64, "sglang": "b" * 64}, "uv 0.9.8")


WHOLE = lock(
    *map(package, ("torchvision", "torch", "alpha", "wheel")), package("zeta", "2.0+cpu", "1", "2")
)  # fmt: skip


def names(parts: dict[str, tuple[LockedPackage, ...]]) -> dict[str, list[str]]:
    return {part: [item.name for item in items] for part, items in parts.items()}


# --- parts -------------------------------------------------------------------------------------------------


def test_packages_are_split_by_normalized_name_and_sorted() -> None:
    packages = [package(name) for name in ("zope.interface", "b", "Torch-NPU", "ray", "torch", "a", "timm", "wheel")]
    parts = {
        "torch": ("torch", "torch_npu"),
        "build": ("wheel",),
        "large": ("timm",),
        "pins": ("ray", "zope_interface"),
    }
    assert names(split_lock(packages, parts)) == {
        "torch": ["Torch-NPU", "torch"],
        "build": ["wheel"],
        "large": ["timm"],
        "settled": ["a", "b"],
        "pins": ["ray", "zope.interface"],
        "unhashed": [],
    }


def test_a_package_is_in_the_first_part_that_names_it() -> None:
    found = names(split_lock([package("a")], {"build": ("a",), "large": ("a",), "pins": ("a",)}))
    assert found == {"torch": [], "build": ["a"], "large": [], "settled": [], "pins": [], "unhashed": []}


def test_packages_and_versions_of_all_parts() -> None:
    assert [item.name for item in WHOLE.packages] == ["alpha", "torch", "torchvision", "wheel", "zeta"]
    assert WHOLE.versions == {**dict.fromkeys(("alpha", "torch", "torchvision", "wheel"), "1.0"), "zeta": "2.0+cpu"}


def test_a_part_is_a_requirements_file_with_hashes() -> None:
    hashes = [f"    --hash=sha256:{digit * 64}" for digit in "12"]
    assert WHOLE.part("settled") == f"zeta==2.0+cpu \\\n{hashes[0]} \\\n{hashes[1]}\n"


def test_only_takes_normalized_names() -> None:
    made = lock(package("torch-npu"), package("torch"))
    assert made.only({"torch_npu", "absent"}) == package("torch-npu").text
    assert made.only({"torch-npu"}) == "", "a name that is not normalized matches no package"
    assert made.only(()) == ""


@pytest.mark.parametrize("name", ["torch-npu", "Zope.Interface", "ruamel.yaml-clib", "a_b", "A"])
def test_names_are_normalized_in_the_same_way_as_requirements(name: str) -> None:
    assert lock(package(name)).only({normalize(name)}) == package(name).text


def test_the_digest_is_that_of_the_packages() -> None:
    assert WHOLE.digest == digest_of("".join(item.text for item in WHOLE.packages).encode())
    same = Lock(split_lock(WHOLE.packages, {}), "0" * 64, {}, "uv 1.0")
    assert same.digest == WHOLE.digest, "neither the resolver, the inputs nor the parts change what is installed"
    assert lock(package("alpha", "1.1")).digest != lock(package("alpha")).digest


# --- files -------------------------------------------------------------------------------------------------


def test_a_lock_is_read_from_its_files() -> None:
    assert set(WHOLE.files()) == {"origin", *HASHED}
    assert read_lock(WHOLE.files()) == WHOLE


def test_a_package_without_a_hash_has_a_part_of_its_own() -> None:
    bare = LockedPackage("triton-ascend", "3.2.2", ())
    parts = split_lock([package("alpha"), bare], {"large": ("triton_ascend",), "pins": ("alpha",)})
    assert (names(parts)["unhashed"], names(parts)["large"]) == (["triton-ascend"], [])
    made = Lock(parts, "f" * 64, {}, "uv 1.0")
    assert made.files()["unhashed"] == "triton-ascend==3.2.2\n"
    assert read_lock(made.files()) == made


def test_a_package_that_lost_its_hash_is_damage() -> None:
    files = WHOLE.files()
    with pytest.raises(MatrixError, match="the lock is damaged"):
        read_lock({**files, "pins": files["pins"] + "beta==1.0\n"})


def test_a_part_without_packages_has_no_file() -> None:
    small = lock(package("alpha"))
    assert set(small.files()) == {"origin", "pins"}
    assert read_lock(small.files()) == small


def test_the_origin_records_the_inputs_of_a_lock() -> None:
    assert WHOLE.files()["origin"].splitlines() == [
        "resolver: uv 0.9.8",
        f"inputs: {'f' * 64}",
        f"sdist: sglang sha256:{'b' * 64}",
        f"sdist: verl sha256:{'a' * 64}",
    ]


def test_no_files_mean_no_lock() -> None:
    assert read_lock({}) is None


def test_a_lock_without_its_origin_fits_no_row() -> None:
    files = WHOLE.files()
    del files["origin"]
    found = read_lock(files)
    assert found is not None and (found.inputs, found.sdists, found.parts) == ("", {}, WHOLE.parts)


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("alpha==1.0 \\\n", "alpha==1.0\n", 1),
        (f"    --hash=sha256:{'0' * 64}\n", "", 1),
        (f"sha256:{'0' * 64}", f"sha256:{'0' * 63}", 1),
        ("beta==", "<<<<<<< HEAD\nbeta==", 3),
        (f"beta==1.0 \\\n    --hash=sha256:{'0' * 64}\n", "beta==1.0", 3),
        (f"beta==1.0 \\\n    --hash=sha256:{'0' * 64}\n", f"beta==1.0 \\\n    --hash=sha256:{'0' * 64} \\\n", 4),
    ],
)  # fmt: skip
def test_a_damaged_lock_loses_no_package_silently(old: str, new: str, line: int) -> None:
    files = lock(package("alpha"), package("beta"), pins=("alpha", "beta")).files()
    assert old in files["pins"]
    with pytest.raises(MatrixError, match="the lock is damaged") as caught:
        read_lock({**files, "pins": files["pins"].replace(old, new)}, "folder")
    assert caught.value.where is not None and caught.value.where[:2] == ("folder/pins.txt", line)


def test_saving_returns_whether_anything_changed(tmp_path: Path) -> None:
    folder = tmp_path / "locks" / "x"
    assert save_lock(WHOLE, folder)
    assert {path.stem: path.read_text() for path in folder.iterdir()} == WHOLE.files()
    assert not save_lock(WHOLE, folder)


def test_saving_removes_the_file_of_a_part_that_is_empty_now(tmp_path: Path) -> None:
    save_lock(WHOLE, tmp_path)
    assert save_lock(lock(package("alpha")), tmp_path)
    assert sorted(path.stem for path in tmp_path.iterdir()) == ["origin", "pins"]


def test_every_built_in_lock_is_the_one_that_would_be_written(matrix: Matrix) -> None:
    rows = [row for row in Catalog(matrix).environments if row.lock is not None]
    assert len(rows) == len(list(paths.dockerfiles().glob("*/*/*/locks")))
    for row in rows:
        assert row.lock is not None
        files = row.lock.files()
        assert files == {
            name: text for name, text in matrix.lock_files(row.coordinates.folder).items() if name in files
        }


# --- folders -----------------------------------------------------------------------------------------------


def put(lock: Lock, folder: Path) -> Path:
    save_lock(lock, paths.lock_folder(folder, environment(load(), A2_VLLM).coordinates.folder))
    return folder


def test_a_folder_of_a_user_may_have_its_own_locks(edit: Edit) -> None:
    folder = edit("hardware/cpu.yaml", "title: CPU environment", "title: Another")
    built_in = environment(load(), A2_VLLM).lock
    assert built_in is not None and environment(load(folder), A2_VLLM).lock == built_in, (
        "an overlay uses the built-in locks"
    )
    assert environment(load(put(WHOLE, folder)), A2_VLLM).lock == WHOLE


def test_a_complete_folder_of_matrices_uses_no_built_in_lock(tmp_path: Path) -> None:
    folder = tmp_path / "whole"
    shutil.copytree(paths.matrices(), folder)
    assert environment(load(folder), A2_VLLM).lock is None
    assert environment(load(put(WHOLE, folder)), A2_VLLM).lock == WHOLE


def test_a_damaged_lock_is_named_with_its_file(edit: Edit) -> None:
    folder = put(WHOLE, edit("hardware/cpu.yaml", "title: CPU environment", "title: Another"))
    pins = paths.lock_folder(folder, environment(load(), A2_VLLM).coordinates.folder) / "pins.txt"
    pins.write_text(pins.read_text() + "beta==1.0\n")
    with pytest.raises(MatrixError) as caught:
        _ = environment(load(folder), A2_VLLM).lock
    assert caught.value.where is not None and caught.value.where[:2] == (str(pins), 3)


@pytest.mark.parametrize("name", [f"{A2_VLLM}.txt", f"{A2_VLLM}/pins.txt"])
def test_a_lock_of_an_older_envbuilder_is_refused(edit: Edit, name: str) -> None:
    folder = edit("hardware/cpu.yaml", "title: CPU environment", "title: Another")
    (folder / "locks" / name).parent.mkdir(parents=True)
    (folder / "locks" / name).write_text("a==1\n")
    with pytest.raises(UsageError, match="is a lock of an older envbuilder") as caught:
        load(folder)
    assert str(caught.value.hint).endswith("and run envbuilder lock again")


# --- what a resolver reads ---------------------------------------------------------------------------------


def test_the_toolkit_bounds_a_package_that_the_row_leaves_open(matrix: Matrix) -> None:
    """CANN's compilers import numpy, and no package on an index says which one they need."""

    def numpy_of(identifier: str) -> list[str]:
        row = environment(matrix, identifier)
        open_row = row.changed(pins={name: pin for name, pin in row.pins.items() if name != "numpy"})
        return [line for line in open_row.packages.requirements if line.startswith("numpy")]

    assert "numpy>=1.19.2,<=1.24" in numpy_of(A3_SGLANG)
    assert "numpy>=1.19.2,<=1.24" not in numpy_of("verl-v0.6.0-sglang-cpu-aarch64"), "this hardware has no CANN"
