"""What every layer of the cascade may say."""

from collections.abc import Mapping
from typing import Annotated, TypeAlias

from envbuilder.errors import Where
from envbuilder.matrix.model.scalars import INJECTED, Arch, Date, Line, Name, Prose, Specifier, Url, Variable, Version
from envbuilder.matrix.record import NOTHING, Record


class Pin(Record):
    """One chosen version. `documented` is what the source says where that differs, `because` is why."""

    version: Version
    source: Line
    documented: Line | None = None
    because: Prose | None = None
    where: Annotated[Where, INJECTED]


class Setting(Record):
    """A variable of the running environment."""

    value: Line
    source: Line
    because: Prose | None = None
    where: Annotated[Where, INJECTED]


class Append(Record):
    """A list that adds to the one of the layer below instead of replacing it."""

    append: tuple[Line, ...]
    where: Annotated[Where, INJECTED]


Items: TypeAlias = tuple[Line, ...] | Append
_NOTHING_ADDED = Append(append=(), where=Where(""))


class Settings(Record):
    """What every layer of the cascade may say."""

    pins: Mapping[Name, Pin] = NOTHING
    variables: Mapping[Variable, Setting] = NOTHING
    system_packages: Items = _NOTHING_ADDED
    # where a package comes from, when not from the user's own index
    indexes: Mapping[Name, Url] = NOTHING
    requirements: Items = _NOTHING_ADDED
    # the part of the lock that source builds use
    build_packages: Items = _NOTHING_ADDED
    remove: Items = _NOTHING_ADDED
    # pins that hold against whatever other packages require of them
    force: Items = _NOTHING_ADDED
    # the build of a wheel that this layer needs: torch==2.5.1 becomes torch==2.5.1+cpu
    local_versions: Mapping[Name, Name] = NOTHING
    # the day whose package index the lock sees, and packages that may be newer than it
    exclude_newer: Date | None = None
    newer_packages: Mapping[Name, Date] = NOTHING


class When(Record):
    """Conditions over the dimensions of an environment; all that are given must hold."""

    framework: tuple[Name, ...] = ()
    branch: tuple[Name, ...] = ()
    engine: tuple[Name, ...] = ()
    hardware: tuple[Name, ...] = ()
    family: tuple[Name, ...] = ()
    arch: tuple[Arch, ...] = ()
    pins: Mapping[Name, Specifier] = NOTHING
    where: Annotated[Where, INJECTED]


class Override(Settings):
    when: When
    where: Annotated[Where, INJECTED]


class SettingsFile(Settings):
    """A file that takes part in the cascade. `sources` gives names to sources that its values share."""

    sources: Mapping[Name, Line] = NOTHING
    overrides: tuple[Override, ...] = ()
    name: Annotated[str, INJECTED]
    where: Annotated[Where, INJECTED]
