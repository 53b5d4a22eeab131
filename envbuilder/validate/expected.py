"""Derives from the matrices what must be true of an environment, for the suite to check."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name

from envbuilder import versions
from envbuilder.environment import Environment
from envbuilder.environment.image_names import PROJECT_SOURCE, SOURCE
from envbuilder.environment.packages import built_components
from envbuilder.inputs.source_archives import cached, own_archive
from envbuilder.inputs.source_trees import tree_hashes
from envbuilder.matrix.model import CPU, NPU, STAND_IN, Device
from envbuilder.plan import Inputs, Plan, SourceArchive, make_plan
from envbuilder.plan.own_files import OwnFile, own_files, own_texts
from envbuilder.plan.plan import HOME
from envbuilder.plan.sources import labelled_sources
from envbuilder.project.files import hashes_of_files
from envbuilder.requirements import normalize, parse


@dataclass(frozen=True)
class Expected:
    """The expected state of an environment, as plain data: the suite reads it as JSON in a separate process."""

    environment: str
    is_image: bool
    # the labels that it has, and those that it must have
    labels: Mapping[str, str]
    wanted_labels: Mapping[str, str]
    python: str
    # versions by distribution; a source build may add a local label, such as +cpu
    pins: Mapping[str, str]
    built: Mapping[str, str]
    locked: Mapping[str, str]
    # further distributions that source builds make
    made: tuple[str, ...]
    removed: tuple[str, ...]
    # files of packages that differ from what the package lists, by a mistake of its publisher
    unlike_record: tuple[str, ...]
    # the folder of the source trees, the SHA-256 of each file of these by component, and why others have none
    sources: str
    trees: Mapping[str, Mapping[str, str]]
    unknown_trees: Mapping[str, str]
    # the folder of the vendor's toolkit, whose files are as its image has them
    vendor: str
    # distributions whose files another one may have overwritten
    shared: tuple[str, ...]
    variables: Mapping[str, str]
    shell_setup: tuple[str, ...]
    # libraries of the vendor; one that the target cannot have is given with the component that provides it
    libraries: Mapping[str, str | None]
    products: tuple[Mapping[str, str | None], ...]
    expected_conflicts: tuple[str, ...]
    modules: tuple[str, ...]
    # packages of a project, all of whose modules are imported
    added: tuple[str, ...]
    # modules of a training run, and the variables of that run
    used: tuple[str, ...]
    # those of them that it imports first
    first: tuple[str, ...]
    run_variables: Mapping[str, str]
    # the expression for the device of the engine, and that device
    devices: Mapping[str, str]
    left_out: Mapping[str, str]
    # what a build installs first, the packages of the system, and the files of the plan: the SHA-256 of those whose
    # text is known, and the rules of the others
    tools: tuple[str, ...]
    system_packages: tuple[str, ...]
    texts: Mapping[str, str]
    own_files: tuple[OwnFile, ...]

    @property
    def ours(self) -> frozenset[str]:
        """Return the packages that this environment installs."""
        names = (*self.locked, *self.pins, *self.built, *self.made, *self.tools)
        return frozenset(map(canonicalize_name, names))


def plan_of(environment: Environment, labels: Mapping[str, str]) -> Plan:
    """Return the plan by which an image or a host with these labels was made; the labels name its sources."""
    sources = labelled_sources(labels)
    has_all = sources.keys() >= set(built_components(environment))
    return make_plan(environment, Inputs(sources if has_all else None))


def expected(
    environment: Environment, plan: Plan, labels: Mapping[str, str], device: Device,
    run_variables: Mapping[str, str], *, is_image: bool,
) -> Expected:  # fmt: skip
    """Return the expected state of what a plan has made.

    `labels` are those of an image, or those recorded by an installation on a host, and `run_variables` those of a
    smoke run.
    """
    sources = labelled_sources(labels)
    trees = dict(_trees(environment, plan, sources, labels)) if is_image else {}
    own_labels = {name: plan.labels[name] for name in sorted(plan.labels) if not name.startswith(SOURCE)}
    packages = environment.packages
    pins = {name.partition("[")[0]: version for name, version in (line.split("==") for line in packages.pins)}
    removed = set(packages.removed)
    added = environment.additions
    lock, lacking = environment.lock, {item.name for item in environment.out_of_reach}
    left_out = {name for name in environment.pins if not environment.is_wheel(name) and name not in plan.components}
    releases = [release for name in environment.pins if (release := environment.release(name))]
    # the toolkit belongs to the image, the driver to the machine
    pinned = [item for name in environment.pins if (item := environment.component(name))]
    vendors = [item for item in pinned if item.kind == "vendor"]
    present = [item for item in vendors if item.name in environment.provides or device != CPU]
    return Expected(
        environment=environment.id,
        is_image=is_image,
        labels=labels,
        wanted_labels={**own_labels, **dict(_source_labels(environment, sources))},
        python=packages.python,
        pins=_without(lacking, pins),
        built=dict(_built(environment, left_out, sources)),
        locked={**_without(lacking, lock.versions if lock else {}), **(added.versions if added else {})},
        made=tuple(dict.fromkeys(name for part in plan.parts for name in _wheels(part))),
        removed=packages.removed,
        unlike_record=tuple(file for release in releases for file in release.unlike_record),
        sources=f"{HOME}/src",
        trees={name: tree for name, tree in trees.items() if tree},
        unknown_trees={name: "its source archive is not on this machine" for name, tree in trees.items() if not tree},
        vendor=os.path.commonpath(Path(script).parent for script in plan.shell_setup) if plan.shell_setup else "",
        shared=tuple(
            item.index_name
            for item in pinned
            if item.last and item.name not in removed and item.index_name not in lacking
        ),
        variables=dict(plan.variables),
        shell_setup=plan.shell_setup,
        libraries={library: None if item in present else item.title for item in vendors for library in item.libraries},
        products=tuple({"file": item.file, "links": item.links} for item in plan.products),
        expected_conflicts=plan.expected_conflicts,
        modules=tuple(dict.fromkeys(_modules(environment, left_out | removed | set(map(normalize, lacking))))),
        added=tuple(dict.fromkeys(parse(text).name.replace("_", "-") for text in added.requirements)) if added else (),
        used=environment.used_modules(device).modules,
        first=environment.imported_first(device),
        run_variables=run_variables,
        devices={device_of: NPU} if (device_of := environment.engine.device_of) and device in {NPU, STAND_IN} else {},
        left_out={item.title: item.reason for item in plan.left_out},
        tools=tuple(item.name for part in plan.parts for item in part.tools),
        system_packages=tuple(name for part in plan.parts for name in part.system_packages),
        texts={
            **{path: digest for part in plan.parts for path, digest in own_texts(part).items()},
            **(dict(hashes_of_files(added)) if added else {}),
        },
        own_files=tuple(dict.fromkeys(item for part in plan.parts for item in own_files(part))),
    )


def _wheels(plan: Plan) -> Iterator[str]:
    """Yield the further distributions that the source builds of a plan make."""
    for layer in plan.layers:
        for step in layer.steps:
            yield from step.values.get("wheels", ())


def _trees(
    environment: Environment, plan: Plan, sources: Mapping[str, SourceArchive], labels: Mapping[str, str]
) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield the hashes of each source tree that stays in the image; none where its archive is not on this machine."""
    for name, steps in {name: steps for part in plan.parts for name, steps in part.kept_sources.items()}.items():
        archive = cached(environment, name, sources[name].kind if name in sources else "git")
        if environment.additions and name in environment.additions.sources:
            archive = _own(labels, name)
        yield name, tree_hashes(archive, steps) if archive else {}


