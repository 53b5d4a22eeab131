"""Which images of the environments there are, here and in a registry, and which of those here nobody needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from envbuilder.docker.engine import Engine, Image
from envbuilder.environment.image_names import ENVIRONMENT, LOCK, PROVEN, image_name, is_candidate
from envbuilder.environment.resolve import resolve
from envbuilder.environment.select import Coordinates
from envbuilder.errors import NoMatchError
from envbuilder.files import digest_of
from envbuilder.matrix import Matrix
from envbuilder.registry.published import look_up
from envbuilder.registry.pull import Source
from envbuilder.registry.reference import Reference


@dataclass(frozen=True)
class Found:
    environment: str
    image: str
    where: str
    digest: str
    size: int
    arch: str
    proven: str | None
    created: str


def here(engine: Engine, chosen: Iterable[Coordinates]) -> list[Found]:
    wanted = {item.id for item in chosen}
    return [
        Found(
            environment=item.labels[ENVIRONMENT],
            image=item.name or "-",
            where="here",
            digest=item.id,
            size=item.size,
            arch=item.arch,
            proven=item.labels.get(PROVEN),
            created=item.created,
        )
        for item in engine.images(ENVIRONMENT)
        if item.labels[ENVIRONMENT] in wanted
    ]


def there(matrix: Matrix, chosen: Iterable[Coordinates], source: Source) -> Iterator[Found]:
    """What a registry has of them; a repository is listed once, and only what is in the list is looked up."""
    tags: dict[str, set[str]] = {}
    for item in chosen:
        environment = resolve(matrix, item)
        reference = Reference.parse(image_name(matrix, environment, source.registry))
        registry = source.of(reference.api)
        if reference.name not in tags:
            tags[reference.name] = set(registry.tags(reference.repository))
        if reference.tag not in tags[reference.name]:
            continue
        try:
            image = look_up(registry, reference, item.arch)
        except NoMatchError:
            continue  # gone since
        yield Found(
            environment=item.id,
            image=f"{reference.name}:{reference.tag}",
            where=reference.registry,
            digest=image.digest,
            size=image.size,
            arch=image.arch,
            proven=image.labels.get(PROVEN),
            created=image.created,
        )


def unneeded(matrix: Matrix, engine: Engine) -> Iterator[tuple[Image, str]]:
    """Images of ours that nothing will ask for again, each with the reason."""
    for item in engine.images(ENVIRONMENT):
        lock = matrix.lock_text(item.labels[ENVIRONMENT])
        if item.name is None:
            yield item, "has no name any more"
        elif is_candidate(item.name):
            yield item, "was never proven"
        elif lock is None or item.labels.get(LOCK) != digest_of(lock.encode()):
            yield item, "was built from another lock"
