"""Typed values of option groups, and their conversion for the code that commands call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from envbuilder import paths
from envbuilder.cli.console import Console
from envbuilder.cli.project_argument import project_here
from envbuilder.environment.coordinates import Filters
from envbuilder.errors import HostError, NoMatchError, UsageError
from envbuilder.language import and_more, tr
from envbuilder.matrix import Matrix, load
from envbuilder.matrix.model import CPU, GPU, NPU, STAND_IN, Depth, Device
from envbuilder.matrix.record import Record

if TYPE_CHECKING:
    from envbuilder.environment import Catalog, Environment
    from envbuilder.inputs.base_image import BaseImageOptions
    from envbuilder.inputs.source_archives import How, SourceOptions
    from envbuilder.launch.container import Mount
    from envbuilder.lock.index import Index
    from envbuilder.machine.choice import Choice
    from envbuilder.machine.machine import Machine
    from envbuilder.network import Network
    from envbuilder.project.project import Project
    from envbuilder.validate import ValidationLevel, ValidationOptions

# options that have no effect with a bundle
_NOT_OFFLINE = (
    "base_image", "registry_mirror", "apt_mirror", "proxy", "network_settings", "pip_index", "source", "git_mirror",
    "index_url",
)  # fmt: skip


class Talk(Record):
    quiet: int = 0
    verbose: int = 0
    color: str = "auto"
    no_progress: bool = False
    debug: bool = False

    @property
    def console(self) -> Console:
        return Console(verbosity=self.verbose - self.quiet, color=self.color, draws=not self.no_progress)


class MatrixFolder(Record):
    matrices: Path | None = None

    def load(self, *, everything: bool = False) -> Matrix:
        return load(self.matrices, everything=everything)

    def catalog(self, *, everything: bool = False) -> Catalog:
        from envbuilder.environment import Catalog

        return Catalog(self.load(everything=everything))

    @property
    def words(self) -> tuple[str, ...]:
        """Return the options of the command line that select this folder."""
        return ("--matrices", str(self.matrices)) if self.matrices else ()

    @property
    def folder(self) -> Path:
        """Return the folder for new evidence."""
        return self.matrices or paths.matrices()


_FIELDS = ("framework", "branch", "engine", "hw", "arch", "os")


class Dimensions(Record):
    framework: str | None = None
    branch: str | None = None
    engine: str | None = None
    hw: str | None = None
    arch: str | None = None
    os: str | None = None
    machine: Path | None = None

    @property
    def filters(self) -> Filters:
        return Filters(self.framework, self.branch, self.engine, self.hw, self.arch, self.os)

    @property
    def given(self) -> bool:
        return bool(self.filters.given())

    def look(self) -> Machine | None:
        """Return the machine to choose for: the described one, or this one if it has NPUs."""
        from envbuilder import platforms

        if self.machine is None and not platforms.npus():
            return None
        from envbuilder.machine.machine import look

        return look(self.machine) if self.machine else look()

    def choose(
        self, catalog: Catalog, talk: Talk, machine: Machine | None, pins: Mapping[str, str] | None = None
    ) -> Choice:
        """Return what the options and a machine choose, and print why."""
        from envbuilder.cli.reasons import reasons
        from envbuilder.machine.choice import choose

        choice = choose(catalog, self.filters, machine, pins)
        if self.branch is None:
            for line in reasons(catalog, choice, self.engine, machine):
                talk.console.talk(line)
        return choice

    def environment(
        self, catalog: Catalog, name: str | None, talk: Talk, pins: Mapping[str, str] | None = None
    ) -> Environment:
        """Return the environment of this name; without a name, the options and this machine choose it."""
        if name is not None:
            chosen = catalog.pick(name, self.filters, pins)
        elif (project := project_here()) is not None:
            return self.of_project(project, catalog, talk, self.look(), pins)
        else:
            chosen, fit, _ = self.choose(catalog, talk, self.look(), pins)
            if fit and not fit.fits:
                talk.console.warn("cann-hdk", fit.refusal)
        warn_unlocked(talk.console, [chosen])
        return chosen

    def of_project(
        self, project: Project, catalog: Catalog, talk: Talk, machine: Machine | None,
        pins: Mapping[str, str] | None = None,
    ) -> Environment:  # fmt: skip
        """Return the environment of a project; dimensions that are typed, or in variables, come before its own."""
        return project.adopt(self.row_of(project, catalog, talk, machine, pins))

    def row_of(
        self, project: Project, catalog: Catalog, talk: Talk, machine: Machine | None,
        pins: Mapping[str, str] | None = None,
    ) -> Environment:  # fmt: skip
        filters = project.filters(catalog, self.explicit.filters)
        chosen = Dimensions(
            framework=filters.framework, branch=filters.branch, engine=filters.engine, hw=filters.hardware,
            arch=filters.arch, os=filters.os,
        )  # fmt: skip
        return chosen.choose(catalog, talk, machine, pins).environment

    @property
    def explicit(self) -> Dimensions:
        """Return the dimensions without those of settings files; a command may have added one."""
        return self._from(ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT, ParameterSource.DEFAULT)

    @property
    def typed(self) -> Dimensions:
        """Return the dimensions of the command line."""
        return self._from(ParameterSource.COMMANDLINE)

    def _from(self, *sources: ParameterSource) -> Dimensions:
        source_of = click.get_current_context().get_parameter_source
        return Dimensions(**{name: getattr(self, name) for name in _FIELDS if source_of(name) in sources})

    def selected(
        self, catalog: Catalog, identifiers: Sequence[str], talk: Talk, pins: Mapping[str, str] | None = None
    ) -> list[Environment]:
        """Return the environments of these names; without names, that of the project, or all that the options admit."""
        if not identifiers and (project := project_here()) is not None:
            return [self.of_project(project, catalog, talk, self.look(), pins)]
        return catalog.select(identifiers, self.filters, pins)


def warn_unlocked(console: Console, environments: Sequence[Environment]) -> None:
    """Warn about environments without a lock, which install what the package index has on that day."""
    found = [item for item in environments if not item.rank.is_locked]
    if found:
        names = and_more([found[0].id], len(found) - 1)
        message = tr("{names}: no lock, so two builds may differ", names=names)
        console.warn("no-lock", f"{message} ({found[0].unlocked_because})" if found[0].unresolved else message)


class IndexArguments(Record):
    index_url: str | None = None
    ca_bundle: Path | None = None

    def open(self) -> Index:
        from envbuilder.lock.index import Index, cache_folder

        return Index(self.index_url, ca_bundle=self.ca_bundle, cache=cache_folder())

    def installer_variables(self) -> dict[str, str]:
        """Return the variables that make pip and uv use this host's certificates and package index."""
        from envbuilder.network import CA_USERS, host_network

        network = host_network()
        bundle = self.ca_bundle or network.ca_bundle
        index = network._replace(index_url=self.index_url or network.index_url).index_variables()
        return {**index, **(dict.fromkeys(CA_USERS, str(bundle)) if bundle else {})}


