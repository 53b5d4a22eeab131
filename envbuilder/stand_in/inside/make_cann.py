"""Makes a folder like that of an installed CANN, from the libraries and functions that an installed torch_npu needs.

    python3 make_cann.py SPEC TORCH_NPU

SPEC is a JSON file: `cann` (the version), `home`, `set_env` and `nnal_set_env` (paths of the toolkit), `install_info`
(a file that names the toolkit), `soc`, `devices` and `memory_gib` (of the hardware), `npu_smi` and `npu_smi_path` (a
program), and `hook` (a folder for PYTHONPATH); the last three may be empty. TORCH_NPU is the folder of the package.
Needs gcc and binutils, and only Python's own modules.

Every shared library is made that the package needs and that neither the package nor torch contains. The functions in
`sources/` are real; all others are stubs that fail under their own names.
"""

from __future__ import annotations

import json
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

SOURCES = Path(__file__).resolve().parent / "sources"
# the libraries with functions that are real, and the beginnings of the names of their sources; torch_npu names only the
# first where it calls the runtime
REAL = {
    "libascendcl.so": ("acl_", "runtime"),
    "libc_sec.so": ("securec",),
    "libhccl.so": ("hccl",),
    "libruntime.so": ("runtime",),
}
# every other library is linked with these: stubs call a function of one, and torch_npu uses others without a link
SHARED = ("libascendcl.so", "libc_sec.so")
# opened by name at run time: if they exist, an error names the missing function, and not only a missing library
OPENED = (
    "libascend_dump.so", "libascend_hal.so", "libascendalog.so", "liberror_manager.so", "libmetadef.so", "libmmpa.so",
    "libmsprofiler.so", "libnnopbase.so", "libopapi.so", "libplatform.so", "libprofapi.so", "libregister.so",
    "libtiling_api.so", "libunified_dlog.so",
)  # fmt: skip
# the libraries of the system, of Python and of torch
OTHERS = re.compile(
    r"lib(c|m|dl|rt|util|pthread|gcc_s|stdc\+\+|gomp[-\w]*|python[\d.]*)\.so|ld-linux|lib(torch|c10|shm|tensorpipe|npu_profiler)"
)
VENDOR = re.compile(
    r"acl|Hccl|hccl|ge[A-Z]|Ge[A-Z]|Aml|Msprof|rt[A-Z]|_Z.*(2ge|3atb|4Mki|2tf|6domi|6parser|8parser|14ascend_private|aclgrph)"
)
# the library of a symbol: the first pattern that matches its beginning
OWNERS = (
    (re.compile(r"Hccl|hccl"), "libhccl.so"),
    (re.compile(r"aclop|aclCompile|aclGenGraph|aclSetCompileopt"), "libacl_op_compiler.so"),
    (re.compile(r"acltdt"), "libacl_tdt_channel.so"),
    (re.compile(r"acl|Aml|Msprof|rt"), "libascendcl.so"),
    (re.compile(r".*(3atb|4Mki)"), "libatb.so"),
    (re.compile(r".*ascend_private"), "libascend_protobuf.so"),
    (re.compile(r".*(aclgrph|parser)"), "libfmk_parser.so"),
    (re.compile(r".*2ge.*(Session|GEInit|GEFinal|GEGet)"), "libge_runner.so"),
    (re.compile(r""), "libgraph.so"),
)
# the names of the vendor's compilers, for programs that refuse to compile
COMPILERS = ("bisheng", "ccec", "bishengir-compile")
# triton-ascend reads the targets of a compiler when it is imported
COMPILER = """#!/bin/sh
if [ "$1" = -print-targets ]; then echo hiipu64; exit; fi
echo "stand-in of CANN: {name} compiles nothing" >&2
exit 1
"""
# vllm-ascend calls a function that the headers of some torch_npu releases do not declare, and some not even its type
GRANULARITY = {
    "} aclrtMemGranularityOptions;": """typedef enum {
    ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM
} aclrtMemGranularityOptions;""",
    "aclrtMemGetAllocationGranularity": """#ifdef __cplusplus
extern "C" aclError aclrtMemGetAllocationGranularity(aclrtPhysicalMemProp *, aclrtMemGranularityOptions, size_t *);
#endif""",
}


def run(*command: str | Path) -> str:
    return subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout  # noqa: S603


# --- what torch_npu needs ---------------------------------------------------------------------------------------------


