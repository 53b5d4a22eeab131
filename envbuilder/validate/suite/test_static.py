"""Checks of an environment that start nothing in it: versions, files, variables, labels and leftovers."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any

import pytest
from testinfra.backend.base import CommandResult
from testinfra.host import Host

from envbuilder.validate.suite.conftest import EXPECTED
from envbuilder.versions import public

RunCommand = Callable[..., CommandResult]
Inventory = dict[str, Any]

only_images = pytest.mark.skipif(not EXPECTED["is_image"], reason="checked in images only")
with_a_lock = pytest.mark.skipif(not EXPECTED["locked"], reason="this environment has no lock yet")
_CACHES = ("/root/.cache/pip", "/root/.cache/uv", "/var/cache/apt/archives/*.deb", "/var/lib/apt/lists/*Packages*")
_CREDENTIALS = (
    "/root/.netrc", "/root/.git-credentials", "/root/.pypirc", "/root/.docker/config.json", "/root/.config/pip",
    "/root/.pip", "/etc/pip.conf", "/run/secrets/*",
)  # fmt: skip
_MOUNTED = ("/run/secrets/ca", "/run/secrets/network")
_SECRET_NAME = re.compile(r"(^|_)(proxy|password|passwd|token|secret|credentials?)($|_)", re.IGNORECASE)
_SECRET_VALUE = re.compile(r"://[^/\s:@]+:[^/\s@]+@")
_OF_A_SHELL = {"_", "OLDPWD", "PATH", "PWD", "SHLVL"}


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def version_of(inventory: Inventory, name: str) -> str | None:
    package = inventory["packages"].get(canonical(name))
    return package["version"] if package else None


@pytest.mark.skipif(
    not EXPECTED["is_image"] and not EXPECTED["labels"], reason="this host has no record of an installation"
)
@pytest.mark.each("wanted_labels", names=("name", "wanted"))
def test_label(name: str, wanted: str) -> None:
    found = EXPECTED["labels"].get(name)
    assert found == wanted, (
        f"the label is {found}, and the matrices now require {wanted}: it was built from other definitions"
    )


def test_python(inventory: Inventory) -> None:
    assert inventory["python"].startswith(EXPECTED["python"]), (
        f"Python is {inventory['python']}, the row pins {EXPECTED['python']}"
    )


@pytest.mark.each("pins", names=("name", "wanted"))
def test_pin(name: str, wanted: str, inventory: Inventory) -> None:
    found = version_of(inventory, name)
    assert found is not None, f"{name} is not installed; the row pins {wanted}"
    # an index may add a local label, such as +cpu
    same = found == wanted or ("+" not in wanted and public(found) == wanted)
    assert same, f"{name} is {found}, the row pins {wanted}"


@pytest.mark.each("built", names=("name", "wanted"))
def test_built_from_source(name: str, wanted: str, inventory: Inventory) -> None:
    found = version_of(inventory, name)
    assert found is not None, f"{name} is not installed, although it was built from source"
    assert not wanted or public(found) == wanted, f"{name} is {found}, the row pins {wanted}"


@with_a_lock
def test_lock(inventory: Inventory) -> None:
    locked = [(name, wanted, version_of(inventory, name)) for name, wanted in EXPECTED["locked"].items()]
    others = [f"{name} {found}, locked {wanted}" for name, wanted, found in locked if found != wanted]
    assert not others, f"{len(others)} of {len(locked)} packages differ from the lock: {'; '.join(others[:5])}"


@pytest.mark.each("removed", names=("name",))
def test_removed(name: str, inventory: Inventory) -> None:
    found = version_of(inventory, name)
    assert found is None, f"{name} {found} is installed, although this environment must not have it"


def ours() -> set[str]:
    """Return the packages that this environment installs."""
    names = (*EXPECTED["locked"], *EXPECTED["pins"], *EXPECTED["built"], *EXPECTED["made"])
    return {canonical(name) for name in names}


@with_a_lock
@only_images
def test_beyond_the_lock(inventory: Inventory) -> None:
    if inventory["base"] is None:
        pytest.skip("the image does not list the packages of its base image")
    base = {canonical(line.partition("==")[0]) for line in inventory["base"]}
    others = sorted(inventory["packages"].keys() - ours() - base)
    assert not others, f"packages that are not in the lock are installed: {', '.join(others[:5])}"


def test_files(inventory: Inventory) -> None:
    """Check that every file of an installed package is as the package lists it."""
    wrong, known = [], EXPECTED["unlike_record"]
    for name in sorted(ours()):
        damaged = inventory["packages"].get(name, {"damaged": {}})["damaged"]
        files = [f"{file} is {how}" for file, how in damaged.items() if how != "overwritten" and file not in known]
        if files:
            wrong.append(f"{name}: {files[0]}" + (f" and {len(files) - 1} more" if files[1:] else ""))
    assert not wrong, f"files of installed packages are not as they were installed: {'; '.join(wrong[:5])}"


@only_images
@pytest.mark.each("trees", names=("component", "wanted"))
def test_source(component: str, wanted: dict[str, str], inventory: Inventory) -> None:
    """Check that a source tree, which Python imports from, has exactly the files of its commit."""
    found = inventory["trees"][component]
    changed = [f"{file} is changed" for file in wanted if file in found and found[file] != wanted[file]]
    missing = [f"{file} is missing" for file in wanted if file not in found]
    made = [product["file"] for product in EXPECTED["products"]]
    place = f"{EXPECTED['sources']}/{component}"
    more = (file for file in found if file not in wanted)
    # what the build compiled within its tree is checked as a product
    added = [f"{file} is added" for file in more if not any(fnmatchcase(f"{place}/{file}", item) for item in made)]
    wrong = [*changed, *missing, *added]
    assert not wrong, f"{EXPECTED['sources']}/{component} is not its source archive: {'; '.join(wrong[:5])}"


@only_images
@pytest.mark.each("unknown_trees", names=("component", "reason"))
def test_source_without_archive(component: str, reason: str) -> None:
    pytest.skip(reason)


@pytest.mark.each("shared", names=("name",))
def test_not_shadowed(name: str, inventory: Inventory) -> None:
    """Check that no other package has overwritten files: of two that share a folder, the last one installed wins."""
    package = inventory["packages"].get(canonical(name))
    assert package is not None, f"{name} is not installed"
    damaged = package["damaged"]
    assert not damaged, (
        f"{name} is shadowed: {len(damaged)} of its files are missing or overwritten, such as {next(iter(damaged))}"
    )


def test_conflicts(run: RunCommand) -> None:
    answer = run(
        "sh", "-c", 'unset RUST_LOG; uv --color never --no-cache pip check --python "$(command -v python3)" 2>&1'
    )
    if answer.rc == 127:
        pytest.skip("uv is not installed")
    allowed = [re.compile(pattern) for pattern in EXPECTED["expected_conflicts"]]
    strange = [line for line in answer.stdout.splitlines() if line and not any(item.search(line) for item in allowed)]
    assert not strange, f"an unexpected conflict: {strange[0]}"


@pytest.mark.each("variables", names=("name", "wanted"))
def test_variable(name: str, wanted: str, host: Host) -> None:
    found = host.environment().get(name)
    assert found == wanted, f"{name} is {found!r}, the row sets {wanted!r}"


@pytest.mark.each("shell_setup", names=("script",))
def test_set_env(script: str, host: Host, run: RunCommand) -> None:
    assert host.file(script).is_file, f"{script} does not exist"
    if EXPECTED["is_image"]:
        # a shell of the image must have every variable that the script sets in an empty one
        alone = _names(run("env", "-i", "bash", "-c", f". {shlex.quote(script)} >&2; env").stdout) - _OF_A_SHELL
        assert alone, f"{script} sets no variable"
        missing = alone - _names(run("sh", "-c", "env").stdout)
        assert not missing, f"a shell of the image does not source {script}: it has no {', '.join(sorted(missing))}"


def _names(variables: str) -> set[str]:
    return {line.partition("=")[0] for line in variables.splitlines() if "=" in line}


@pytest.mark.each("libraries", names=("library", "absent"))
def test_library(library: str, absent: str | None, run: RunCommand) -> None:
    if absent:
        pytest.skip(f"needs {absent}")
    search = (
        'IFS=:; for folder in $LD_LIBRARY_PATH; do test -e "$folder/$0" && exit 0; done; '
        '/sbin/ldconfig -p | grep -qF "$0"'
    )
    is_found = run("bash", "-c", search, library).rc == 0
    assert is_found, f"{library} is neither in a folder of LD_LIBRARY_PATH nor in the cache of the linker"


@pytest.mark.each("products", names=("product",), id=lambda item: item[0]["file"])
def test_product(product: dict[str, str | None], inventory: Inventory, run: RunCommand) -> None:
    # an absolute path is within a source tree
    where = posixpath.join(inventory["site"], str(product["file"]))
    # a glob: the file name of an extension contains the platform
    files = run("bash", "-c", f"ls -d {where}").stdout.split()
    assert files, f"{product['file']} was not compiled: there is no such file in {inventory['site']}"
    if product["links"]:
        others = [file for file in files if run("grep", "-qF", product["links"], file).rc != 0]
        assert not others, f"{others[0]} is not linked with {product['links']}: it is the build for another device"


@pytest.mark.each("left_out", names=("title", "reason"))
def test_left_out(title: str, reason: str) -> None:
    pytest.skip(f"left out: {reason}")


@only_images
@pytest.mark.parametrize("path", _CACHES)
def test_no_cache(path: str, run: RunCommand) -> None:
    found = _files(path, run)
    assert not found, f"{len(found)} files of a cache were left in the image, such as {found[0]}"


@only_images
@pytest.mark.parametrize("path", _CREDENTIALS)
def test_no_credentials(path: str, run: RunCommand) -> None:
    # an empty file stays where a build has mounted a secret
    left = [name for name in _files(path, run) if name not in _MOUNTED or run("test", "-s", name).rc == 0]
    assert not left, f"{left[0]} was left in the image"


def _files(pattern: str, run: RunCommand) -> list[str]:
    return list(run("bash", "-c", f"shopt -s nullglob; find /dev/null {pattern} -type f").stdout.split())


@only_images
@pytest.mark.parametrize("kind", ["privileged", "writable", "owner", "key", "token"])
def test_no_suspect_file(kind: str, suspects: dict[str, dict[str, str]]) -> None:
    found = [f"{path} {reason}" for path, reason in sorted(suspects.get(kind, {}).items())]
    assert not found, f"{len(found)} files are not fit for an image: {'; '.join(found[:5])}"


@only_images
def test_no_secret_variables(host: Host) -> None:
    found = [
        name for name, value in host.environment().items() if _SECRET_NAME.search(name) or _SECRET_VALUE.search(value)
    ]
    assert not found, f"the image sets {', '.join(sorted(found))}"
