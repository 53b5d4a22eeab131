"""Finds the partners of a release: those it was published with, those published with it, and the rows that pin it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
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
    # releases of other components that are stated to work with this one
    stated_by: Mapping[str, tuple[str, ...]]
    environments: tuple[Coordinates, ...]

    @property
    def sources(self) -> tuple[str, ...]:
        return self.release.sources or (self.component.source,)

    @property
    def works_with(self) -> dict[str, tuple[str, ...]]:
        """Return the releases of other components that this one, or they, state to be compatible."""
        own, others = self.release.compatible, self.stated_by
        return {name: tuple(dict.fromkeys((*own.get(name, ()), *others.get(name, ())))) for name in {**own, **others}}

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
    found = [_partners_of(catalog, component, release) for release in releases]
    if version is not None and not found:
        # a release that is in no list may be of a family that others name
        unlisted = _partners_of(catalog, component, Release(version=version, where=component.where))
        if component.complete or not (unlisted.named_by or unlisted.stated_by):
            raise _no_release(component, version)
        return [unlisted]
    return found


def _partners_of(catalog: Catalog, component: Component, release: Release) -> Partners:
    def naming(named: Callable[[Release], Mapping[str, tuple[str, ...]]]) -> dict[str, tuple[str, ...]]:
        """Return the releases of each other component whose table has this release."""
        found = {
            other.name: tuple(
                item.version
                for item in other.releases
                if any(versions.in_family(release.version, family) for family in named(item).get(component.name, ()))
            )
            for other in catalog.components.values()
        }
        return {name: listed for name, listed in found.items() if listed}

    return Partners(
        component,
        release,
        naming(lambda item: item.paired),
        naming(lambda item: item.compatible),
        _pinned(catalog.environments, component, release),
    )


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


def _pinned(environments: Iterable[Environment], component: Component, release: Release) -> tuple[Coordinates, ...]:
    pinned = ((item.coordinates, item.version(component.name)) for item in environments)
    return tuple(where for where, version in pinned if version and versions.same(version, release.version))