class SourceArguments(Record):
    source: How = "auto"
    git_mirror: str | None = None

    def options(self, index: IndexArguments) -> SourceOptions:
        from envbuilder.inputs.source_archives import SourceOptions

        return SourceOptions(self.source, index.open(), self.git_mirror)


class ReachArguments(Record):
    """How a build reaches registries, mirrors and package indexes."""

    base_image: str | None = None
    registry_mirror: str | None = None
    apt_mirror: str | None = None
    proxy: str | None = None
    network_settings: str = "host"

    def base(self) -> BaseImageOptions:
        from envbuilder.inputs.base_image import BaseImageOptions

        return BaseImageOptions(self.base_image, self.registry_mirror, self.apt_mirror)

    def network(self, ca_bundle: Path | None, pip_index: str | None = None) -> Network:
        """Return the network settings for a build: those of this host, changed by the options."""
        from envbuilder.network import Network, host_network

        network = host_network() if self.network_settings == "host" else Network()
        overrides: dict[str, Any] = {
            "ca_bundle": ca_bundle,
            "proxies": dict.fromkeys(("http_proxy", "https_proxy"), self.proxy) if self.proxy else None,
            "apt_mirror": self.apt_mirror,
            "index_url": pip_index,
        }
        return network._replace(**{name: value for name, value in overrides.items() if value})


