"""Which image a command means: that of an environment, or one that says by its label what it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from envbuilder.cli import arguments
from envbuilder.environment.image_names import ENVIRONMENT, image_name
from envbuilder.environment.resolve import Environment, resolve
from envbuilder.environment.select import environments
from envbuilder.errors import HostError, NoMatchError, UsageError

if TYPE_CHECKING:
    from envbuilder.docker.engine import Engine
    from envbuilder.matrix import Matrix


class Subject(NamedTuple):
    """An image, and the environment that it is of, where anything says so."""

    image: str
    environment: Environment | None
    # whether that is only what the options say
    foreign: bool = False


def is_image(matrix: Matrix, name: str | None) -> bool:
    return name is not None and name not in {item.id for item in environments(matrix)}


def subject_of(
    matrix: Matrix, name: str | None, given: dict[str, Any], engine: Engine, *, foreign: bool = False
) -> Subject:
    """An image that is here. With `foreign`, the dimension options tell what one without a label is."""
    if name is None or not is_image(matrix, name):
        environment = arguments.environment_of(matrix, name, given)
        image = image_name(matrix, environment, given["registry"])
        made = engine.image(image)
        if made is None:
            hint = f"envbuilder pull {environment.id}, or envbuilder build {environment.id}"
            raise NoMatchError(f"there is no image {image}", hint=hint)
        said = made.labels.get(ENVIRONMENT, environment.id)
        if said != environment.id:
            raise HostError(f"{image} is an image of {said}, and not of {environment.id}")
        return Subject(image, environment)
    told = any(value is not None for value in arguments.filters_of(given))
    if told and not foreign:
        raise _speaks_for_itself(name)
    found = engine.image(name)
    if found is None:
        raise NoMatchError(
            f"there is neither an environment nor an image '{name}'",
            hint="envbuilder list names the environments; docker pull gets an image",
        )
    identifier = found.labels.get(ENVIRONMENT)
    if identifier is None:
        return Subject(name, arguments.environment_of(matrix, None, given) if told else None, foreign=True)
    if told:
        raise _speaks_for_itself(name)
    known = {item.id: item for item in environments(matrix)}
    if identifier not in known:
        raise NoMatchError(
            f"{name} is an image of {identifier}, which the matrices do not have", hint="--matrices names other ones"
        )
    return Subject(name, resolve(matrix, known[identifier]))


def _speaks_for_itself(name: str) -> UsageError:
    return UsageError(f"'{name}' is an image, which says itself what it is; leave the other options out")
