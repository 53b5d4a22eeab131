"""Makes the plan of an environment: which layers, in which order, upon which stage.

The layers of the environment stand in the order of how often they change: large wheels, packages that nobody pins,
what is built from source, the pins of the row, and at last what must not be undone by any of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from envbuilder import files
from envbuilder.environment import image_names
from envbuilder.environment.packages import Packages, distribution, packages_of, removed_names
from envbuilder.environment.placeholders import expand, release_of
from envbuilder.environment.resolve import Environment
from envbuilder.matrix import Matrix
from envbuilder.plan.expected_conflicts import consistency
from envbuilder.plan.plan import BUILD_STAGE, Layer, Plan, Source, Stage, Step, Value
from envbuilder.plan.sources import SourceLayers, source_layers
from envbuilder.requirements import normalize, parse

# a lock, the part that source builds need, and the parts that are installed one after the other, so that a change in
# one does not install those before it again
_WHOLE, _BUILD, _LARGE, _SETTLED, _PINS = "whole.txt", "build.txt", "large.txt", "settled.txt", "pins.txt"
_FETCH = "fetch"


def make_plan(matrix: Matrix, environment: Environment, sources: Mapping[str, Source] | None = None) -> Plan:
    """The plan of an environment. With `sources` nothing is fetched while building: every component lies ready."""
    hardware, packages = environment.hardware, packages_of(matrix, environment)
    tag = expand(hardware.base.tag, matrix, environment, hardware.base.where)
    base_image = f"{hardware.base.image}:{tag}"
    lock = matrix.lock_text(environment.id)
    tools = tuple(f"{name}=={tool.version}" for name, tool in matrix.root.tools.items())
    built = source_layers(matrix, environment, sources)
    install = _Install(environment, packages, built, is_locked=lock is not None)
    check = consistency(matrix, environment, sources or {}, built.unmet)
    layers = (
        *install.before_sources(),
        *_built_wheels(built),
        *built.kept,
        *install.after_sources(),
        Layer("consistency", (*_undone(matrix, environment, packages, install), check)),
        *_shell(built),
    )
    stages = (
        Stage("tools", None, (Layer("tools", (Step("tools", {"packages": tools}),), only_in_images=True),)),
        *(() if install.fetch is None else (Stage(_FETCH, "tools", (install.fetch,)),)),
        Stage("system", "tools", tuple(_system(environment))),
        *_wheel_stages(built, install),
        Stage("environment", "system", layers),
    )
    return Plan(
        environment=environment.id,
        title=environment.title,
        base_image=base_image,
        python=packages.python,
        tools=tools,
        lock=lock,
        split=install.split,
        stages=stages,
        components=built.components,
        left_out=built.left_out,
        products=built.products,
        variables={name: setting.value for name, setting in environment.variables.items()},
        shell_setup=built.shell_setup,
        labels=_labels(matrix, environment, base_image, packages, lock, sources or {}),
    )


def _system(environment: Environment) -> Iterator[Layer]:
    packages = environment.lists["system_packages"].values
    if packages:
        yield Layer("system packages", (Step("system-packages", {"packages": packages}),), only_in_images=True)


def _wheel_stages(built: SourceLayers, install: _Install) -> Iterator[Stage]:
    """A stage for each build, upon what all builds need or upon the little that this one does."""
    if not all(few for _, few in built.wheels.values()):
        yield Stage(BUILD_STAGE, "system", (install.build_packages(),))
    for name, (layer, few) in built.wheels.items():
        if few:
            yield Stage(name, "system", (install.few_packages(name, layer.title), layer), makes_wheels=True)
        else:
            yield Stage(name, BUILD_STAGE, (layer,), makes_wheels=True)


def _built_wheels(built: SourceLayers) -> Iterator[Layer]:
    if built.wheels:
        yield Layer("source builds", (Step("built-wheels", {}), *built.then), wheels=True)


def _shell(built: SourceLayers) -> Iterator[Layer]:
    if built.shell_setup:
        step = Step("shell-setup", {"scripts": built.shell_setup})
        yield Layer("shell", (step,), only_in_images=True)


class _Install:
    """The layers that install packages: parts of the lock, or what the matrices ask for where there is none."""

    def __init__(self, environment: Environment, packages: Packages, built: SourceLayers, *, is_locked: bool) -> None:
        self.packages, self.is_locked = packages, is_locked
        pinned = {_name(line): line for line in packages.pins}
        build = [normalize(name) for name in environment.lists["build_packages"].values]
        self.build = [name for name in build if name not in packages.removed]
        # the framework is built in the environment, so what builds use is as early as the large ones
        self.large = list(dict.fromkeys([*map(_name, packages.heavy), *self.build]))
        self.pins = [name for name in pinned if name not in self.large]
        # what single builds need, by the names of their stages
        self.few = {name: list(map(normalize, few)) for name, (_, few) in built.wheels.items() if few}
        # downloads go on while the system packages are unpacked, which leaves the network and a core idle
        self.fetch: Layer | None = None
        if is_locked and environment.lists["system_packages"].values:
            parts = (_LARGE, _SETTLED)
            step = Step("fetch-wheels", {"files": parts, "indexes": packages.extra_indexes})
            self.fetch = Layer("downloads", (step,), only_in_images=True, locks=parts)

    @property
    def split(self) -> tuple[Step, ...]:
        def part(file: str, names: list[str], keep: str) -> Step:
            return Step("split-lock", {"whole": _WHOLE, "part": file, "names": _first_line(names), "keep": keep})

        return (
            part(_BUILD, self.build, "1"),
            part(_LARGE, self.large, "1"),
            part(_SETTLED, [*self.large, *self.pins], "0"),
            part(_PINS, self.pins, "1"),
            *(part(f"{name}.txt", few, "1") for name, few in self.few.items()),
        )

    def few_packages(self, name: str, title: str) -> Layer:
        return self._layer(f"build packages of {title}", f"{name}.txt", self.few[name])

    def build_packages(self) -> Layer:
        return self._layer("build packages", _BUILD, self.build)

    def before_sources(self) -> Iterator[Layer]:
        if self.large:
            yield replace(self._layer("large wheels", _LARGE, self.large), after=_FETCH if self.fetch else None)
        if self.is_locked:
            yield self._layer("settled wheels", _SETTLED)

    def after_sources(self) -> Iterator[Layer]:
        yield self._layer("wheels", _PINS)

    def _layer(self, title: str, part: str, names: list[str] | None = None) -> Layer:
        """A part of the lock; without one, what the matrices ask for, or of that what bears these names."""
        if not self.is_locked:
            return Layer(title, (self._resolved(names),))
        return Layer(
            title, (Step("locked-wheels", {"file": part, "indexes": self.packages.extra_indexes}),), locks=(part,)
        )

    def _resolved(self, names: list[str] | None = None) -> Step:
        asked = (*self.packages.pins, *self.packages.requirements)
        wheels: dict[str, Value] = {
            "requirements": tuple(line for line in asked if names is None or _name(line) in names),
            "overrides": self.packages.overrides,
            "indexes": self.packages.extra_indexes,
        }
        return Step("wheels", wheels)


def _name(line: str) -> str:
    return parse(line).name


def _first_line(names: list[str]) -> str:
    """An extended regular expression for the first line of these packages in a lock."""
    return f"^({'|'.join(name.replace('_', '[-_.]') for name in names)})==" if names else "^$"


def _undone(matrix: Matrix, environment: Environment, packages: Packages, install: _Install) -> Iterator[Step]:
    """What must not be there: a lock does not have it, a resolver may bring it along over files of something else."""
    if install.is_locked:
        if packages.removed:
            yield Step("absent", {"packages": packages.removed})
        return
    removed = removed_names(environment)
    last = [
        distribution(matrix, name)
        for name in environment.pins
        if name not in removed and name in matrix.components and matrix.components[name].last
    ]
    if packages.removed or last:
        yield Step("remove", {"packages": (*packages.removed, *last)})
    if packages.heavy:
        yield Step("exact-wheels", {"wheels": packages.heavy, "indexes": packages.extra_indexes})


def _labels(
    matrix: Matrix,
    environment: Environment,
    base_image: str,
    packages: Packages,
    lock: str | None,
    sources: Mapping[str, Source],
) -> dict[str, str]:
    name = environment.framework.component
    release = release_of(matrix, environment, name)
    labels = {
        "org.opencontainers.image.title": environment.id,
        "org.opencontainers.image.version": environment.pins[name].version,
        "org.opencontainers.image.source": matrix.components[name].repository or "",
        "org.opencontainers.image.revision": (release.commit if release else None) or "",
        "org.opencontainers.image.base.name": base_image,
        image_names.ENVIRONMENT: environment.id,
        image_names.INPUTS: f"sha256:{packages.digest}",
    }
    if lock is not None:
        labels[image_names.LOCK] = files.digest_of(lock.encode())
    for source in sources.values():
        labels[f"envbuilder.source.{source.component}"] = f"{source.kind}:{source.reference}"
    return {key: value for key, value in labels.items() if value}
