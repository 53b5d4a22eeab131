"""Prebuilt images: found in a registry by the row, judged before a layer is moved, fetched by digest."""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass, field
from pathlib import Path

from envbuilder import files
from envbuilder.docker.engine import Docker
from envbuilder.environment import Catalog, Environment, Filters, image_names
from envbuilder.errors import HostError, NetworkError, NoMatchError
from envbuilder.progress import Progress
from envbuilder.registry.archive import save as save_archive
from envbuilder.registry.attach import VALIDATION, attached
from envbuilder.registry.client import Registry
from envbuilder.registry.published import Published, look_up
from envbuilder.registry.reference import Reference


@dataclass(frozen=True)
class RegistryOptions:
    """Where an image comes from: the registry that its name says, and mirrors of that, the first that can first."""

    registry: str
    mirrors: tuple[str, ...] = ()
    ca_bundle: Path | None = None
    _known: dict[str, Registry] = field(default_factory=dict, init=False, compare=False)

    def of(self, host: str) -> Registry:
        """The same one each time: it knows its way in already."""
        if host not in self._known:
            self._known[host] = Registry(host, self.ca_bundle)
        return self._known[host]


@dataclass(frozen=True)
class ChosenImage:
    """An image, the name that it gets here, and the place that its layers come from."""

    name: str
    image: Published
    place: Reference


def choose(environment: Environment, catalog: Catalog, options: RegistryOptions, progress: Progress) -> ChosenImage:
    """The published image of an environment, and whom to get it from. Nothing is moved yet."""
    name = environment.image_name(options.registry)
    wanted, arch = Reference.parse(name), environment.coordinates.arch
    origin: Published | None = None
    try:
        origin = look_up(options.of(wanted.api), wanted, arch)
    except NoMatchError as error:
        raise _none(environment, catalog, options, wanted) from error
    except NetworkError as error:
        if not options.mirrors:
            raise
        progress.say(f"{wanted.registry} does not answer, so mirrors have to be believed: {error.message}")
    found, place = _from_mirrors(options, wanted, arch, origin, progress)
    judge(environment, catalog, found, str(place))
    return ChosenImage(name, found, place)


def choose_upstream(environment: Environment, options: RegistryOptions, progress: Progress) -> ChosenImage:
    """The first of the images that others publish of the same row; nothing in it says so, only its name."""
    for name in environment.upstream_images:
        wanted = Reference.parse(name)
        if options.mirrors:
            wanted = Reference.parse(f"{options.mirrors[0].rstrip('/')}/{wanted.repository}:{wanted.tag}")
        try:
            found = look_up(options.of(wanted.api), wanted, environment.coordinates.arch)
        except NoMatchError as error:
            progress.say(f"not {name}: {error.message}")
            continue
        progress.say(f"{name} is not of envbuilder: it is taken by its name alone")
        return ChosenImage(name, found, found.reference)
    hint = f"envbuilder build {environment.id}"
    raise NoMatchError(f"nobody publishes an image of {environment.id} under a name that is known", hint=hint)


def _from_mirrors(
    options: RegistryOptions, wanted: Reference, arch: str, origin: Published | None, progress: Progress
) -> tuple[Published, Reference]:
    """The first mirror that has it; the origin where none does. A mirror with something else is refused, not skipped:
    whoever changes an image must not be able to hide behind the next one."""
    for mirror in options.mirrors:
        there = Reference.parse(f"{mirror.rstrip('/')}/{wanted.repository}:{wanted.tag}")
        try:
            found = look_up(options.of(there.api), there, arch)
        except (NoMatchError, NetworkError) as error:
            progress.say(f"not from {mirror}: {error.message}")
            continue
        if origin is not None and found.digest != origin.digest:
            raise NetworkError(
                f"{mirror} has another image: {found.digest}, and {wanted.registry} has {origin.digest}",
                hint="leave this mirror out; nothing was pulled",
            )
        return found, found.reference
    if origin is None:
        raise NetworkError(f"neither {wanted.registry} nor any mirror has {wanted}")
    return origin, origin.reference


