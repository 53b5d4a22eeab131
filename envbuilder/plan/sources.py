"""Source builds: each makes a wheel in a separate stage, or keeps its source tree in the environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from envbuilder.environment import Environment
from envbuilder.environment.layers import LeftOut, source_builds
from envbuilder.errors import MatrixError
from envbuilder.matrix.model import KnownIssue, LayerSpec, Product, Release, StepSpec, StepValue
from envbuilder.plan.plan import ARCHIVES, HOME, SOURCES, Layer, SourceArchive, Step, Value


@dataclass(frozen=True)
class SourceLayers:
    """The layers of all source builds of an environment, and what they imply for its other parts."""

    # by the name of the stage that makes the wheels, with its build packages if it needs only a few
    wheels: Mapping[str, tuple[Layer, tuple[str, ...]]]
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
    # the hashes of source archives that the builds download, by file
    files: Mapping[str, str]


def source_layers(environment: Environment, sources: Mapping[str, SourceArchive] | None) -> SourceLayers:
    specs, left_out = source_builds(environment)
    maker = _Maker(environment, sources)
    wheels: dict[str, tuple[Layer, tuple[str, ...]]] = {}
    for spec in specs:
        if not spec.keep_source:
            number = sum(other.component == spec.component for other in specs[: specs.index(spec)])
            name = f"wheels-{spec.component}" + (f"-{number + 1}" if number else "")
            wheels[name] = maker.layer(spec, into=name), spec.build_packages
    kept = tuple(maker.layer(spec) for spec in specs if spec.keep_source)
    then = tuple(step for spec in specs for step in maker.steps(spec, spec.then))
    scripts = (
        step.values["scripts"] for layer, _ in wheels.values() for step in layer.steps if "scripts" in step.values
    )
    return SourceLayers(
        wheels=wheels,
        then=then,
        kept=kept,
        left_out=tuple(left_out),
        components=tuple(dict.fromkeys(spec.component for spec in specs)),
        unmet=tuple((spec.component, name) for spec in specs for name in spec.unmet),
        products=tuple(_product(spec, product) for spec in specs for product in spec.products),
        shell_setup=tuple(dict.fromkeys(script for group in scripts for script in group)),
        files=dict(maker.archives(specs)),
    )


@dataclass(frozen=True)
class _Maker:
    environment: Environment
    sources: Mapping[str, SourceArchive] | None

    def layer(self, spec: LayerSpec, into: str | None = None) -> Layer:
        source = self.sources[spec.component] if self.sources is not None else None
        first = _unpack(source) if source else self._fetch(spec)
        steps = (
            first,
            *(_patch(issue) for issue in self.environment.known_issues if _concerns(issue, spec.component)),
            *self.steps(spec, spec.steps, into),
            *(() if spec.keep_source else (Step("clean", {"component": spec.component}),)),
        )
        read = (f"{SOURCES}/{source.archive.name}",) if source else ()
        return Layer(spec.title, steps, reads=(str(first.values["file"]),) if "file" in first.values else read)

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
            raise MatrixError.of(f"'{name}' has no repository to build from", spec.where, None)
        return Step("fetch", {"component": name, "repository": component.repository, "commit": release.commit or ""})

    def _release(self, spec: LayerSpec) -> Release:
        release = self.environment.release(spec.component)
        if release is None or not release.fixed:
            message = f"'{spec.component}' {self.environment.version(spec.component)} has no commit to build from"
            raise MatrixError.of(message, spec.where, None)
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


def _concerns(issue: KnownIssue, component: str) -> bool:
    return issue.patch is not None and issue.patch.component == component


def _patch(issue: KnownIssue) -> Step:
    assert issue.patch is not None  # noqa: S101  _concerns checked it
    line = issue.patch.comment_out
    return Step("replace-text", {"file": issue.patch.file, "text": line, "by": f"# {line}"})
