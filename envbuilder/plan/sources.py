"""Source builds: each makes a wheel in a separate stage, or keeps its source tree in the environment."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

from envbuilder.environment import Environment
from envbuilder.environment.image_names import SOURCE
from envbuilder.environment.packages import LeftOut, source_builds
from envbuilder.errors import MatrixError
from envbuilder.language import tr
from envbuilder.matrix.model import LayerSpec, Product, Release, StepSpec, StepValue
from envbuilder.plan.plan import ARCHIVES, HOME, SOURCES, TOOLKIT, Layer, SourceArchive, Step, Value


class WheelBuild(NamedTuple):
    """A layer that makes wheels: the names of its build packages if it needs only a few, and of its source stage."""

    layer: Layer
    few: tuple[str, ...]
    source: str | None


@dataclass(frozen=True)
class SourceLayers:
    """The layers of all source builds of an environment, and what other parts of the plan need of them."""

    # source trees that several builds share, by the name of their stage
    shared: Mapping[str, Layer]
    # by the name of the stage that makes the wheels
    wheels: Mapping[str, WheelBuild]
    # steps to run in the environment after the wheels are installed
    then: tuple[Step, ...]
    # layers whose source tree stays in the environment
    kept: tuple[Layer, ...]
    left_out: tuple[LeftOut, ...]
    components: tuple[str, ...]
    # component and requirement that the environment does not meet on purpose
    unmet: tuple[tuple[str, str], ...]
    # files that prove that a component was compiled
    products: tuple[Product, ...]
    # scripts that the builds source, and a shell of a user must source too
    shell_setup: tuple[str, ...]
    # what the builds read: the hashes of source archives that they download, and the setup of the toolkit
    files: Mapping[str, str]


def source_layers(environment: Environment, sources: Mapping[str, SourceArchive] | None) -> SourceLayers:
    specs, left_out = source_builds(environment)
    maker = _Maker(environment, sources)
    made = [spec for spec in specs if not spec.keep_source]
    times = Counter(spec.component for spec in made)
    shared = {_source_stage(spec): maker.source(spec) for spec in made if times[spec.component] > 1}
    wheels: dict[str, WheelBuild] = {}
    for at, spec in enumerate(made):
        number = sum(other.component == spec.component for other in made[: at + 1])
        name = f"wheels-{spec.component}" + (f"-{number}" if number > 1 else "")
        source = _source_stage(spec) if times[spec.component] > 1 else None
        wheels[name] = WheelBuild(maker.build(spec, name, apart=source is not None), spec.build_packages, source)
    kept = tuple(maker.build(spec) for spec in specs if spec.keep_source)
    uses_toolkit = any(TOOLKIT in build.layer.reads for build in wheels.values())
    return SourceLayers(
        shared=shared,
        wheels=wheels,
        then=tuple(step for spec in specs for step in maker.steps(spec, spec.then)),
        kept=kept,
        left_out=tuple(left_out),
        components=tuple(dict.fromkeys(spec.component for spec in specs)),
        unmet=tuple((spec.component, name) for spec in specs for name in spec.unmet),
        products=tuple(_product(spec, product) for spec in specs for product in spec.products),
        shell_setup=maker.toolkit_scripts if uses_toolkit else (),
        files={**dict(maker.archives(specs)), **({TOOLKIT: maker.toolkit_file()} if uses_toolkit else {})},
    )


def kept_layers(environment: Environment, sources: Mapping[str, SourceArchive]) -> tuple[Layer, ...]:
    """Return the layers that install these components from other source trees than the row's."""
    maker = _Maker(environment, sources)
    specs, _ = source_builds(environment)
    return tuple(maker.build(spec) for spec in specs if spec.keep_source and spec.component in sources)


def labelled_sources(labels: Mapping[str, str]) -> dict[str, SourceArchive]:
    """Return the sources that the labels of an image name; their archives need not be on this machine."""
    found = {}
    for name, value in labels.items():
        if name.startswith(SOURCE):
            component, (form, _, reference) = name.removeprefix(SOURCE), value.partition(":")
            kind: Literal["git", "sdist"] = "git" if form == "git" else "sdist"
            found[component] = SourceArchive(component, kind, reference, Path(component), "", 0, ".")
    return found


def _source_stage(spec: LayerSpec) -> str:
    return f"source-{spec.component}"


