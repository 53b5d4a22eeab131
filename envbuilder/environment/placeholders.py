"""Placeholders of the matrices that each environment fills in, such as `${pin.python}` or `${build.cann.home}`.

pin.NAME        the pinned version as written        version.NAME    the same without a leading v
commit.NAME     the full commit of that release      build.NAME.KEY  a value that its release or component defines
soc.NAME        its SOC name on the hardware         arch, engine    as in the name of the environment
os              the operating system, as tags of images name it
libraries       the folder of its libraries
"""

from __future__ import annotations

import re

from envbuilder import versions
from envbuilder.environment.cascade import Values
from envbuilder.errors import MatrixError, Where
from envbuilder.language import tr

_PLACEHOLDER = re.compile(r"\$\{([^{}]*)\}")
_DEPTH_LIMIT = 5


def expand(text: str, environment: Values, where: Where, depth: int = 0) -> str:
    """Return the text with every placeholder filled in; raise MatrixError if one has no value."""
    if "${" not in text:
        return text
    if depth > _DEPTH_LIMIT:
        raise MatrixError.of(tr("'{text}' refers to itself", text=text), where, None)

    def fill(match: re.Match[str]) -> str:
        value = _look_up(match[1], environment)
        if value is None:
            named = {"placeholder": match[0], "environment": environment.id}
            raise MatrixError.of(tr("'{placeholder}' has no value in {environment}", **named), where, None)
        return expand(value, environment, where, depth + 1)

    return _PLACEHOLDER.sub(fill, text)


def _look_up(path: str, environment: Values) -> str | None:
    scope, _, name = path.partition(".")
    if path == "arch":
        return environment.coordinates.arch
    if path in {"os", "libraries"} and environment.system is not None:
        return environment.system.tag if path == "os" else environment.system.libraries
    if path == "engine":
        return environment.coordinates.engine
    if scope == "soc":
        return environment.hardware.soc.get(name)
    if scope == "build":
        return _build_value(name, environment)
    version = environment.version(name)
    if version is None or scope not in {"pin", "version", "commit"}:
        return None
    if scope == "commit":
        release = environment.release(name)
        return release.commit if release else None
    return version if scope == "pin" else versions.public(version)


def _build_value(path: str, environment: Values) -> str | None:
    name, _, value = path.partition(".")
    component, release = environment.component(name), environment.release(name)
    if release is not None and value in release.build:
        return release.build[value]
    return component.build.get(value) if component else None
