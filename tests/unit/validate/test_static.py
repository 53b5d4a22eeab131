"""The static checks, on a listing of this host and on one that is wrong in every way."""

from __future__ import annotations

import json
import os
import shutil
import sys
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from envbuilder.matrix import load
from envbuilder.matrix.model import CPU
from envbuilder.validate.account import Accounted
from envbuilder.validate.expected import Expected, expected, plan_of
from envbuilder.validate.report import Account, Check
from envbuilder.validate.static import judge, static_checks
from envbuilder.validate.target import OnHost
from tests.conftest import A3_SGLANG, environment


@pytest.fixture
def wanted(tmp_path: Path) -> Expected:
    """What is true of this host: two packages, a script, a library and a file."""
    row = environment(load(everything=True), A3_SGLANG)
    made = expected(row, plan_of(row, {}), {}, CPU, {}, is_image=False)
    script = tmp_path / "set_env.sh"
    script.write_text("export OF_THE_TOOLKIT=1\n")
    (tmp_path / "src" / "toy").mkdir(parents=True)
    (tmp_path / "made.so").write_text("linked with libc.so.6")
    return replace(
        made, labels={}, wanted_labels={"a": "b"}, python="3.", pins={"pytest": version("pytest")},
        built={"PyYAML": version("PyYAML")}, locked={"pytest": version("pytest"), "pytest_xdist": version("pytest_xdist")}, made=(), removed=("no-such-package",),
        sources=str(tmp_path / "src"), trees={"toy": {}}, unknown_trees={}, vendor="", shared=("pytest",),
        variables={"OF_THE_ROW": "1"}, shell_setup=(str(script),), libraries={"libc.so.6": None, "libhal.so": "the driver"},
        products=({"file": str(tmp_path / "made*.so"), "links": "libc.so.6"},), expected_conflicts=(".*",),
        left_out={"kernels": "they need the compiler of CANN"},
    )  # fmt: skip


def statuses(checks: list[Check]) -> dict[str, str]:
    return {check.name: check.status for check in checks}


