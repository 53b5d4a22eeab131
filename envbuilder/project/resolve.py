"""Resolves what a project adds to a row with uv, so that no package of the row moves.

Each package of the row stands in the resolution as a wheel without requirements: uv cannot choose another version of
it, asks no index for it, and names it where it stands against a wish.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from envbuilder import versions
from envbuilder.environment import Environment
from envbuilder.environment.locks import LockedPackage
from envbuilder.errors import EnvbuilderError, NetworkError, Where
from envbuilder.files import parse_toml, workspace
from envbuilder.language import tr
from envbuilder.lock.index import GLIBC, Index, uv_program
from envbuilder.process import run, undisturbed
from envbuilder.project.file import Wish
from envbuilder.requirements import Requirement, normalize, parse

_WITHOUT_EXTRA = re.compile(r"package `([\w.-]+)[^`]*` does not have an extra")
_UNREACHABLE = re.compile(r"Failed to fetch|error sending request|Could not connect|tls handshake", re.IGNORECASE)
_CONFLICT = re.compile(r"([A-Za-z0-9][\w.-]*?)(?:\[[^\]]*\])?(?===|<|>|!=|~=| is available)")
# rows that are asked whether a wish fits them
_OTHER_ROWS = 6


class WishError(EnvbuilderError):
    """A package that a project wants cannot be installed beside its row."""

    exit_code = 3


@dataclass(frozen=True)
class Wishes:
    """What to resolve for one environment."""

    wanted: tuple[Wish, ...]
    # packages of the row that may have another version, by their normalized names
    may_change: frozenset[str]
    # requirements of the project's own source trees
    of_sources: tuple[Requirement, ...] = ()
    # versions of an earlier lock, which stay if they still fit
    kept: Mapping[str, str] = field(default_factory=dict)

    def lines(self) -> list[str]:
        return [
            *(wish.requirement.unconditional for wish in self.wanted),
            *(item.unconditional for item in self.of_sources),
        ]


def row_versions(environment: Environment) -> dict[str, str]:
    """Return the version of each package that a row installs, from an index or from source, by its name."""
    assert environment.lock is not None  # noqa: S101  the caller has asked for locked rows
    built = {
        environment.distribution(name): pin.full
        for name, pin in environment.pins.items()
        if not environment.is_wheel(name) and (item := environment.component(name)) and item.kind == "git"
    }
    return {**{name: _valid(version) for name, version in built.items()}, **environment.lock.versions}


def additions_for(environment: Environment, wishes: Wishes, index: Index) -> tuple[LockedPackage, ...]:
    """Return the packages that an environment needs beside its row; the error names what is against them."""
    for wish in wishes.wanted:
        _refuse_elsewhere(wish, environment)
    asked = {wish.requirement.name: wish.requirement for wish in wishes.wanted}
    kept = [
        f"{name}=={version}"
        for name, version in wishes.kept.items()
        if normalize(name) not in asked or asked[normalize(name)].allows(version)
    ]
    lines = wishes.lines()
    found = _resolve(environment, lines, wishes.may_change, index, kept) if kept else ""
    if isinstance(found, str):
        found = _resolve(environment, lines, wishes.may_change, index)
    if not isinstance(found, str):
        return found
    raise _failure(found, environment, wishes, index)


def _refuse_elsewhere(wish: Wish, environment: Environment) -> None:
    python, arch = environment.version("python") or "", environment.coordinates.arch
    if not wish.requirement.applies(python, arch):
        fields = {"requirement": wish.text, "environment": environment.id, "python": python}
        raise WishError(
            tr("the marker of '{requirement}' does not hold for {environment} with Python {python}", **fields),
            where=wish.where,
        )
    if wish.requirement.name in environment.refused_packages:
        package = environment.refused_packages[wish.requirement.name]
        fields = {"package": wish.requirement.name, "environment": environment.id, "reason": package.reason}
        raise WishError(tr("{package} must not be installed in {environment}: {reason}", **fields), where=wish.where)


# --- uv --------------------------------------------------------------------------------------------------


def _resolve(
    environment: Environment, lines: Sequence[str], may_change: Collection[str], index: Index,
    constraints: Sequence[str] = (),
) -> tuple[LockedPackage, ...] | str:  # fmt: skip
    """Return the packages beside those of the row, or the error output of uv."""
    kept = {name: item for name, item in row_versions(environment).items() if normalize(name) not in may_change}
    with workspace() as folder:
        result = _run_uv(folder, environment, lines, kept, {}, index, constraints)
        # only the index knows what an extra of a package of the row needs
        if isinstance(result, set):
            real = {name: kept[name] for name in kept if normalize(name) in result}
            rest = {name: item for name, item in kept.items() if name not in real}
            result = _run_uv(folder, environment, lines, rest, real, index, constraints)
    if isinstance(result, set):
        return tr("there is no extra of that name: {names}", names=", ".join(sorted(result)))
    if isinstance(result, str):
        return result
    own = {normalize(name) for name in kept}
    return tuple(item for item in _packages(result) if normalize(item.name) not in own)


def _run_uv(
    folder: Path, environment: Environment, lines: Sequence[str], stubs: Mapping[str, str], real: Mapping[str, str],
    index: Index, more: Sequence[str],
) -> dict[str, Any] | str | set[str]:  # fmt: skip
    """Return the resolution, the error output, or the packages of the row that are asked for an extra."""
    output = folder / "pylock.toml"
    output.unlink(missing_ok=True)
    constraints = [*_stubs(folder, stubs), *(f"{name}=={version}" for name, version in real.items()), *more]
    removed = environment.packages.removed
    for name, texts in (("wanted", lines), ("constraints", constraints), ("removed", removed)):
        (folder / f"{name}.txt").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    platform = f"{environment.coordinates.arch}-manylinux_{GLIBC[0]}_{GLIBC[1]}"
    command = [uv_program(), "pip", "compile", "wanted.txt", "--format", "pylock.toml", "--output-file", str(output)]
    command += ["--constraints", "constraints.txt", "--excludes", "removed.txt", "--no-header"]
    command += ["--python-version", environment.version("python") or "", "--python-platform", platform]
    variables = {**undisturbed(), "UV_DEFAULT_INDEX": index.url, "XDG_CONFIG_HOME": str(folder)}
    if index.ca_bundle:
        variables["SSL_CERT_FILE"] = str(index.ca_bundle)
    result = run(command, cwd=folder, variables=variables)
    if not result.ok:
        return result.error_text
    without = {normalize(name) for name in _WITHOUT_EXTRA.findall(result.error_text)}
    return without & {normalize(name) for name in (*stubs, *real)} or parse_toml(output.read_text(encoding="utf-8"))


def _stubs(folder: Path, packages: Mapping[str, str]) -> Iterator[str]:
    """Write a wheel without requirements for each package, and yield the requirement that names it."""
    for name, version in packages.items():
        stem = f"{re.sub(r'[-_.]+', '_', name)}-{version}"
        path, info = folder / f"{stem}-py3-none-any.whl", f"{stem}.dist-info"
        if not path.is_file():
            with zipfile.ZipFile(path, "w") as wheel:
                wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
                wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
                wheel.writestr(f"{info}/RECORD", "")
        yield f"{name} @ {path.as_uri()}"


def _packages(document: Mapping[str, Any]) -> Iterator[LockedPackage]:
    for package in document["packages"]:
        # a package of the row is a file of this machine
        files = package.get("wheels") or ([package["sdist"]] if "sdist" in package else [])
        if files:
            hashes = sorted(file["hashes"]["sha256"] for file in files)
            yield LockedPackage(package["name"], package["version"], tuple(hashes))


def _valid(version: str) -> str:
    """Return a version as package indexes spell it; a commit or a branch is none."""
    from packaging.version import InvalidVersion, Version

    try:
        return str(Version(versions.public(version)))
    except InvalidVersion:
        return "0"


# --- explanations ----------------------------------------------------------------------------------------


def _failure(output: str, environment: Environment, wishes: Wishes, index: Index) -> EnvbuilderError:
    text = " ".join(re.sub(r"[│╰─▶×├]", " ", output).split())
    if _UNREACHABLE.search(text):
        return NetworkError(
            tr("{index} cannot be reached: {reason}", index=index.shown, reason=text[:300]),
            hint=tr("check the network, proxy, CA and credential settings of uv"),
        )
    wish = _to_blame(environment, wishes, index)
    where = wish.where if wish else None
    if wish is not None and f"{wish.requirement.name.replace('_', '-')} was not found" in text:
        return WishError(tr("no index has a package '{name}'", name=wish.requirement.name), where=where)
    rows = row_versions(environment)
    named = {normalize(name) for name in _CONFLICT.findall(text)}
    against = [f"{name} {version}" for name, version in rows.items() if normalize(name) in named]
    name = wish.text if wish else ", ".join(wishes.lines())
    lines = [tr("{wish} cannot be installed beside {environment}", wish=name, environment=environment.id)]
    lines += [tr("  the row has {packages}, which must not move", packages=", ".join(against))] if against else []
    lines += [tr("  the resolver says: {reason}", reason=text.partition("cause: ")[2] or text)[:600]]
    return WishError("\n".join(lines), hint=_advice(environment, wish, wishes, against, index), where=where)


def _to_blame(environment: Environment, wishes: Wishes, index: Index) -> Wish | None:
    """Return the first wish that cannot be had even alone, or else None."""
    alone = (
        wish
        for wish in wishes.wanted
        if isinstance(_resolve(environment, [wish.requirement.unconditional], wishes.may_change, index), str)
    )
    return next(alone, None)


def _advice(
    environment: Environment, wish: Wish | None, wishes: Wishes, against: Sequence[str], index: Index
) -> str | None:
    """Return what would work: an older release of the package, another row, or a row's package that moves."""
    advice: list[str] = []
    if wish is not None:
        name = wish.requirement.name.replace("_", "-")
        fitting = _resolve(environment, [name], wishes.may_change, index)
        release = (
            next((item.version for item in fitting if normalize(item.name) == normalize(name)), None)
            if not isinstance(fitting, str)
            else None
        )
        if release:
            advice.append(tr("the newest release that fits is {name} {version}", name=name, version=release))
        if rows := _other_rows(environment, wish, wishes, index):
            advice.append(tr("it fits {rows}", rows=", ".join(rows)))
    if against:
        names = " ".join(f"--allow-change {item.partition(' ')[0]}" for item in against)
        advice.append(tr("{options} lets the row's package move, and its proof no longer counts", options=names))
    return tr("; ").join(advice) or None


