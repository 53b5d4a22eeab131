"""Finds the image that an argument names: that of an environment, or one whose label names its environment."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from envbuilder.environment.image_names import ENVIRONMENT
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
    # whether the image has no label, as envbuilder did not build it
    foreign: bool = False


def is_image(catalog: Catalog, name: str | None) -> bool:
    return name is not None and catalog.find(name) is None


def find_image(
    catalog: Catalog,
    name: str | None,
    dimensions: Dimensions,
    talk: Talk,
    registry: str,
    docker: Docker,
    *,
    foreign: bool = False,
    rehearsal: bool = False,
) -> ImageArgument:
    """Return an image of the engine.

    With `foreign`, the dimension options describe an image without a label. With `rehearsal`, an environment whose
    image the engine does not have stands for its rehearsal.
    """
    if not is_image(catalog, name):
        return _of_environment(dimensions.environment(catalog, name, talk), registry, docker, rehearsal=rehearsal)
    assert name is not None  # noqa: S101  is_image has checked it
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
        environment_given = dimensions.environment(catalog, None, talk) if dimensions.given else None
        return ImageArgument(name, environment_given, foreign=True)
    if dimensions.given:
        raise _has_a_label(name)
    known = catalog.find(identifier)
    if known is None:
        raise NoMatchError(
            tr(
                "{image} is an image of {environment}, which the matrices do not have",
                image=name,
                environment=identifier,
            ),
            hint=tr("--matrices chooses other matrices"),
        )
    return ImageArgument(name, known.as_labelled(found.labels))


def _of_environment(environment: Environment, registry: str, docker: Docker, *, rehearsal: bool) -> ImageArgument:
    image = environment.image_name(registry)
    made = docker.image(image)
    if made is None and rehearsal:
        image = environment.rehearsed().image_name(registry)
        made = docker.image(image)
    if made is None:
        hint = tr("envbuilder pull {name}, or envbuilder build {name}", name=environment.id)
        raise NoMatchError(tr("the engine has no image {image}", image=environment.image_name(registry)), hint=hint)
    labelled = made.labels.get(ENVIRONMENT, environment.id)
    if labelled != environment.id:
        raise HostError(
            tr(
                "{image} is an image of {label}, and not of {environment}",
                image=image,
                label=labelled,
                environment=environment.id,
            )
        )
    return ImageArgument(image, environment.as_labelled(made.labels))


def _has_a_label(name: str) -> UsageError:
    return UsageError(
        tr("the label of the image '{name}' names its environment; leave the dimension options out", name=name)
    )
