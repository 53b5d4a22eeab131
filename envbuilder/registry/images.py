"""Lists the images of environments in the engine and in a registry, and those that the engine no longer needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from envbuilder.docker.engine import Docker, Image
from envbuilder.environment import Catalog, Environment
from envbuilder.environment.image_names import ENVIRONMENT, LOCK, PROVEN, is_candidate
from envbuilder.errors import ValidationError
from envbuilder.language import tr
from envbuilder.registry.client import Registry
from envbuilder.registry.proofs import noted_level, proof_of
from envbuilder.registry.published import Published, find
from envbuilder.registry.pull import RegistryOptions
from envbuilder.registry.reference import Reference
from envbuilder.registry.signatures import verify


@dataclass(frozen=True)
class Found:
    """An image of an environment, in the engine or in a registry."""

    environment: str
    image: str
    where: str
    digest: str
    size: int
    arch: str
    proven: str | None
    created: str
    # the key that signed it; None if no key was given, or if none of the given keys signed it
    signed: str | None = None


def here(docker: Docker, chosen: Iterable[Environment]) -> list[Found]:
    """Return the images of environments that the engine has."""
    wanted = {item.id for item in chosen}
    return [
        Found(
            environment=item.labels[ENVIRONMENT],
            image=item.name or "-",
            where="here",
            digest=item.id,
            size=item.size,
            arch=item.arch,
            proven=item.labels.get(PROVEN) or noted_level(item.id),
            created=item.created,
        )
        for item in docker.images(ENVIRONMENT)
        if item.labels[ENVIRONMENT] in wanted
    ]


def there(chosen: Iterable[Environment], options: RegistryOptions) -> Iterator[Found]:
    """Yield the images of environments that a registry has; its list of tags saves requests for missing images."""
    tags: dict[str, set[str]] = {}
    for environment in chosen:
        reference = Reference.parse(environment.image_name(options.registry))
        registry = options.of(reference.api)
        if reference.name not in tags:
            tags[reference.name] = set(registry.tags(reference.repository))
        if reference.tag not in tags[reference.name]:
            continue
        image = find(registry, reference, environment.coordinates.arch)
        if image is None:
            continue  # removed since the tags were listed
        yield Found(
            environment=environment.id,
            image=f"{reference.name}:{reference.tag}",
            where=reference.registry,
            digest=image.digest,
            size=image.size,
            arch=image.arch,
            proven=proof_of(registry, image).level,
            created=image.created,
            signed=_signed(registry, reference, image, options),
        )


def _signed(registry: Registry, reference: Reference, image: Published, options: RegistryOptions) -> str | None:
    keys = options.trust.accepting(reference)
    try:
        return verify(registry, image.reference, image.digest, reference, keys).key.fingerprint if keys else None
    except ValidationError:
        return None


def unneeded(catalog: Catalog, docker: Docker) -> Iterator[tuple[Image, str]]:
    """Yield the images of envbuilder that are no longer needed, each with the reason."""
    for item in docker.images(ENVIRONMENT):
        environment = catalog.find(item.labels[ENVIRONMENT])
        lock = environment.as_labelled(item.labels).lock if environment else None
        if item.name is None:
            yield item, tr("has no name any more")
        elif is_candidate(item.name):
            yield item, tr("was never proven")
        elif lock is None or item.labels.get(LOCK) != lock.digest:
            yield item, tr("was built from another lock")
