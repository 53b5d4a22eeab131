"""Finds the image that an argument names: that of an environment, or one whose label names its environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeGuard

from envbuilder.cli.project_argument import project_here
from envbuilder.environment.image_names import ENVIRONMENT, PROJECT, candidate_name
from envbuilder.errors import HostError, NoMatchError, UsageError
from envbuilder.language import tr

if TYPE_CHECKING:
    from envbuilder.cli.arguments import Dimensions, Talk
    from envbuilder.docker.engine import Docker
    from envbuilder.environment import Catalog, Environment


class ImageArgument(NamedTuple):
    """An image, and its environment where a label or the options name one."""

    image: str
    environment: Environment | None
    # whether another tool has built the image, so that it has no label
    foreign: bool = False


def is_image(name: str | None, catalog: Catalog) -> TypeGuard[str]:
    """Return whether a name is given that is not the name of an environment."""
    return name is not None and catalog.find(name) is None


def find_image(
    catalog: Catalog, name: str | None, dimensions: Dimensions, talk: Talk, registry: str, docker: Docker,
    *, foreign: bool = False, rehearsal: bool = False, candidate: bool = False,
) -> ImageArgument:  # fmt: skip
    """Return an image of the engine.

    With `foreign`, the dimension options describe an image without a label. With `rehearsal`, the rehearsal of an
    environment is returned if the engine does not have its image; with `candidate`, its image that is not proven yet.
    """
    if not is_image(name, catalog):
        environment = dimensions.environment(catalog, name, talk)
        return _of_environment(environment, registry, docker, rehearsal=rehearsal, candidate=candidate)
    if dimensions.given and not foreign:
        raise _has_a_label(name)
    found = docker.image(name)
    if found is None:
        raise NoMatchError(
            tr("there is no environment or image '{name}'", name=name),
            hint=tr("envbuilder list shows the environments; docker pull gets an image"),
        )
    identifier = found.labels.get(ENVIRONMENT)
    if identifier is None:
        described = dimensions.environment(catalog, None, talk) if dimensions.given else None
        return ImageArgument(name, described, foreign=True)
    if dimensions.given:
        raise _has_a_label(name)
    known = catalog.find(identifier)
    if known is None:
        fields = {"image": name, "environment": identifier}
        raise NoMatchError(
            tr("{image} is an image of {environment}, which the matrices do not have", **fields),
            hint=tr("--matrices chooses other matrices"),
        )
    return ImageArgument(name, on_project(known, found.labels).as_labelled(found.labels))


def on_project(environment: Environment, labels: Mapping[str, str]) -> Environment:
    """Return the environment of an image with what the project of this folder adds, if the image is the project's."""
    project = project_here() if PROJECT in labels else None
    return project.adopt(environment) if project and project.wanted.name == labels[PROJECT] else environment


def _of_environment(
    environment: Environment, registry: str, docker: Docker, *, rehearsal: bool, candidate: bool
) -> ImageArgument:
    names = [environment.image_name(registry)]
    if rehearsal:
        names.append(environment.rehearsed().image_name(registry))
    if candidate:
        names = list(map(candidate_name, names))
    image, made = next(((name, found) for name in names if (found := docker.image(name))), (names[0], None))
    if made is None:
        hint = tr("envbuilder pull {name}, or envbuilder build {name}", name=environment.id)
        raise NoMatchError(tr("the engine has no image {image}", image=image), hint=hint)
    labelled = made.labels.get(ENVIRONMENT, environment.id)
    if labelled != environment.id:
        fields = {"image": image, "label": labelled, "environment": environment.id}
        raise HostError(tr("{image} is an image of {label}, and not of {environment}", **fields))
    return ImageArgument(image, environment.as_labelled(made.labels))


def _has_a_label(name: str) -> UsageError:
    return UsageError(
        tr("the label of the image '{name}' names its environment; leave the dimension options out", name=name)
    )
