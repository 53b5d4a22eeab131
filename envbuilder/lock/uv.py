"""Locks: a row of pins is a claim until a resolver has agreed, and exact once it is written down.

uv resolves what `packages` says, as of the row's date. The lock has every package with the hashes of the files
that fit this Python and machine, and a header that tells what it was made from; it has no time in it, so the
same inputs give the same bytes.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from typing import Any

from envbuilder import versions
from envbuilder.check import check_environment
from envbuilder.environment.packages import Packages, distribution, packages_of, source_components
from envbuilder.environment.resolve import Environment
from envbuilder.errors import EnvbuilderError
from envbuilder.files import workspace
from envbuilder.lock.explain import failure
from envbuilder.lock.index import GLIBC, Index
from envbuilder.matrix import Matrix
from envbuilder.process import undisturbed
from envbuilder.requirements import normalize

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # the same module under its first name

_PLATFORM = "{arch}-manylinux_{glibc[0]}_{glibc[1]}"
_SDIST = re.compile(r"^# sdist: (\S+) sha256:([0-9a-f]{64})$", re.MULTILINE)
_PACKAGE = re.compile(r"^(\S+)==(\S+) \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n?)+)", re.MULTILINE)
_HASH = re.compile(r"sha256:([0-9a-f]{64})")
_LINE = re.compile(r"^([A-Za-z0-9][^=\s]*)==(\S+)", re.MULTILINE)


class LockError(EnvbuilderError):
    """The rules or the resolver do not agree with a row."""

    exit_code = 3


def make_lock(
    matrix: Matrix,
    environment: Environment,
    index: Index,
    *,
    upgrade: frozenset[str] = frozenset(),
    upgrade_all: bool = False,
) -> str:
    """The text of a new lock. Packages of the present one are kept where they still fit, but for those to upgrade."""
    for finding in check_environment(matrix, environment):
        if finding.severity == "error" and finding.code != "lock-stale":
            raise LockError(f"{environment.id}: {finding.message}", hint=finding.hint, where=finding.where)
    packages = packages_of(matrix, environment)
    present = matrix.lock_text(environment.id)
    kept = {} if upgrade_all or present is None else locked_versions(present)
    wanted = {name: version for name, version in kept.items() if normalize(name) not in upgrade}
    document = _resolve(packages, wanted, index)
    if isinstance(document, str) and wanted:
        # what was locked may be what stands in the way now
        document = _resolve(packages, {}, index)
    if isinstance(document, str):
        raise failure(document, matrix, environment)
    return _text(environment.id, packages, document, _sdists(matrix, environment, index))


def _sdists(matrix: Matrix, environment: Environment, index: Index) -> dict[str, str]:
    """The hashes of the source archives that may stand in for repositories."""
    found = {}
    for component, release in source_components(matrix, environment):
        if component.sdist is not None:
            for file in index.files(distribution(matrix, component.name)):
                if not file.is_wheel and file.sha256 and versions.key(file.version) == versions.key(release.version):
                    found[component.name] = file.sha256
    return found


def locked_sdists(text: str) -> dict[str, str]:
    """The source archives of a lock: component and hash."""
    return dict(_SDIST.findall(text))


def locked_versions(text: str) -> dict[str, str]:
    """The packages of a lock."""
    return dict(_LINE.findall(text))


def locked_files(text: str) -> list[tuple[str, str, list[str]]]:
    """The packages of a lock: name, version, and the hashes of the files that may be installed."""
    return [(name, version, _HASH.findall(hashes)) for name, version, hashes in _PACKAGE.findall(text)]


@cache
def uv_program() -> str:
    """Where uv is. To be called once before threads are: looking for it is not safe in several."""
    from uv import find_uv_bin

    try:
        return str(find_uv_bin())
    except FileNotFoundError as error:
        raise EnvbuilderError("uv, which resolves the locks, is not installed", hint="pip install uv") from error


def _resolve(packages: Packages, kept: Mapping[str, str], index: Index) -> dict[str, Any] | str:
    """What uv resolves, or what it says against it."""
    with workspace() as folder:
        (folder / "pyproject.toml").write_text(_project(packages), encoding="utf-8")
        (folder / "overrides.txt").write_text("\n".join(packages.overrides), encoding="utf-8")
        (folder / "excludes.txt").write_text("\n".join(packages.removed), encoding="utf-8")
        (folder / "kept.txt").write_text(
            "\n".join(f"{name}=={version}" for name, version in kept.items()), encoding="utf-8"
        )
        output = folder / "pylock.toml"
        command = [uv_program(), "pip", "compile", "pyproject.toml", "--quiet", "--format", "pylock.toml"]
        command += ["--output-file", str(output), "--python-version", packages.python]
        command += ["--python-platform", _PLATFORM.format(arch=packages.arch, glibc=GLIBC)]
        command += ["--overrides", "overrides.txt", "--excludes", "excludes.txt", "--constraints", "kept.txt"]
        if packages.exclude_newer:
            command += ["--exclude-newer", packages.exclude_newer]
        for package, date in sorted(packages.newer_packages.items()):
            command += ["--exclude-newer-package", f"{package}={date}"]
        # the same for everybody: a day begins where it does in UTC, and no file of the user's has a say
        variables = {**undisturbed(), "UV_DEFAULT_INDEX": index.url, "TZ": "UTC", "XDG_CONFIG_HOME": str(folder)}
        if index.ca_bundle:
            variables["SSL_CERT_FILE"] = str(index.ca_bundle)
        result = subprocess.run(  # noqa: S603
            command, cwd=folder, capture_output=True, text=True, check=False, env=variables
        )
        if result.returncode != 0:
            return result.stderr
        document: dict[str, Any] = tomllib.loads(output.read_text(encoding="utf-8"))
        return document


def _project(packages: Packages) -> str:
    """A project that asks for everything, with an index of its own for each package that needs one."""
    lines = ["[project]", 'name = "environment"', 'version = "0"', f'requires-python = "=={packages.python}.*"']
    lines.append(f"dependencies = {json.dumps([*packages.pins, *packages.requirements], indent=2)}")
    names = {url: f"index-{number}" for number, url in enumerate(packages.extra_indexes)}
    for url, name in names.items():
        lines += ["[[tool.uv.index]]", f"name = {json.dumps(name)}", f"url = {json.dumps(url)}", "explicit = true"]
    if names:
        lines.append("[tool.uv.sources]")
    lines += [
        f"{json.dumps(package)} = {{ index = {json.dumps(names[url])} }}" for package, url in packages.indexes.items()
    ]
    return "\n".join(lines) + "\n"


def _text(identifier: str, packages: Packages, document: Mapping[str, Any], sdists: Mapping[str, str]) -> str:
    version = subprocess.run([uv_program(), "--version"], capture_output=True, text=True, check=True)  # noqa: S603
    lines = [
        f"# environment: {identifier}",
        f"# inputs: {packages.digest}",
        f"# resolver: {' '.join(version.stdout.split()[:2])}",
        *(f"# sdist: {name} sha256:{sha256}" for name, sha256 in sorted(sdists.items())),
    ]
    for package in sorted(document["packages"], key=lambda item: str(item["name"])):
        # a source archive is locked only where there is nothing else to install
        files = package.get("wheels") or [package["sdist"]]
        hashes = sorted(f"    --hash=sha256:{file['hashes']['sha256']}" for file in files)
        lines += [f"{package['name']}=={package['version']} \\", *(f"{item} \\" for item in hashes[:-1]), hashes[-1]]
    return "\n".join(lines) + "\n"