def judge(environment: Environment, catalog: Catalog, image: Published, name: str) -> None:
    """Whether an image is what the environment asks for, by its own words."""
    if image.arch != environment.coordinates.arch:
        raise HostError(f"{name} is for {image.arch}, and {environment.id} for {environment.coordinates.arch}")
    said = image.labels.get(image_names.ENVIRONMENT)
    if said == environment.id:
        return
    if said is None:
        raise HostError(
            f"{name} has no label {image_names.ENVIRONMENT}, so nothing says what it is",
            hint="images of others are pulled with --upstream",
        )
    other = catalog.find(said)
    if other is not None:
        theirs, ours = other.hardware, environment.hardware
        if theirs.family != ours.family:
            raise HostError(f"{name} is made for {theirs.title}, whose chips are not those of {ours.title}")
    raise HostError(f"{name} is an image of {said}, and not of {environment.id}")


def pull(
    environment: Environment, catalog: Catalog, options: RegistryOptions, progress: Progress, *, upstream: bool,
    save: Path | None,
) -> ChosenImage:  # fmt: skip
    """Get the published image of an environment into the engine, or into a file."""
    if upstream:
        choice = choose_upstream(environment, options, progress)
    else:
        choice = choose(environment, catalog, options, progress)
    registry = options.of(choice.place.api)
    progress.say(f"{choice.place}: {choice.image.size / 10**9:.2f} GB, {proof_of(registry, choice.image)}")
    if save is not None:
        save_archive(registry, choice.image, choice.name, save, progress)
    else:
        fetch(choice, Docker(), progress)
    return choice


def fetch(choice: ChosenImage, docker: Docker, progress: Progress) -> str:
    """Moves the layers, compares what came, and only then gives it its name. The id of the image."""
    by_digest = f"{choice.place.name}@{choice.image.digest}"
    was_here = docker.image(by_digest) is not None
    docker.pull_layers(choice.place.name, choice.image.digest, progress)
    made = docker.image(by_digest)
    if made is None or made.id not in {choice.image.id, choice.image.digest}:
        if not was_here:
            docker.untag(by_digest)
        raise NetworkError(f"{by_digest} came as {made.id if made else 'nothing'}, not as {choice.image.id}")
    docker.tag(by_digest, choice.name)
    return made.id


def _none(environment: Environment, catalog: Catalog, options: RegistryOptions, wanted: Reference) -> NoMatchError:
    """Others that are there and run on the same hardware, the nearest first."""
    tags = options.of(wanted.api).tags(wanted.repository)
    where = environment.coordinates
    alike = catalog.select((), Filters(framework=where.framework, hardware=where.hardware, arch=where.arch))
    called = {item.id: item.image_name(options.registry) for item in alike}
    there = [identifier for identifier, name in called.items() if Reference.parse(name).tag in tags]
    near = difflib.get_close_matches(environment.id, there, n=3, cutoff=0)
    return NoMatchError(
        f"{wanted.name} has no image of {environment.id}",
        hint=f"envbuilder build {environment.id}; "
        + (f"nearest there: {', '.join(near)}" if near else f"nothing for {where.hardware} is published there"),
    )


def proof_of(registry: Registry, image: Published) -> str:
    """What an image says of its own proof, and whether the result itself lies beside it."""
    level, result = image.labels.get(image_names.PROVEN), image.labels.get(image_names.VALIDATION)
    if not (level and result):
        return "carries no proof"
    content = attached(registry, image.reference.repository, image.digest, VALIDATION)
    if content is None:
        return f"says that level {level} was proven; the result {result} is not beside it"
    if files.digest_of_document(json.loads(content)) != result:
        raise NetworkError(f"what lies beside {image.reference} is not its own proof {result}")
    return f"level {level} was proven, the result lies beside it: {result}"
