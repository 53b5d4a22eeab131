"""The stand-in of CANN, made from a real torch_npu: it has every function, and those without code fail by name."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from envbuilder.matrix import Matrix
from envbuilder.stand_in import lay_out, spec_of
from envbuilder.stand_in.inside import make_cann
from tests.conftest import A3_SGLANG, environment

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not os.access("/usr/bin/gcc", os.X_OK), reason="gcc, which compiles it, is not installed"
)
DEVICES, GIB = 2, 3


class Made:
    """A stand-in in a folder, and the torch_npu that it was made from."""

    def __init__(self, folder: Path, torch_npu: Path) -> None:
        self.folder, self.torch_npu = folder, torch_npu
        self.libraries = folder / "cann" / f"{platform.machine()}-linux" / "lib64"


@pytest.fixture(scope="module")
def made(matrix: Matrix, tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("stand-in")
    row = environment(matrix, f"verl-v0.6.0-sglang-cpu-{platform.machine()}")
    assert row.lock is not None
    (folder / "torch_npu.txt").write_text(row.lock.only(("torch_npu",)), encoding="utf-8")
    target = ["--target", str(folder / "packages"), "--requirement", str(folder / "torch_npu.txt")]
    uv = [str(Path(sys.executable).with_name("uv")), "pip", "install", "--python-version", "3.11"]
    subprocess.run([*uv, "--no-deps", "--require-hashes", *target], check=True)
    places = {"home": "cann", "set_env": "toolkit/set_env.sh", "nnal_set_env": "nnal/atb/set_env.sh"}
    lay_out(spec_of(environment(matrix, A3_SGLANG), devices=DEVICES, hook="/hook"), folder)
    spec = {
        **json.loads((folder / "spec.json").read_text(encoding="utf-8")),
        **{name: str(folder / path) for name, path in places.items()},
        "install_info": str(folder / "etc/install.info"),
        "npu_smi_path": str(folder / "bin/npu-smi"),
        "memory_gib": str(GIB),
    }
    (folder / "spec.json").write_text(json.dumps(spec), encoding="utf-8")
    torch_npu = folder / "packages" / "torch_npu"
    words = [sys.executable, str(folder / "inside" / "make_cann.py"), str(folder / "spec.json"), str(torch_npu)]
    assert "stubs" in subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return Made(folder, torch_npu)


def test_nothing_that_torch_npu_needs_is_missing(made: Made) -> None:
    files = sorted(made.torch_npu.rglob("*.so*"))
    libraries = {path.name: path for path in made.folder.rglob("*.so") if made.torch_npu not in path.parents}
    assert make_cann.needed_libraries(files) <= libraries.keys()
    symbols = make_cann.needed_symbols(files)
    assert len(symbols) > 50
    assert symbols <= {name for path in libraries.values() for name in make_cann.defined_by(path, "--dynamic")}


def test_the_folder_is_like_that_of_an_installed_toolkit(made: Made) -> None:
    script = f". {made.folder}/toolkit/set_env.sh; . {made.folder}/nnal/atb/set_env.sh; env"
    shown = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, env={}).stdout
    variables = dict(line.split("=", 1) for line in shown.splitlines())
    home = Path(variables["ASCEND_HOME_PATH"])
    assert (home / "include/acl/acl_rt.h").is_file()
    assert (home / "lib64/libascendcl.so").is_file()
    assert variables["PYTHONPATH"].split(":")[0] == "/hook"
    assert any((Path(folder) / "libatb.so").is_file() for folder in variables["LD_LIBRARY_PATH"].split(":"))
    assert (made.folder / "etc/install.info").read_text(encoding="utf-8") == f"Toolkit_InstallPath={home}\n"
    refused = subprocess.run([home / "bin/bisheng", "x.cpp"], capture_output=True, text=True, check=False)
    assert (refused.returncode, refused.stderr) == (1, "stand-in of CANN: bisheng compiles nothing\n")


@pytest.fixture(scope="module")
def acl(made: Made) -> ctypes.CDLL:
    # the others name these, and find them where they are loaded
    library, _ = (ctypes.CDLL(str(made.libraries / name)) for name in make_cann.SHARED)
    library.aclrtGetSocName.restype = library.aclGetRecentErrMsg.restype = ctypes.c_char_p
    assert library.aclInit(None) == 0
    assert library.aclrtSetDevice(0) == 0
    return library


def test_devices_and_chips(acl: ctypes.CDLL) -> None:
    count = ctypes.c_uint32()
    assert acl.aclrtGetDeviceCount(ctypes.byref(count)) == 0
    assert (count.value, acl.aclrtGetSocName()) == (DEVICES, b"Ascend910_9391")
    assert acl.aclrtSetDevice(DEVICES) != 0, "there is no such device"


def _free(acl: ctypes.CDLL) -> int:
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    assert acl.aclrtGetMemInfo(0, ctypes.byref(free), ctypes.byref(total)) == 0
    assert total.value == GIB * 2**30
    return free.value


def test_memory_is_counted_and_ends(acl: ctypes.CDLL) -> None:
    before, memory = _free(acl), ctypes.c_void_p()
    assert acl.aclrtMalloc(ctypes.byref(memory), ctypes.c_size_t(2**20), 0) == 0
    assert _free(acl) == before - 2**20
    assert acl.aclrtMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(GIB * 2**30), 0) == 207001
    assert acl.aclrtFree(memory) == 0
    assert _free(acl) == before


def test_another_process_sees_exported_memory(acl: ctypes.CDLL, made: Made) -> None:
    memory, key = ctypes.c_void_p(), ctypes.create_string_buffer(65)
    size = ctypes.c_size_t(64)
    assert acl.aclrtMalloc(ctypes.byref(memory), size, 0) == 0
    assert memory.value is not None
    ctypes.memmove(memory.value, b"weights", 7)
    assert acl.aclrtIpcMemGetExportKey(memory, size, key, ctypes.c_size_t(65), ctypes.c_uint64(1)) == 0
    code = (
        "import ctypes, sys; acl = ctypes.CDLL(sys.argv[1]); acl.aclInit(None); acl.aclrtSetDevice(1)\n"
        "at = ctypes.c_void_p(); key = sys.argv[2].encode()\n"
        "assert acl.aclrtIpcMemImportByKey(ctypes.byref(at), key, ctypes.c_uint64(1)) == 0\n"
        "print(ctypes.string_at(at.value, 7).decode()); ctypes.memmove(at.value, b'changed', 7)\n"
        "assert acl.aclrtIpcMemClose(key) == 0; assert acl.aclrtIpcMemClose(key) == 0\n"
    )
    words = [sys.executable, "-c", code, str(made.libraries / "libascendcl.so"), key.value.decode()]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "weights\n"
    assert ctypes.string_at(memory.value, 7) == b"changed"
    assert acl.aclrtIpcMemImportByKey(ctypes.byref(ctypes.c_void_p()), b"nonsense", ctypes.c_uint64(1)) != 0
    assert acl.aclrtFree(memory) == 0


def test_a_missing_function_fails_with_its_name(acl: ctypes.CDLL, made: Made) -> None:
    """The caller gets an error, and the message names the function."""
    real = make_cann.defined_by(made.libraries / "libascendcl.so", "--dynamic")
    needed = make_cann.needed_symbols(made.torch_npu.rglob("*.so*"))
    stub = next(name for name in sorted(needed - real) if name.startswith("aclop"))
    library = ctypes.CDLL(str(made.libraries / make_cann.owner_of(stub)))
    assert library[stub]() == 200001
    assert stub in acl.aclGetRecentErrMsg().decode()
