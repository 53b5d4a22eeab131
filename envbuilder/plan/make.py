"""Makes the plan of an environment: which layers, in which order, on which stage.

The layers of the environment are ordered by how often they change, so that an upgrade downloads little: large wheels,
packages without a pin, source builds, the pins of the row, and the check that all of them are consistent.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from envbuilder.environment import Environment, image_names
from envbuilder.environment.locks import UNHASHED
from envbuilder.environment.packages import LeftOut, Packages, built_components
from envbuilder.language import english
from envbuilder.network import OFFLINE
from envbuilder.plan.expected_conflicts import expected_conflicts
from envbuilder.plan.plan import (
    BILL_FILE,
    ENVIRONMENT_STAGE,
    EXPECTED_CONFLICTS,
    LOCKS,
    NOTHING_READY,
    REMOVED,
    REQUIREMENTS,
    SECRETS,
    SETUP,
    TOOLS,
    Inputs,
    Layer,
    Plan,
    SourceArchive,
    Stage,
    Step,
)
from envbuilder.plan.project import joined, project_plan
from envbuilder.plan.sources import SourceLayers, source_layers
from envbuilder.plan.system import system_packages
from envbuilder.requirements import normalize, parse

_OVERRIDES = "overrides"


def make_plan(environment: Environment, inputs: Inputs = NOTHING_READY) -> Plan:
    """Return the plan of an environment for a build that has these inputs."""
    if environment.additions is not None:
        row_inputs = replace(inputs, sources=_of_row(environment.of_row, inputs.sources))
        return project_plan(environment, environment.additions, make_plan(environment.of_row, row_inputs), inputs)
    built = source_layers(environment, inputs.sources)
    install = _Install(environment, built)
    stages = _stages(environment, built, install)
    conflicts = expected_conflicts(environment, inputs.sources or {}, built.unmet)
    return Plan(
        environment=environment.id,
        folder=environment.coordinates.folder,
        title=environment.title,
        arch=environment.coordinates.arch,
        base_image=environment.base_image,
        python=environment.packages.python,
        tools=environment.tools,
        lock=environment.lock,
        stages=stages,
        components=built.components,
        left_out=(*built.left_out, *_left_out(environment)),
        products=built.products,
        variables={name: setting.value for name, setting in environment.variables.items()},
        shell_setup=built.shell_setup,
        labels=_labels(environment, inputs.sources or {}),
        files={
            TOOLS: "".join(item.text for item in environment.tools),
            **install.files(stages),
            **built.files,
            **_check_files(environment, conflicts),
            **_setup_file(built.shell_setup, environment.preload),
        },
        secrets=_secrets(inputs),
        bill=BILL_FILE if inputs.bill else None,
        offline=OFFLINE if inputs.offline else None,
        pinned_base=environment.pinned_base if environment.base_digest else None,
    )


def host_plan(environment: Environment, inputs: Inputs = NOTHING_READY) -> Plan:
    """Return the plan of an environment for a host: that of a project is one with its row's."""
    plan, additions = make_plan(environment, inputs), environment.additions
    return joined(plan.row, plan, additions.sources) if plan.row and additions else plan


def _of_row(row: Environment, sources: Mapping[str, SourceArchive] | None) -> Mapping[str, SourceArchive] | None:
    """Return the sources that the image of a row was made from, if all of them are known."""
    return sources if sources is not None and sources.keys() >= set(built_components(row)) else None


def _secrets(inputs: Inputs) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*SECRETS, *inputs.secrets)))


def _stages(environment: Environment, built: SourceLayers, install: _Install) -> tuple[Stage, ...]:
    """Return the stages: each on top of one that changes less often, and source builds outside the environment."""
    system = Stage("system", None, tuple(_system(environment)))
    torch = Stage("torch", system.name, tuple(install.part("torch", "torch")))
    above = torch.name if torch.layers else system.name
    # the framework is built in the environment, which therefore has the packages of builds too
    build = Stage("build", above, tuple(install.part("build packages", "build")))
    last = build.name if build.layers else above
    built_wheels = Layer("source builds", (Step("built-wheels", {}), *built.then), wheels=True)
    environment_layers = (
        *install.part("other large wheels", "large"),
        *install.settled(),
        *([built_wheels] if built.wheels else []),
        *built.kept,
        *install.after_sources(),
        _consistency(environment, install),
    )
    return (
        *(stage for stage in (system, torch, build) if stage.layers),
        *(Stage(name, last, (layer,)) for name, layer in built.shared.items()),
        *_wheel_stages(built, install, system=system.name, torch=above, build=last),
        Stage(ENVIRONMENT_STAGE, last, environment_layers),
    )