def needed_libraries(files: Iterable[Path]) -> set[str]:
    """Return the libraries of the toolkit that these files name."""
    files = list(files)
    own = {file.name for file in files}
    named = {name for file in files for name in re.findall(r"NEEDED.*\[(.+)\]", run("readelf", "-dW", file))}
    return {name for name in named - own if not OTHERS.match(name)}


def needed_symbols(files: Iterable[Path]) -> set[str]:
    """Return the functions and tables of the toolkit that these files use and do not define."""
    used: set[str] = set()
    defined: set[str] = set()
    for file in files:
        for line in run("readelf", "--dyn-syms", "-W", file).splitlines():
            match line.split():
                case [_, _, _, _, _, _, "UND", name]:
                    used.add(name)
                case [_, _, _, _, _, _, _, name, *_]:
                    defined.add(name.partition("@")[0])
    return {name for name in used - defined if VENDOR.match(name)}


def owner_of(symbol: str) -> str:
    return next(library for pattern, library in OWNERS if pattern.match(symbol))


# --- the libraries ----------------------------------------------------------------------------------------------------


def make_libraries(spec: Mapping[str, str], torch_npu: Path, folder: Path, atb: Path) -> tuple[int, int]:
    """Make every library, and return how many functions are real and how many are stubs."""
    files = sorted(torch_npu.rglob("*.so*"))
    symbols = needed_symbols(files)
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        objects = {
            library: [
                compile_source(source, spec, work)
                for beginning in beginnings
                for source in sorted(SOURCES.glob(f"{beginning}*.c"))
            ]
            for library, beginnings in REAL.items()
        }
        real = {symbol for parts in objects.values() for compiled in parts for symbol in defined_by(compiled)}
        stubs: dict[str, list[str]] = {}
        for symbol in sorted(symbols - real):
            stubs.setdefault(owner_of(symbol), []).append(symbol)
        for library in dict.fromkeys([*REAL, *sorted({*needed_libraries(files), *stubs, *OPENED})]):
            code = work / f"{library}.c"
            code.write_text(stub_code(stubs.get(library, [])), encoding="utf-8")
            place = (atb if library == "libatb.so" else folder) / library
            shared = () if library in SHARED else SHARED
            linked = ["-L", str(folder), "-Wl,--no-as-needed", *(f"-l:{name}" for name in shared)]
            parts = objects.get(library, [])
            run("gcc", "-shared", "-fPIC", "-w", f"-Wl,-soname,{library}", "-o", place, code, *parts, *linked)
    return len(real), sum(map(len, stubs.values()))


def compile_source(source: Path, spec: Mapping[str, str], work: Path) -> Path:
    compiled = work / f"{source.name}.o"
    values = {"CANN": spec["cann"], "SOC": spec["soc"], "DEVICES": spec["devices"], "MEMORY_GIB": spec["memory_gib"]}
    settings = [f'-DSTAND_IN_{name}="{value}"' for name, value in values.items()]
    run("gcc", "-O2", "-fPIC", "-w", *settings, "-c", source, "-o", compiled)
    return compiled


def defined_by(compiled: Path, *options: str) -> set[str]:
    lines = (line.split() for line in run("nm", "--defined-only", *options, compiled).splitlines())
    return {name for _, kind, name in lines if kind in "TBD"}


def stub_code(symbols: Iterable[str]) -> str:
    """Return functions that fail under their own names; tables of virtual functions and types are memory."""
    lines = ["long stand_in_missing(const char *);"]
    for number, symbol in enumerate(symbols):
        if re.match(r"_ZT[VISvT]", symbol):
            lines.append(f'char data{number}[1024] __asm__("{symbol}");')
        else:
            lines.append(f'long call{number}(void) __asm__("{symbol}");')
            lines.append(f'long call{number}(void) {{ return stand_in_missing("{symbol}"); }}')
    return "\n".join(lines) + "\n"


# --- the folder -------------------------------------------------------------------------------------------------------