class DeviceArguments(Record):
    device: str = "auto"
    npus: int | None = None

    def validation(
        self, environment: Environment, level: ValidationLevel = "train", depth: Depth | None = None,
        backend: str | None = None,
    ) -> ValidationOptions:  # fmt: skip
        from envbuilder.validate import ValidationOptions
        from envbuilder.validate.smoke.job import backends

        device, npus = self._of(environment)
        if backend is not None and backend not in (known := backends(environment, device, depth or "engine")):
            fields = {"backend": backend, "environment": environment.id, "device": device}
            raise NoMatchError(
                tr("there is no backend '{backend}' for {environment} on {device}", **fields),
                hint=tr("known: {names}", names=", ".join(known) or tr("none")),
            )
        return ValidationOptions(level, device, npus, depth, backend)

    def _of(self, environment: Environment) -> tuple[Device, int]:
        """Return the device to train on, and the number of them."""
        from envbuilder import platforms

        hardware, recipe = environment.hardware, environment.smoke_run
        device = self.device
        if device == "auto":
            own, found = (GPU, platforms.gpus()) if hardware.has_gpus else (NPU, platforms.npus())
            device = own if found and not hardware.cpu_only else CPU
            device = STAND_IN if environment.on_stand_in else device
        if device in {NPU, GPU}:
            present = platforms.npus() if device == NPU else platforms.gpus()
            if len(present) < (self.npus or 1):
                raise HostError(
                    tr("this machine has {number} {devices}", number=len(present), devices=f"{device.upper()}s"),
                    hint=tr("--device {device}, or fewer --npus", device=CPU),
                )
            return NPU if device == NPU else GPU, self.npus or len(present)
        if device == STAND_IN:
            return STAND_IN, self.npus or (recipe.groups if recipe else 1)
        return CPU, 1


class ProofFiles(Record):
    """Files for the report of a proof."""

    junit: Path | None = None
    html: Path | None = None

    @property
    def by_form(self) -> dict[str, Path]:
        """Return the files that are wanted, by the endings of their forms."""
        return {form: file for form, file in (("xml", self.junit), ("html", self.html)) if file is not None}


class PinArguments(Record):
    pin: tuple[str, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """Return the options of the command line that set these pins."""
        return tuple(word for text in self.pin for word in ("--pin", text))

    @property
    def versions(self) -> dict[str, str]:
        from envbuilder.requirements import normalize

        found = {}
        for text in self.pin:
            name, equals, version = text.partition("=")
            if not (name and equals and version):
                raise UsageError(tr("--pin takes NAME=VERSION, not '{text}'", text=text))
            found[normalize(name)] = version.lstrip("=")
        return found


class ContainerArguments(Record):
    volume: tuple[str, ...] = ()
    env: tuple[str, ...] = ()

    @property
    def volumes(self) -> tuple[Mount, ...]:
        return tuple(map(_volume, self.volume))

    @property
    def variables(self) -> dict[str, str | None]:
        """Return the variables; the value None means that of this shell."""
        found: dict[str, str | None] = {}
        for text in self.env:
            name, equals, value = text.partition("=")
            if not name.isidentifier():
                raise UsageError(tr("--env takes NAME=VALUE or NAME, not '{text}'", text=text))
            found[name] = value if equals else None
        return found


def _volume(text: str) -> Mount:
    from envbuilder.launch.container import Mount

    source, _, rest = text.partition(":")
    target, _, mode = rest.partition(":")
    if not source or not target.startswith("/") or mode not in {"", "ro", "rw"}:
        raise UsageError(tr("--volume takes SRC:DST or SRC:DST:ro, not '{text}'", text=text))
    is_path = "/" in source or source in {".", "..", "~"}
    return Mount(str(Path(source).expanduser().absolute()) if is_path else source, target, mode == "ro")


def bundled_environment(name: str | None, offline: Path | None) -> str | None:
    """Return the given name, or the environment in the bundle; refuse options that have no effect with a bundle."""
    if offline is None:
        return name
    context = click.get_current_context()
    for item in context.command.params:
        if item.name in _NOT_OFFLINE and context.get_parameter_source(item.name) is ParameterSource.COMMANDLINE:
            raise UsageError(tr("--offline takes everything from the bundle: leave out {option}", option=item.opts[0]))
    from envbuilder.bundle import environment_in

    return name or environment_in(offline)


class ProjectKey(str):
    """A key that the file of a project demands beside the keys of the user."""

    __slots__ = ()


class KeyFile(click.ParamType[str]):
    """A public key, with an optional prefix of image names: `registry.example.com/team=team.pub`."""

    name = "key"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from envbuilder.registry.reference import prefix_of

        prefix, file = self.parts(str(value))
        path = Path(file).expanduser()
        if not path.is_file():
            self.fail(tr("there is no file '{file}'", file=file), param, ctx)
        found = self.joined(prefix_of(prefix), path.absolute())
        return ProjectKey(found) if isinstance(value, ProjectKey) else found

    @staticmethod
    def parts(value: str) -> tuple[str, str]:
        """Return the prefix and the file; a path may contain `=`, and a prefix may not."""
        prefix, equals, file = value.partition("=")
        return (prefix, file) if equals else ("", value)

    @staticmethod
    def joined(prefix: str, path: Path) -> str:
        return f"{prefix}={path}" if prefix or "=" in str(path) else str(path)