def _other_rows(environment: Environment, wish: Wish, wishes: Wishes, index: Index) -> list[str]:
    """Return the other releases of the framework in which a wish fits, the newest first."""
    others = [item for item in environment.siblings if item.lock is not None][:_OTHER_ROWS]
    line = wish.requirement.unconditional
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda item: _resolve(item, [line], wishes.may_change, index), others))
    return [item.id for item, result in zip(others, found, strict=True) if not isinstance(result, str)]


# --- requirements of source trees ------------------------------------------------------------------------


def new_requirements(
    environment: Environment, component: str, requires: Sequence[str], may_change: Collection[str], where: Where
) -> tuple[Requirement, ...]:
    """Return what a project's own source tree requires beyond the row; what contradicts the row is an error.

    Requirements that the row's own release has, and the row does not meet on purpose, are not new.
    """
    python, arch = environment.version("python") or "", environment.coordinates.arch
    known = {
        (item.requirement.name, item.requirement.specifier) for item in environment.conflicts if item.owner == component
    }
    rows = {normalize(name): version for name, version in row_versions(environment).items()}
    found = []
    for item in map(parse, requires):
        if not item.applies(python, arch) or item.name in environment.removed or (item.name, item.specifier) in known:
            continue
        version = rows.get(item.name)
        if version is None or item.name in may_change:
            found.append(item)
        elif not item.allows(version):
            fields = {"component": component, "requirement": item.text, "name": item.name, "version": version}
            raise WishError(
                tr("the project's {component} requires {requirement}, and the row has {name} {version}", **fields),
                hint=tr("change the requirement, or pin another version under 'pins'"),
                where=where,
            )
    return tuple(found)
