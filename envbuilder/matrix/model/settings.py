"""The settings that every layer of the cascade may have."""

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

from envbuilder.errors import Where
from envbuilder.matrix.model.scalars import INJECTED, Arch, Date, Line, Name, Prose, Specifier, Url, Variable, Version
from envbuilder.matrix.record import NOTHING, Record


class Pin(Record):
    """One chosen version. `documented` is the version in the source if it differs, `because` the reason."""

    version: Version
    source: Line
    documented: Line | None = None
    because: Prose | None = None
    # of a drafted row, until a person has decided: chosen from a range, or against what is stated
    draft: Literal["guessed", "undecided"] | None = None
    where: Annotated[Where, INJECTED]


class Setting(Record):
    """An environment variable that is set at run time."""

    value: Line
    source: Line
    because: Prose | None = None
    where: Annotated[Where, INJECTED]


class Append(Record):
    """A list that extends that of the lower layers instead of replacing it."""

    append: tuple[Line, ...]
    where: Annotated[Where, INJECTED]


Items: TypeAlias = tuple[Line, ...] | Append
_NOTHING_ADDED = Append(append=(), where=Where(""))


class Settings(Record):
    """The settings that every layer of the cascade may have."""

    pins: Mapping[Name, Pin] = NOTHING
    variables: Mapping[Variable, Setting] = NOTHING
    system_packages: Items = _NOTHING_ADDED
    # the index of a package, if it does not come from the user's index
    indexes: Mapping[Name, Url] = NOTHING
    requirements: Items = _NOTHING_ADDED
    # packages for builds from source
    build_packages: Items = _NOTHING_ADDED
    remove: Items = _NOTHING_ADDED
    # pins that override the requirements of other packages
    force: Items = _NOTHING_ADDED
    # pins of lower layers that the environment does not have
    without: Items = _NOTHING_ADDED
    # components with a repository that come as wheels of the package index, and are not built from source
    from_index: Items = _NOTHING_ADDED
    # the local version label that this layer needs: torch==2.5.1 becomes torch==2.5.1+cpu
    local_versions: Mapping[Name, Name] = NOTHING
    # the lock ignores files uploaded after this date; later dates for single packages
    exclude_newer: Date | None = None
    newer_packages: Mapping[Name, Date] = NOTHING


class When(Record):
    """Conditions on the dimensions of an environment; all that are given must hold."""

    framework: tuple[Name, ...] = ()
    branch: tuple[Name, ...] = ()
    engine: tuple[Name, ...] = ()
    hardware: tuple[Name, ...] = ()
    family: tuple[Name, ...] = ()
    arch: tuple[Arch, ...] = ()
    pins: Mapping[Name, Specifier] = NOTHING
    where: Annotated[Where, INJECTED]

    @property
    def text(self) -> str:
        """Return the conditions as text for messages."""
        given = {name: getattr(self, name) for name in ("framework", "branch", "engine", "hardware", "family", "arch")}
        named = (f"{name} {' or '.join(values)}" for name, values in given.items() if values)
        return ", ".join((*named, *(f"{name} {limit}" for name, limit in self.pins.items())))


class Override(Settings):
    when: When
    where: Annotated[Where, INJECTED]


class SettingsFile(Settings):
    """A file that is a layer of the cascade. `sources` names the sources that its values share."""

    sources: Mapping[Name, Line] = NOTHING
    overrides: tuple[Override, ...] = ()
    name: Annotated[str, INJECTED]
    where: Annotated[Where, INJECTED]