def _left_out(environment: Environment) -> Iterator[LeftOut]:
    system = environment.system
    if environment.on_stand_in and system is not None and system.installer == "dnf":
        yield LeftOut(f"system packages of {system.title}", english("a stand-in of CANN is built on Debian"))
    for item in environment.out_of_reach:
        yield LeftOut(f"{item.name} {item.version}", english("its index could not be reached when the row was locked"))


def _system(environment: Environment) -> Iterator[Layer]:
    yield Layer("tools", (Step("tools", {"file": TOOLS}),), only_in_images=True, reads=(TOOLS,))
    yield from system_packages(environment, environment.lists["system_packages"].values)


def _wheel_stages(
    built: SourceLayers, install: _Install, *, system: str, torch: str, build: str
) -> Iterator[Stage]:  # fmt: skip
    """Yield a stage for each source build, on top of the packages of all builds or of the few that it needs."""
    for name, (layer, few, source) in built.wheels.items():
        if few and source is None:
            parent = torch if install.needs_torch(few) else system
            layers = (*install.few_packages(name, layer.title), layer)
            yield Stage(name, parent, layers, makes_wheels=True)
        else:
            yield Stage(name, source or build, (layer,), makes_wheels=True)


class _Install:
    """The layers that install packages: parts of the lock, or without a lock the requirements of the matrices."""

    def __init__(self, environment: Environment, built: SourceLayers) -> None:
        self.packages, self.lock = environment.packages, environment.lock
        unhashed = self.lock.parts[UNHASHED] if self.lock else ()
        self.unhashed = tuple(item for item in unhashed if item not in environment.out_of_reach)
        # uv fails at an index that it cannot reach, also for packages that this index does not have
        names = {item.name for item in unhashed}
        indexes = self.packages.indexes.items()
        self.indexes = tuple(dict.fromkeys(url for name, url in indexes if name not in names))
        self.torch = frozenset(self.packages.parts["torch"])
        # the packages of single builds, besides torch, by the names of their stages
        self.few = {
            name: tuple(item for item in map(normalize, build.few) if item not in self.torch)
            for name, build in built.wheels.items()
            if build.few
        }

    def files(self, stages: tuple[Stage, ...]) -> dict[str, str]:
        """Return the files of the lock, or without a lock those of the requirements that the layers read."""
        if self.lock is not None:
            parts = self.lock.files() | {name: self.lock.only(names) for name, names in self.few.items()}
            return {_lock_file(name): text for name, text in parts.items()}
        packages = self.packages
        lines = {name: packages.lines(names) for name, names in {**packages.parts, **self.few}.items()}
        lines |= {"pins": (*packages.pins, *packages.requirements), _OVERRIDES: packages.overrides}
        read = {path for stage in stages for layer in stage.layers for path in layer.reads}
        texts = {_requirements_file(name): "".join(f"{line}\n" for line in found) for name, found in lines.items()}
        return {path: text for path, text in texts.items() if path in read}

    def part(self, title: str, name: str) -> Iterator[Layer]:
        if self.lock.parts[name] if self.lock else self.packages.lines(self.packages.parts[name]):
            yield self._layer(title, name)

    def few_packages(self, stage: str, title: str) -> Iterator[Layer]:
        if self.few[stage]:
            yield self._layer(f"build packages of {title}", stage)

    def needs_torch(self, few: tuple[str, ...]) -> bool:
        return not self.torch.isdisjoint(map(normalize, few))

    def settled(self) -> Iterator[Layer]:
        if self.lock is not None and self.lock.parts["settled"]:
            yield self._layer("settled wheels", "settled")

    def after_sources(self) -> Iterator[Layer]:
        if self.lock is None or self.lock.parts["pins"]:
            yield self._layer("pins", "pins")
        if self.unhashed:
            lines = tuple(f"{item.name}=={item.version}" for item in self.unhashed)
            yield Layer("wheels without a hash", tuple(_exact_wheels(self.packages, lines)))

    def _layer(self, title: str, part: str) -> Layer:
        """Return the layer that installs a part of the lock, or without a lock the requirements of that part."""
        if self.lock is not None:
            file = _lock_file(part)
            return Layer(title, (Step("locked-wheels", {"file": file, "indexes": self.indexes}),), reads=(file,))
        file, overrides = _requirements_file(part), _requirements_file(_OVERRIDES)
        names = self.few.get(part, self.packages.parts.get(part, ()))
        lines = self.packages.lines(names) if part != "pins" else (*self.packages.pins, *self.packages.requirements)
        # wheels of other indexes come first, so that the package index is not asked for them
        first = _exact_wheels(self.packages, [line for line in lines if _index_of(self.packages, line)])
        step = Step("wheels", {"file": file, "overrides": overrides})
        return Layer(title, (*first, step), reads=(file, overrides))