def make_toolkit(spec: Mapping[str, str], torch_npu: Path) -> str:
    """Make the toolkit with its scripts, headers and libraries, and return a summary in one line."""
    home, arch = Path(spec["home"]), platform.machine()
    system = home / f"{arch}-linux"
    libraries, headers = system / "lib64", system / "include"
    atb = Path(spec["nnal_set_env"]).parent / "latest" / "atb" / "cxx_abi_1"
    python = home / "python" / "site-packages"
    parts = (home / name for name in ("opp", "tools", "compiler", "runtime"))
    for folder in (libraries, headers, atb / "lib", python, *parts):
        folder.mkdir(parents=True, exist_ok=True)
    real, stubs = make_libraries(spec, torch_npu, libraries, atb / "lib")
    make_headers(torch_npu, headers)
    for link, target in {
        home / "lib64": system / "lib64",
        home / "include": headers,
        home / "fwkacllib": system,
        home / "acllib": system,
        home / "runtime" / "lib64": libraries,
        home / "runtime" / "include": headers,
        system / "devlib": libraries,
    }.items():
        link.unlink(missing_ok=True)
        link.symlink_to(target)
    shutil.copy(SOURCES / "acl.py", python / "acl.py")
    for name in COMPILERS:
        write_program(home / "bin" / name, COMPILER.format(name=name))
    make_descriptions(spec, home, system)
    if spec["npu_smi_path"]:
        write_program(Path(spec["npu_smi_path"]), spec["npu_smi"])
    toolkit = {
        **dict.fromkeys(("ASCEND_TOOLKIT_HOME", "ASCEND_HOME_PATH", "ASCEND_AICPU_PATH"), home),
        "ASCEND_OPP_PATH": home / "opp",
        "TOOLCHAIN_HOME": home / "toolkit",
        # calls are executed at once, without a queue
        "TASK_QUEUE_ENABLE": 0,
    }
    modules = f"{spec['hook']}:{python}" if spec["hook"] else python
    search = {"PATH": home / "bin", "LD_LIBRARY_PATH": home / "lib64", "PYTHONPATH": modules}
    # builds find the script in the toolkit itself as well
    for script in (Path(spec["set_env"]), home / "set_env.sh", home / "bin" / "setenv.bash"):
        write_script(script, toolkit, search)
    write_script(Path(spec["nnal_set_env"]), {"ATB_HOME_PATH": atb}, {"LD_LIBRARY_PATH": atb / "lib"})
    return f"stand-in of CANN {spec['cann']} in {home}: {real} functions, {stubs} stubs"


def make_headers(torch_npu: Path, headers: Path) -> None:
    """Copy the headers that the wheel was compiled with, and those of the stand-in."""
    for part in ("acl", "hccl"):
        shutil.copytree(torch_npu / "include" / "third_party" / part / "inc", headers, dirs_exist_ok=True)
    runtime = headers / "acl" / "acl_rt.h"
    text = runtime.read_text(encoding="utf-8")
    missing = [declaration for name, declaration in GRANULARITY.items() if name not in text]
    # after the guard of the header
    guard = ["#ifndef STAND_IN_ACL_RT", "#define STAND_IN_ACL_RT", *missing, "#endif"]
    runtime.write_text("\n".join([text, *guard, ""]), encoding="utf-8")
    for header, place in {
        "rt.h": "experiment/runtime/runtime/rt.h",
        "platform_ascendc.h": "tiling/platform/platform_ascendc.h",
        "platform.h": "aclnn/opdev/platform.h",
    }.items():
        (headers / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(SOURCES / header, headers / place)
    (headers / "kernel_tiling").mkdir(exist_ok=True)
    (headers / "kernel_tiling" / "kernel_tiling.h").write_text("#pragma once\n", encoding="utf-8")


def make_descriptions(spec: Mapping[str, str], home: Path, system: Path) -> None:
    """Write the files in which builds look for the version and the place of the toolkit."""
    lines = {
        "package_name": "Ascend-cann-toolkit",
        "version": spec["cann"],
        "innerversion": "stand-in",
        "arch": platform.machine(),
        "os": "linux",
        "path": home,
    }
    (system / "ascend_toolkit_install.info").write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    for part in ("compiler", "opp", "runtime"):
        (home / part / "version.info").write_text(f"Version={spec['cann']}\n")
    (home / "STAND_IN").write_text(
        "Made by envbuilder for a rehearsal. This is not CANN: nothing here computes on an NPU.\n"
    )
    place = Path(spec["install_info"])
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(f"Toolkit_InstallPath={home}\n")


def write_program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def write_script(path: Path, variables: Mapping[str, object], paths: Mapping[str, object]) -> None:
    """Write a shell script that sets variables and puts folders in front of search paths."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"export {name}={value}" for name, value in variables.items()]
    lines += [f'export {name}={folder}"${{{name}:+:${name}}}"' for name, folder in paths.items()]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    print(make_toolkit(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), Path(sys.argv[2])))