@dataclass(frozen=True)
class _Maker:
    environment: Environment
    sources: Mapping[str, SourceArchive] | None

    def source(self, spec: LayerSpec) -> Layer:
        """Return the layer that unpacks or fetches a source tree, and applies the patches of known issues."""
        source = self.sources[spec.component] if self.sources is not None else None
        first = _unpack(source) if source else self._fetch(spec)
        patches = (
            Step("replace-text", {"file": patch.file, "text": patch.comment_out, "by": f"# {patch.comment_out}"})
            for issue in self.environment.known_issues
            if (patch := issue.patch) and patch.component == spec.component
        )
        read = (f"{SOURCES}/{source.archive.name}",) if source else ()
        component = self.environment.component(spec.component)
        return Layer(
            f"source of {component.title if component else spec.component}",
            (first, *patches),
            reads=(str(first.values["file"]),) if "file" in first.values else read,
        )

    def build(self, spec: LayerSpec, into: str | None = None, *, apart: bool = False) -> Layer:
        """Return the layer that builds a component; with `apart`, another stage has its source tree."""
        source = Layer("", (Step("enter", {"component": spec.component}),)) if apart else self.source(spec)
        steps = tuple(self.steps(spec, spec.steps, into))
        toolkit = (TOOLKIT,) if any(step.kind == "toolkit" for step in steps) else ()
        return Layer(spec.title, (*source.steps, *steps), reads=(*source.reads, *toolkit))

    @property
    def toolkit_scripts(self) -> tuple[str, ...]:
        toolkit = self.environment.engine.toolkit
        return tuple(self.environment.expand(path, toolkit.where) for path in toolkit.scripts) if toolkit else ()

    def toolkit_file(self) -> str:
        """Return the script that a source build sources to set up the vendor's toolkit."""
        toolkit = self.environment.engine.toolkit
        assert toolkit is not None  # noqa: S101  a step names it
        fill = partial(self.environment.expand, where=toolkit.where)
        lines = [f"source {shlex.quote(script)}" for script in self.toolkit_scripts]
        # the first folder comes last, as each is put before those already there
        folders = reversed(fill(toolkit.stubs).split(":"))
        lines += [f'export LD_LIBRARY_PATH={shlex.quote(folder)}:"$LD_LIBRARY_PATH"' for folder in folders]
        lines += [f"export {name}={shlex.quote(fill(value))}" for name, value in toolkit.variables.items()]
        about = (
            "# Sets up the vendor's toolkit for source builds. A builder has no driver: stub libraries take its place."
        )
        return f"{about}\n" + " &&\n".join(lines) + "\n"

    def steps(self, spec: LayerSpec, steps: tuple[StepSpec, ...], into: str | None = None) -> Iterator[Step]:
        form = self.sources[spec.component].kind if self.sources is not None else self._release(spec).kind
        for step in steps:
            if step.only_from in {None, form} and (step.when is None or self.environment.holds(step.when)):
                values = {name: self._filled(value, step) for name, value in step.with_.items()}
                yield Step(step.kind, {"component": spec.component, "into": into or "", **values}, step.where)

    def _filled(self, value: StepValue, step: StepSpec) -> Value:
        def fill(text: str) -> str:
            return self.environment.expand(text, step.where)

        if isinstance(value, str):
            return fill(value)
        if isinstance(value, tuple):
            return tuple(map(fill, value))
        # an empty value means that the variable must not be set
        return {name: filled for name, item in value.items() if (filled := fill(item))}

    def _fetch(self, spec: LayerSpec) -> Step:
        name, component, release = spec.component, self.environment.component(spec.component), self._release(spec)
        if release.kind == "sdist":
            return Step("fetch-archive", {"component": name, "file": _archive_file(name)})
        if component is None or component.repository is None:
            raise MatrixError.of(tr("'{name}' has no repository to build from", name=name), spec.where)
        return Step("fetch", {"component": name, "repository": component.repository, "commit": release.commit or ""})

    def _release(self, spec: LayerSpec) -> Release:
        release = self.environment.release(spec.component)
        if release is None or not release.fixed:
            named = {"component": spec.component, "version": self.environment.version(spec.component)}
            raise MatrixError.of(tr("'{component}' {version} has no commit to build from", **named), spec.where)
        return release

    def archives(self, specs: Sequence[LayerSpec]) -> Iterator[tuple[str, str]]:
        for spec in specs if self.sources is None else ():
            if (release := self._release(spec)).kind == "sdist":
                wanted = f"{self.environment.distribution(spec.component)}=={release.reference('sdist')}"
                yield _archive_file(spec.component), f"{wanted} --hash=sha256:{release.archive}\n"


def _product(spec: LayerSpec, product: Product) -> Product:
    """Return a product with its place: within a source tree that is kept, or else in the installed packages."""
    if not spec.keep_source:
        return product
    return Product(file=f"{HOME}/src/{spec.component}/{product.file}", links=product.links)


def _archive_file(component: str) -> str:
    return f"{ARCHIVES}/{component}.txt"


def _unpack(source: SourceArchive) -> Step:
    values = {"component": source.component, "archive": source.archive.name, "into": source.into}
    return Step("unpack", {**values, "strip": str(source.strip)})
