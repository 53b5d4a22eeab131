"""Finds the partners of a release: those it was published with, those published with it, and the rows that pin it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from envbuilder import versions
from envbuilder.environment.catalog import Catalog
from envbuilder.environment.coordinates import Coordinates
from envbuilder.environment.environment import Environment
from envbuilder.errors import NoMatchError
from envbuilder.language import did_you_mean, tr
from envbuilder.matrix.model import Component, Release

_SERIES = re.compile(r"v?\d+(\.\d+)?")


@dataclass(frozen=True)
class Partners:
    """A release and its partners. Versions may be families, such as 25.2.X."""

    component: Component
    release: Release
    # releases of other components that were published with this one
    named_by: Mapping[str, tuple[str, ...]]
    environments: tuple[Coordinates, ...]

    @property
    def sources(self) -> tuple[str, ...]:
        return self.release.sources or (self.component.source,)

    def conditions(self) -> tuple[str, ...]:
        """Return its requirements: Python, software that is not a package, and packages."""
        release = self.release
        python = (f"python {release.python}",) if release.python else ()
        return (*python, *(f"{name} {text}" for name, text in release.needs.items()), *release.requires)


def component_named(catalog: Catalog, name: str) -> Component:
    """Return a component by its name, a name among users, or the name of its package."""
    from envbuilder.requirements import normalize

    wanted = normalize(name)
    if found := catalog.components.get(wanted):
        return found
    for item in catalog.components.values():
        if wanted in item.aliases or normalize(item.index_name) == wanted:
            return item
    hint = did_you_mean(wanted, catalog.components) + tr("known: {names}", names=", ".join(sorted(catalog.components)))
    raise NoMatchError(tr("no component is named '{name}'", name=name), hint=hint)


def partners(catalog: Catalog, component: Component, version: str | None = None) -> list[Partners]:
    """Return the releases of a version, of a series such as 2.8, or all of them, with their partners."""
    releases = [item for item in component.releases if version is None or is_of(item.version, version)]
    if version is not None and not releases:
        raise _no_release(component, version)
    environments = catalog.environments
    return [
        Partners(component, release, _named_by(catalog, component, release), _pinned(environments, component, release))
        for release in releases
    ]


def _no_release(component: Component, version: str) -> NoMatchError:
    ordered = sorted((item.version for item in component.releases), key=versions.key)
    after = sum(versions.key(item) < versions.key(version) for item in ordered)
    named = {"component": component.title, "version": version}
    message = (
        tr("{component} {version}: it does not exist", **named)
        if component.complete
        else tr("{component} {version}: it is not in the matrices", **named)
    )
    return NoMatchError(message, hint=tr("nearest: {names}", names=", ".join(ordered[max(0, after - 2) : after + 2])))


def is_of(version: str, wanted: str) -> bool:
    """Return whether a version is the wanted one; 2.8 is a series, and 2.8.0 a release."""
    return versions.in_family(version, f"{wanted}.X" if _SERIES.fullmatch(wanted) else wanted)


def _named_by(catalog: Catalog, component: Component, release: Release) -> dict[str, tuple[str, ...]]:
    found = {
        other.name: tuple(item.version for item in other.releases if item.is_paired(component.name, release.version))
        for other in catalog.components.values()
    }
    return {name: named for name, named in found.items() if named}


def _pinned(environments: Iterable[Environment], component: Component, release: Release) -> tuple[Coordinates, ...]:
    pinned = ((item.coordinates, item.version(component.name)) for item in environments)
    return tuple(where for where, version in pinned if version and versions.same(version, release.version))