def _exact_wheels(packages: Packages, lines: Sequence[str]) -> Iterator[Step]:
    """Yield a step for the wheels of each index; no other index may answer for their names."""
    for index in dict.fromkeys(_index_of(packages, line) for line in lines):
        own = tuple(line for line in lines if _index_of(packages, line) == index)
        yield Step("exact-wheels", {"wheels": own, **({"index": index} if index else {})})


def _index_of(packages: Packages, line: str) -> str | None:
    """Return the index that a requirement has of its own."""
    own = {normalize(name): url for name, url in packages.indexes.items()}
    return own.get(parse(line).name)


def _lock_file(part: str) -> str:
    return f"{LOCKS}/{part}.txt"


def _requirements_file(part: str) -> str:
    return f"{REQUIREMENTS}/{part}.txt"


def _consistency(environment: Environment, install: _Install) -> Layer:
    """Return the layer that fails on an unexpected conflict, or on a package that must not be installed."""
    steps = (Step("absent", {"file": REMOVED}), Step("pip-check", {"file": EXPECTED_CONFLICTS}))
    return Layer("consistency", (*_corrections(environment, install), *steps), reads=(REMOVED, EXPECTED_CONFLICTS))


def _corrections(environment: Environment, install: _Install) -> Iterator[Step]:
    """Yield steps that remove refused packages, and reinstall those whose files they overwrote.

    Only an environment without a lock needs them, as its wheels are resolved during the build.
    """
    if install.lock is not None:
        return
    packages = environment.packages
    shared = [
        environment.distribution(name)
        for name in environment.pins
        if name not in environment.removed and (component := environment.component(name)) and component.last
    ]
    if packages.removed or shared:
        yield Step("remove", {"packages": (*packages.removed, *shared)})
    heavy = [name for name in environment.pins if (component := environment.component(name)) and component.heavy]
    lines = tuple(line for line in packages.lines(heavy) if line in packages.pins)
    if lines:
        yield from _exact_wheels(packages, lines)


def _check_files(environment: Environment, conflicts: tuple[str, ...]) -> dict[str, str]:
    removed = (name.replace("_", "[-_.]") for name in environment.packages.removed)
    return {
        REMOVED: "".join(f"^{name}==\n" for name in removed),
        EXPECTED_CONFLICTS: "".join(f"{pattern}\n" for pattern in conflicts),
    }


def _setup_file(scripts: tuple[str, ...], preload: str | None) -> dict[str, str]:
    """Return the file that sets up the vendor's toolkit, once in every bash."""
    if not scripts:
        return {}
    lines = ["[[ -v ENVBUILDER_SETUP ]] || {", "export ENVBUILDER_SETUP=1"]
    lines += [f"source {shlex.quote(script)}" for script in scripts]
    lines += [f"[[ ! -e {preload} ]] || export LD_PRELOAD={preload}${{LD_PRELOAD:+:$LD_PRELOAD}}"] if preload else []
    return {SETUP: "\n".join([*lines, "}"]) + "\n"}


def _labels(environment: Environment, sources: Mapping[str, SourceArchive]) -> dict[str, str]:
    name = environment.framework.component
    component, release, lock = environment.component(name), environment.release(name), environment.lock
    labels = {
        "org.opencontainers.image.title": environment.id,
        "org.opencontainers.image.version": environment.pins[name].version,
        "org.opencontainers.image.source": (component.repository if component else None) or "",
        "org.opencontainers.image.revision": (release.commit if release else None) or "",
        "org.opencontainers.image.base.name": environment.base_image,
        image_names.ENVIRONMENT: environment.id,
        image_names.INPUTS: f"sha256:{environment.packages.digest}",
        image_names.LOCK: lock.digest if lock else "",
        image_names.REHEARSAL: environment.provider if environment.on_stand_in else "",
        image_names.FALLBACK: environment.fallback or "",
    }
    for source in sources.values():
        labels[f"{image_names.SOURCE}{source.component}"] = f"{source.kind}:{source.reference}"
    return {key: value for key, value in labels.items() if value}
