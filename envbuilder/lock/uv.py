"""Makes locks with uv.

uv resolves the `packages` of an environment as of the date of the row. The lock has every package with the hashes of
the files for its Python and machine, and a digest of the inputs. It contains no time, so the same inputs give the
same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from envbuilder import versions
from envbuilder.check import check_environment
from envbuilder.environment import Environment
from envbuilder.environment.locks import (
    FALLBACK,
    ORIGIN,
    PARTS,
    Lock,
    LockedPackage,
    contradicted,
    known_file,
    known_wheels,
    split_lock,
)
from envbuilder.environment.packages import Packages, requirements_of, source_components
from envbuilder.errors import EnvbuilderError, NetworkError
from envbuilder.files import parse_toml, workspace, write_text
from envbuilder.language import english, tr
from envbuilder.lock.explain import LOCK_ELSEWHERE, failure
from envbuilder.lock.index import GLIBC, Index, uv_program
from envbuilder.lock.known import served
from envbuilder.matrix.model import KnownWheels
from envbuilder.matrix.record import NOTHING
from envbuilder.process import run, undisturbed
from envbuilder.requirements import normalize

# findings that a new lock can repair
_ABOUT_THE_LOCK = {"lock-stale", "packages-clash", "file-not-seen"}
_PLATFORM = "{arch}-manylinux_{glibc[0]}_{glibc[1]}"


class LockError(EnvbuilderError):
    """The rules report an error in a row, so that it is not locked."""

    exit_code = 3


def make_lock(
    environment: Environment, index: Index, *, upgrade: frozenset[str] = frozenset(), upgrade_all: bool = False
) -> Lock:
    """Return a new lock. Versions of the present lock are kept if they still fit, except for packages to upgrade."""
    for finding in check_environment(environment):
        if finding.severity == "error" and finding.code not in _ABOUT_THE_LOCK:
            raise LockError(f"{environment.id}: {finding.message}", hint=finding.hint, where=finding.where)
    packages, present = environment.packages, environment.lock
    kept = {} if upgrade_all or present is None else present.versions
    wanted = {name: version for name, version in kept.items() if normalize(name) not in upgrade}
    document = _resolve(packages, wanted, index)
    unresolved: dict[str, LockedPackage] = {}
    unseen: tuple[str, ...] = ()
    if isinstance(document, str):
        error = failure(document, environment)
        if not isinstance(error, NetworkError):
            raise error
        known = known_wheels(environment)
        unresolved = _with_known_requirements(environment, known)
        if not (known or unresolved):
            raise error
        unseen = tuple(_known_files(environment, known))
        with served(known) as addresses:
            document = _resolve(_without(environment, unresolved), wanted, index, addresses)
        if isinstance(document, str):
            raise failure(document, environment)
    locked = (*_locked(document), *unresolved.values())
    if other := contradicted(environment, locked):
        named = {"environment": environment.id, "file": other.file}
        raise LockError(
            tr("{environment}: {file} on the index differs from the one in public lock files", **named),
            hint=tr("compare it with {where}: one of them is wrong", where=other.where),
        )
    lock = Lock(
        split_lock(locked, packages.parts),
        packages.digest,
        _sdists(environment, index),
        _version(),
        unseen,
        _fallback(environment, unresolved, locked, index),
    )
    for message, clash in environment.clashes(lock.versions).items():
        raise LockError(f"{environment.id}: {message}", hint=clash.remedy, where=environment.where)
    return lock


def _fallback(
    environment: Environment, unresolved: Collection[str], locked: Iterable[LockedPackage], index: Index
) -> tuple[LockedPackage, ...]:
    """Return the packages that differ if all wheels come from the package index; none if these do not resolve."""
    if not environment.labelled:
        return ()
    other = environment.from_package_index()
    before = {item.name: item for item in locked}
    kept = {name: versions.public(item.version) for name, item in before.items()}
    document = _resolve(_without(other, unresolved), kept, index)
    if isinstance(document, str):
        return ()
    return tuple(item for item in _locked(document) if item != before.get(item.name))


def _without(environment: Environment, names: Collection[str]) -> Packages:
    """Return the packages to resolve without these pins, but with their requirements."""
    packages = environment.packages
    return packages.apart_from(names, _requirements(environment, names)) if names else packages


def _known_files(environment: Environment, known: Mapping[str, KnownWheels]) -> Iterator[str]:
    """Yield the known files of indexes that cannot be reached; each pin of such an index must have one."""
    for name, wheels in known.items():
        pin = environment.pins.get(wheels.name)
        if pin is None or wheels.name in environment.removed:
            continue
        found = known_file(environment, name, pin.full)
        if found is None:
            named = {"name": name, "version": pin.full, "python": environment.version("python"), "index": wheels.index}
            raise NetworkError(
                english(
                    "{environment} needs {name} {version} for Python {python} from {index}, which cannot be "
                    "reached, and no public lock file has its hash",
                    environment=environment.id,
                    **named,
                ),
                hint=tr(LOCK_ELSEWHERE),
            )
        yield found.file


def _with_known_requirements(environment: Environment, known: Collection[str]) -> dict[str, LockedPackage]:
    """Return the other pins that have indexes of their own, if the matrices have the requirements of all of them.

    The rest of such a row is resolved without these indexes. Hashes are those of the present lock, or none.
    """
    present = {item.name: item for item in environment.lock.packages} if environment.lock else {}
    found = {}
    for name in environment.indexes:
        pin, release = environment.pins.get(name), environment.release(name)
        if pin is None or name in environment.removed or normalize(environment.distribution(name)) in known:
            continue
        if release is None or not release.requires or pin.local:
            return {}
        item = LockedPackage(environment.distribution(name), versions.public(pin.version), ())
        before = present.get(item.name, item)
        found[name] = before if before.version == item.version else item
    return found


def _requirements(environment: Environment, names: Iterable[str]) -> set[str]:
    found = (release for name in names if (release := environment.release(name)))
    return {
        item.unconditional
        for release in found
        for item in requirements_of(release, environment)
        if item.name not in environment.pins and item.name not in environment.removed
    }


def _sdists(environment: Environment, index: Index) -> dict[str, str]:
    """Return the hashes of the source archives that may replace repositories."""
    found = {
        component.name: index.source_archive(environment.distribution(component.name), release.version)
        for component, release in source_components(environment)
        if component.sdist is not None
    }
    return {name: sha256 for name, sha256 in found.items() if sha256 is not None}


def save_lock(lock: Lock, folder: Path) -> bool:
    """Write the files of a lock, and return whether any of them changed."""
    texts, places = lock.files(), {name: folder / f"{name}.txt" for name in (*PARTS, FALLBACK, ORIGIN)}
    present = {name: path.read_text(encoding="utf-8") for name, path in places.items() if path.is_file()}
    if present == texts:
        return False
    # a lock without its origin counts as stale, so that an interrupted write is noticed
    places[ORIGIN].unlink(missing_ok=True)
    for name, path in places.items():
        if name in texts:
            write_text(path, texts[name])
        else:
            path.unlink(missing_ok=True)
    return True


def _resolve(
    packages: Packages, kept: Mapping[str, str], index: Index, addresses: Mapping[str, str] = NOTHING
) -> dict[str, Any] | str:
    """Return the resolution of uv, or its error output. The kept versions are dropped if they prevent a solution.

    `addresses` has the address to use for each index that is replaced.
    """
    found = _run_uv(packages, kept, index, addresses)
    return _run_uv(packages, {}, index, addresses) if isinstance(found, str) and kept else found


def _run_uv(
    packages: Packages, kept: Mapping[str, str], index: Index, addresses: Mapping[str, str]
) -> dict[str, Any] | str:
    with workspace() as folder:
        (folder / "pyproject.toml").write_text(_project(packages, addresses), encoding="utf-8")
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
        # the result must not depend on the machine: dates are in UTC, and configuration files of the user are ignored
        variables = {**undisturbed(), "UV_DEFAULT_INDEX": index.url, "TZ": "UTC", "XDG_CONFIG_HOME": str(folder)}
        if addresses:
            # both spellings, because uv reads only one of them
            direct = (variables.get("no_proxy") or variables.get("NO_PROXY"), "127.0.0.1")
            variables |= dict.fromkeys(("no_proxy", "NO_PROXY"), ",".join(filter(None, direct)))
        if index.ca_bundle:
            variables["SSL_CERT_FILE"] = str(index.ca_bundle)
        result = run(command, cwd=folder, variables=variables)
        if not result.ok:
            return result.error_text
        return parse_toml(output.read_text(encoding="utf-8"))


def _project(packages: Packages, addresses: Mapping[str, str]) -> str:
    """Return a pyproject.toml with all requirements, and with the index of each package that has its own."""
    lines = ["[project]", 'name = "environment"', 'version = "0"', f'requires-python = "=={packages.python}.*"']
    lines.append(f"dependencies = {json.dumps([*packages.pins, *packages.requirements], indent=2)}")
    names = {url: f"index-{number}" for number, url in enumerate(packages.extra_indexes)}
    for url, name in names.items():
        address = json.dumps(addresses.get(url, url))
        lines += ["[[tool.uv.index]]", f"name = {json.dumps(name)}", f"url = {address}", "explicit = true"]
    if names:
        lines.append("[tool.uv.sources]")
    lines += [
        f"{json.dumps(package)} = {{ index = {json.dumps(names[url])} }}" for package, url in packages.indexes.items()
    ]
    return "\n".join(lines) + "\n"


def _locked(document: Mapping[str, Any]) -> Iterator[LockedPackage]:
    for package in document["packages"]:
        # a source archive is locked only if no wheel exists
        files = package.get("wheels") or [package["sdist"]]
        hashes = sorted(file["hashes"]["sha256"] for file in files)
        yield LockedPackage(package["name"], package["version"], tuple(hashes))


def _version() -> str:
    return " ".join(run([uv_program(), "--version"]).text.split()[:2])