def _own(labels: Mapping[str, str], name: str) -> SourceArchive | None:
    """Return the archive of a project's own source tree, which its labels name."""
    digest = labels.get(f"{PROJECT_SOURCE}{name}", "").removeprefix("sha256:")
    archive = own_archive(name, digest)
    if not digest or not archive.is_file():
        return None
    return SourceArchive(name, "git", "", archive, digest, 0, ".")


def _source_labels(environment: Environment, sources: Mapping[str, SourceArchive]) -> Iterator[tuple[str, str]]:
    """Yield the expected labels of the sources: each kind of source is right if it is the release of the row."""
    own = environment.additions.sources if environment.additions else {}
    for name, source in sources.items():
        release = environment.release(name) if name not in own else None
        if release is not None:
            yield f"{SOURCE}{name}", f"{source.kind}:{release.reference(source.kind)}"


def _without(names: Collection[str], versions_: Mapping[str, str]) -> dict[str, str]:
    return {name: version for name, version in versions_.items() if name not in names}


def _built(
    environment: Environment, left_out: set[str], sources: Mapping[str, SourceArchive]
) -> Iterator[tuple[str, str]]:
    for name, pin in environment.pins.items():
        component, release = environment.component(name), environment.release(name)
        if component is None or component.kind != "git" or name in left_out:
            continue
        is_commit = name not in sources or sources[name].kind == "git"
        other = release.version_at_commit if release is not None and is_commit else None
        own = environment.additions is not None and name in environment.additions.sources
        yield (
            environment.distribution(name),
            "" if component.own_version or own else versions.public(other or pin.version),
        )


def _modules(environment: Environment, without: set[str]) -> Iterator[str]:
    for name in environment.pins:
        component = environment.component(name)
        if name in without or (component is not None and component.kind == "vendor"):
            continue
        if component is not None or environment.is_wheel(name):
            modules = component.modules if component else ()
            yield from modules or (normalize(name),)