def test_what_is_here_passes(wanted: Expected, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # python3 is that of the tests
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("OF_THE_ROW", "1")
    checks = static_checks(OnHost(tmp_path / "target"), wanted, tmp_path / "log")
    left = {"label a": "not-checked", "library libhal.so": "not-checked", "left out kernels": "not-checked"}
    assert statuses(checks) == {
        "python": "passed", "pin pytest": "passed", "built from source PyYAML": "passed", "lock": "passed",
        "removed no-such-package": "passed", "files": "passed", "not shadowed pytest": "passed",
        "conflicts": "passed" if shutil.which("uv") else "not-checked", "variable OF_THE_ROW": "passed",
        f"set env {wanted.shell_setup[0]}": "passed", "library libc.so.6": "passed",
        f"product {wanted.products[0]['file']}": "passed", **left,
    }, checks  # fmt: skip


def test_a_listing_that_fails_is_a_failure(wanted: Expected, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = OnHost(tmp_path / "target")
    (Path(target.place.code) / "suspects.py").write_text("raise OSError('no space')")
    (check,) = static_checks(target, wanted, tmp_path / "log")
    assert check.status == "failed" and check.message == "the listing ended with code 1: OSError: no space"


def test_an_account_replaces_what_the_listing_says_about_files(
    wanted: Expected, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The listing runs in the image, which may lie about its own files; the account does not."""
    account = Account(9, {"base image": 8}, 1, {"/etc/x": "is added"}, {"layers": 1, "digest": "sha256:a"}, {})
    read = {"packages": {"pytest": {"pytest.py": "changed"}}, "trees": {"toy": {"x.py": "1"}}, "base": []}
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    checks = static_checks(OnHost(tmp_path / "target"), wanted, tmp_path / "log", Accounted(account, read))
    failed = {check.name: check.message for check in checks if check.status == "failed"}
    assert failed["account"] == "1 of 9 files are unaccounted for: /etc/x is added"
    assert failed["files"].endswith("pytest: pytest.py is changed")


def test_an_image_without_an_account_fails(wanted: Expected, tmp_path: Path) -> None:
    refused = Accounted(None, {}, "nobody knows its base image")
    (check,) = static_checks(OnHost(tmp_path / "target"), wanted, tmp_path / "log", refused)
    assert (check.name, check.status, check.message) == ("account", "failed", "nobody knows its base image")


def test_files_of_an_image_that_no_engine_can_save_are_checked_without_an_account(
    wanted: Expected, tmp_path: Path
) -> None:
    target, log = OnHost(tmp_path / "target"), tmp_path / "log"
    *checks, account = static_checks(target, wanted, log, Accounted(None, {}, unreadable="zstd is not supported"))
    assert (account.name, account.status, account.message) == ("account", "not-checked", "zstd is not supported")
    assert checks == static_checks(target, wanted, log)


def test_what_is_wrong_is_found(wanted: Expected, tmp_path: Path) -> None:
    static_checks(OnHost(tmp_path / "target"), wanted, tmp_path / "log")
    lines = (tmp_path / "log").read_text().splitlines()
    found: dict[str, Any] = json.loads(next(line for line in lines if line.startswith('{"python"')))
    package = {"version": "1.0", "damaged": {"toy.py": "changed"}}
    overwritten = {"version": "2.0+cpu", "damaged": {"b.py": "overwritten", "c.py": "missing"}}
    pattern = str(wanted.products[0]["file"])
    image = replace(
        wanted, is_image=True, labels={"a": "c"}, python="2.", pins={"toy": "1.0", "other": "1.9", "absent": "1"},
        built={"lost": "", "other": "2.0"}, locked={"toy": "1.0", "other": "1.9"}, removed=("toy",), shared=("other",),
        trees={"toy": {"kept.py": "1", "changed.py": "2", "gone.py": "3"}}, unknown_trees={"reel": "no archive"},
        expected_conflicts=("^fine",), shell_setup=("/set_env", "/silent", "/absent"), libraries={"libx.so": None},
        products=({"file": "a*.so", "links": None}, {"file": pattern, "links": "libcuda.so"}),
    )  # fmt: skip
    leftovers: dict[str, dict[str, int]] = {path: {} for path in _patterns(image, tmp_path)}
    leftovers["/root/.cache/pip"] = {"/root/.cache/pip/x": 1}
    leftovers["/run/secrets/*"] = {"/run/secrets/ca": 0, "/run/secrets/other": 0}
    found |= {
        "packages": {"toy": package, "other": overwritten, "extra": {"version": "1", "damaged": {}}}, "base": ["base==1"],
        "trees": {"toy": {"kept.py": "1", "changed.py": "0", "added.py": "4"}}, "conflicts": ["fine", "not fine"],
        "variables": ["HERE"], "scripts": {"/set_env": ["HERE", "THERE"], "/silent": [], "/absent": None},
        "libraries": [], "products": [{}, {"/made.so": False}], "leftovers": leftovers,
        "suspects": {"key": {"/root/id": "is a private key"}},
    }  # fmt: skip
    variables = {"OF_THE_ROW": "2", "http_proxy": "x", "URL": "https://me:secret@host"}
    checks = judge(image, found, variables)
    failed = {check.name: check.message for check in checks if check.status == "failed"}
    assert failed == {
        "label a": "the label is c, and the matrices now require b: it was built from other definitions",
        "python": f"Python is {found['python']}, the row pins 2.",
        "pin other": "other is 2.0+cpu, the row pins 1.9",
        "pin absent": "absent is not installed; the row pins 1",
        "built from source lost": "lost is not installed, although it was built from source",
        "removed toy": "toy 1.0 is installed, although this environment must not have it",
        "lock": "1 of 2 packages differ from the lock: other 2.0+cpu, locked 1.9",
        "files": "files of installed packages are not as they were installed: other: c.py is missing; toy: toy.py is changed",
        "not shadowed other": "other is shadowed: 2 of its files are missing or overwritten, such as b.py",
        "conflicts": "an unexpected conflict: not fine",
        "variable OF_THE_ROW": "OF_THE_ROW is '2', the row sets '1'",
        "set env /set_env": "a shell of the image does not source /set_env: it has no THERE",
        "set env /silent": "/silent sets no variable",
        "set env /absent": "/absent does not exist",
        "library libx.so": "libx.so is neither in a folder of LD_LIBRARY_PATH nor in the cache of the linker",
        "product a*.so": f"a*.so was not compiled: there is no such file in {found['site']}",
        f"product {pattern}": "/made.so is not linked with libcuda.so: it is the build for another device",
        "beyond the lock": "packages that are not in the lock are installed: extra",
        "source toy": (
            f"{wanted.sources}/toy is not its source archive: changed.py is changed; gone.py is missing; added.py is added"
        ),
        "no cache /root/.cache/pip": "1 files of a cache were left in the image, such as /root/.cache/pip/x",
        "no credentials /run/secrets/*": "/run/secrets/other was left in the image",
        "no suspect file key": "1 files are not fit for an image: /root/id is a private key",
        "no secret variables": "the image sets URL, http_proxy",
    }
    assert statuses(checks)["pin toy"] == statuses(checks)["built from source other"] == "passed"


def _patterns(image: Expected, folder: Path) -> list[str]:
    """The patterns of leftovers that are searched for in an image."""
    target = OnHost(folder / "image")
    (Path(target.place.code) / "inventory.py").write_text("import sys; print(open(sys.argv[1]).read()); sys.exit(1)")
    static_checks(target, replace(image, trees={}), folder / "job")
    return list(json.loads((folder / "job").read_text())["leftovers"])
