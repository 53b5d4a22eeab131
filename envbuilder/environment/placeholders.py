"""Values that the matrices leave to the environment, written `${pin.python}` or `${build.cann.home}`.

pin.NAME        the pinned version as written        version.NAME    the same without a leading v
commit.NAME     the full commit of that release      build.NAME.KEY  a value that its release or component defines
soc.NAME        the SOC name the hardware gives it   arch, engine    as in the name of the environment
"""

from __future__ import annotations

import re
from typing import Literal

from envbuilder import versions
from envbuilder.environment.resolve import Environment
from envbuilder.errors import MatrixError, Problem, Where
from envbuilder.matrix import Matrix
from envbuilder.matrix.model import Component, Release

_PLACEHOLDER = re.compile(r"\$\{([^{}]*)\}")
_DEPTH_LIMIT = 5


def release_of(matrix: Matrix, environment: Environment, name: str) -> Release | None:
    """The release that an environment pins of a component, where the known world has it."""
    pin, component = environment.pins.get(name), matrix.components.get(name)
    return find_release(component, pin.version) if pin and component else None


def reference_of(release: Release, kind: Literal["git", "sdist"]) -> str:
    """What a source of either kind is known by: its commit, or its version on the package index."""
    return (release.commit or "") if kind == "git" else versions.public(release.version)


def find_release(component: Component, version: str) -> Release | None:
    found = [release for release in component.releases if versions.same(release.version, version)]
    exact = [release for release in found if versions.key(release.version) == versions.key(version)]
    return next(iter(exact or found), None)


def expand(text: str, matrix: Matrix, environment: Environment, where: Where) -> str:
    """The text with every placeholder filled in. One that means nothing is a problem of the matrices."""
    return _expand(text, matrix, environment, where, 0)


def is_defined(text: str, matrix: Matrix, environment: Environment) -> bool:
    try:
        return bool(expand(text, matrix, environment, environment.where))
    except MatrixError:
        return False


def _expand(text: str, matrix: Matrix, environment: Environment, where: Where, depth: int) -> str:
    if "${" not in text:
        return text
    if depth > _DEPTH_LIMIT:
        raise MatrixError([Problem(where, f"'{text}' refers to itself")])

    def fill(match: re.Match[str]) -> str:
        value = _look_up(match[1], matrix, environment)
        if value is None:
            raise MatrixError([Problem(where, f"'${{{match[1]}}}' has no value in {environment.id}")])
        return _expand(value, matrix, environment, where, depth + 1)

    return _PLACEHOLDER.sub(fill, text)


def _look_up(path: str, matrix: Matrix, environment: Environment) -> str | None:
    scope, _, name = path.partition(".")
    if path == "arch":
        return environment.coordinates.arch
    if path == "engine":
        return environment.coordinates.engine
    if scope == "soc":
        return environment.hardware.soc.get(name)
    if scope == "build":
        return _build_value(name, matrix, environment)
    version = environment.version(name)
    if version is None or scope not in {"pin", "version", "commit"}:
        return None
    if scope == "commit":
        release = release_of(matrix, environment, name)
        return release.commit if release else None
    return version if scope == "pin" else versions.public(version)


def _build_value(path: str, matrix: Matrix, environment: Environment) -> str | None:
    name, _, value = path.partition(".")
    component, release = matrix.components.get(name), release_of(matrix, environment, name)
    if release is not None and value in release.build:
        return release.build[value]
    return component.build.get(value) if component else None
