"""Pulls prebuilt images: finds the image of a row, checks it before any layer is downloaded, fetches it by digest."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from envbuilder.docker.engine import Docker
from envbuilder.environment import Catalog, Environment, Filters, image_names
from envbuilder.environment.image_names import upstream_images
from envbuilder.errors import HostError, NetworkError, NoMatchError, ValidationError
from envbuilder.language import tr
from envbuilder.progress import Progress
from envbuilder.registry.archive import save as save_archive
from envbuilder.registry.attestations import Attested, is_ours, verify_all
from envbuilder.registry.client import Registry
from envbuilder.registry.proofs import note_level, proof_of
from envbuilder.registry.publish import ZSTD
from envbuilder.registry.published import Published, find, look_up
from envbuilder.registry.reference import Reference
from envbuilder.registry.signatures import signed_lines, verify
from envbuilder.registry.trust import Trust


@dataclass(frozen=True)
class RegistryOptions:
    """Where an image comes from: the registry in its name, or the first of the mirrors that has it."""

    registry: str
    mirrors: tuple[str, ...] = ()
    ca_bundle: Path | None = None
    trust: Trust = field(default_factory=Trust)
    _known: dict[str, Registry] = field(default_factory=dict, init=False, compare=False)

    def of(self, host: str) -> Registry:
        """Return the client of a registry, the same one each time, because it keeps its tokens."""
        if host not in self._known:
            self._known[host] = Registry(host, self.ca_bundle)
        return self._known[host]

    def verify(self, choice: ChosenImage) -> Iterator[str]:
        """Refuse an image without the signatures that its name needs; yield lines about the signatures of others."""
        groups = self.trust.demands(Reference.parse(choice.name))
        registry, place, digest = self.of(choice.place.api), choice.place, choice.image.digest
        for keys in groups:
            yield from signed_lines(verify(registry, place, digest, choice.published_as, keys), digest)
        if not groups:
            return
        for item in verify_all(registry, place, digest, [key for keys in groups for key in keys]):
            if is_ours(item):
                yield _summary(item, choice)


@dataclass(frozen=True)
class ChosenImage:
    """An image, its future name in the engine, and the place that its layers come from."""

    name: str
    image: Published
    place: Reference
    # the name under which it is published and signed
    published_as: Reference


def _summary(item: Attested, choice: ChosenImage) -> str:
    """Return a summary of a signed provenance; the labels of the image must agree with it."""
    given = item.predicate["buildDefinition"]["externalParameters"]
    for key, label in (("environment", image_names.ENVIRONMENT), ("lock", image_names.LOCK)):
        if given.get(key) != choice.image.labels.get(label):
            raise ValidationError(
                tr(
                    "the provenance of {place} names the {key} {value}, and its label another",
                    place=choice.place,
                    key=key,
                    value=given.get(key),
                ),
                hint=tr("nothing was pulled"),
            )
    results = [part["annotations"] for part in item.predicate["runDetails"].get("byproducts", ())]
    proven = tr("proven at level {level}", level=results[0]["level"]) if results else tr("not proven")
    sources = len(item.predicate["buildDefinition"]["resolvedDependencies"])
    return tr(
        "made from lock {lock} and {sources} sources, {proven}, according to {file}",
        lock=str(given.get("lock"))[:19],
        sources=sources,
        proven=proven,
        file=item.key.file,
    )


def choose(
    environment: Environment, catalog: Catalog, options: RegistryOptions, progress: Progress, *, zstd: bool = False
) -> ChosenImage:
    """Return the published image of an environment, and where to get it from. No layer is downloaded yet.

    With `zstd`, layers of zstd are chosen if they are published.
    """
    name = environment.image_name(options.registry)
    wanted, arch = Reference.parse(name), environment.coordinates.arch
    origin: Published | None = None
    try:
        origin = look_up(options.of(wanted.api), wanted, arch)
    except NoMatchError as error:
        raise _no_image(environment, catalog, options, wanted) from error
    except NetworkError as error:
        if not options.mirrors:
            raise
        progress.say(
            tr(
                "{host} does not answer, so mirrors cannot be compared with it: {reason}",
                host=wanted.registry,
                reason=error.message,
            )
        )
    found, place = _from_mirrors(options, wanted, arch, origin, progress)
    judge(environment, catalog, found, str(place))
    if zstd and place.name == wanted.name:
        smaller = find(options.of(wanted.api), ZSTD.of(wanted), arch)
        if smaller is not None and smaller.id == found.id:
            return ChosenImage(name, smaller, smaller.reference, ZSTD.of(wanted))
    return ChosenImage(name, found, place, wanted)


def choose_upstream(environment: Environment, options: RegistryOptions, progress: Progress) -> ChosenImage:
    """Return the first upstream image of the same row that is published. Only its name shows what is in it."""
    images = upstream_images(environment)
    for item in (item for item in images if item.is_of_row):
        wanted = Reference.parse(item.name)
        if options.mirrors:
            wanted = wanted.in_mirror(options.mirrors[0])
        try:
            found = look_up(options.of(wanted.api), wanted, environment.coordinates.arch)
        except NoMatchError as error:
            progress.say(tr("skipping {name}: {reason}", name=item.name, reason=error.message))
            continue
        progress.say(tr("{name} was not built by envbuilder: only its name shows what is in it", name=item.name))
        if item.differences:
            progress.say(
                tr("it has other versions than the row: {differences}", differences="; ".join(item.differences))
            )
        return ChosenImage(item.name, found, found.reference, Reference.parse(item.name))
    nearest = [
        tr("nearest: {name} ({differences})", name=item.name, differences="; ".join(item.differences))
        for item in images
        if not item.is_of_row
    ][:1]
    engine = [tr("of only the engine: {name}", name=name) for name in environment.engine_images[:1]]
    title = environment.framework.title
    raise NoMatchError(
        tr("{framework} publishes no image of {environment}", framework=title, environment=environment.id),
        hint="; ".join([f"envbuilder build {environment.id}", *nearest, *engine]),
    )


def _from_mirrors(
    options: RegistryOptions, wanted: Reference, arch: str, origin: Published | None, progress: Progress
) -> tuple[Published, Reference]:
    """Return the image of the first mirror that has it, or else that of the origin, and where to get it from.

    A mirror with another image is not skipped: that is an error, so that a changed image is noticed.
    """
    for mirror in options.mirrors:
        reference = wanted.in_mirror(mirror)
        try:
            found = look_up(options.of(reference.api), reference, arch)
        except (NoMatchError, NetworkError) as error:
            progress.say(tr("skipping the mirror {mirror}: {reason}", mirror=mirror, reason=error.message))
            continue
        if origin is not None and found.digest != origin.digest:
            raise NetworkError(
                tr(
                    "{mirror} has another image: {digest}, and {host} has {other}",
                    mirror=mirror,
                    digest=found.digest,
                    host=wanted.registry,
                    other=origin.digest,
                ),
                hint=tr("leave this mirror out; nothing was pulled"),
            )
        return found, found.reference
    if origin is None:
        raise NetworkError(tr("neither {host} nor any mirror has {image}", host=wanted.registry, image=wanted))
    return origin, origin.reference


def judge(environment: Environment, catalog: Catalog, image: Published, name: str) -> None:
    """Refuse an image whose architecture or labels are not those of the environment."""
    if image.arch != environment.coordinates.arch:
        raise HostError(
            tr(
                "{image} is for {arch}, and {environment} for {wanted}",
                image=name,
                arch=image.arch,
                environment=environment.id,
                wanted=environment.coordinates.arch,
            )
        )
    image_names.refuse_rehearsal(name, image.labels, pulled=True)
    label = image.labels.get(image_names.ENVIRONMENT)
    if label == environment.id:
        own = environment.additions
        if own is not None and image.labels.get(image_names.PROJECT_LOCK) != own.lock_digest:
            raise HostError(
                tr("{image} was made from another lock of the project {project}", image=name, project=own.project),
                hint=tr("envbuilder build makes the image of this one"),
            )
        return
    if label is None:
        raise HostError(
            tr(
                "{image} has no label {label}, so its environment is unknown", image=name, label=image_names.ENVIRONMENT
            ),
            hint=tr("pull upstream images with --upstream"),
        )
    other = catalog.find(label)
    if other is not None and other.hardware.family != environment.hardware.family:
        raise HostError(
            tr(
                "{image} is made for {theirs}, whose chips are not those of {ours}",
                image=name,
                theirs=other.hardware.title,
                ours=environment.hardware.title,
            )
        )
    raise HostError(
        tr(
            "{image} is an image of {label}, and not of {environment}",
            image=name,
            label=label,
            environment=environment.id,
        )
    )


def pull(
    environment: Environment, catalog: Catalog, options: RegistryOptions, progress: Progress, *, upstream: bool,
    save: Path | None,
) -> ChosenImage:  # fmt: skip
    """Pull the published image of an environment into the engine, or save it in a file."""
    docker = Docker() if save is None else None
    if upstream:
        choice = choose_upstream(environment, options, progress)
    else:
        # any engine may load a file
        choice = choose(environment, catalog, options, progress, zstd=docker is not None and docker.reads_zstd)
    registry = options.of(choice.place.api)
    # before any other document of the image is trusted
    for line in options.verify(choice):
        progress.say(line)
    proof = proof_of(registry, choice.image)
    progress.say(f"{choice.place}: {choice.image.size / 10**9:.2f} GB, {proof}")
    if docker is not None:
        note_level(fetch(choice, docker, progress), proof.level)
    elif save is not None:
        save_archive(registry, choice.image, choice.name, save, progress)
    return choice


def fetch(choice: ChosenImage, docker: Docker, progress: Progress) -> str:
    """Pull the layers, compare the image, and only then name it; return the id of the image."""
    by_digest = f"{choice.place.name}@{choice.image.digest}"
    was_present = docker.image(by_digest) is not None
    docker.pull_layers(choice.place.name, choice.image.digest, progress)
    made = docker.image(by_digest)
    if made is None or made.id not in {choice.image.id, choice.image.digest}:
        if not was_present:
            docker.untag(by_digest)
        found = made.id if made else tr("no image")
        raise NetworkError(
            tr("{name} was pulled as {found}, not as {wanted}", name=by_digest, found=found, wanted=choice.image.id)
        )
    docker.tag(by_digest, choice.name)
    return made.id


def _no_image(environment: Environment, catalog: Catalog, options: RegistryOptions, wanted: Reference) -> NoMatchError:
    """Return the error for an image that is not published; its hint names the nearest ones for the same hardware."""
    tags = options.of(wanted.api).tags(wanted.repository)
    where = environment.coordinates
    alike = catalog.select((), Filters(framework=where.framework, hardware=where.hardware, arch=where.arch))
    called = {item.id: item.image_name(options.registry) for item in alike}
    published = [identifier for identifier, name in called.items() if Reference.parse(name).tag in tags]
    near = difflib.get_close_matches(environment.id, published, n=3, cutoff=0)
    return NoMatchError(
        tr("{name} has no image of {environment}", name=wanted.name, environment=environment.id),
        hint=f"envbuilder build {environment.id}; "
        + (
            tr("nearest published: {near}", near=", ".join(near))
            if near
            else tr("no image for {hardware} is published", hardware=where.hardware)
        ),
    )
