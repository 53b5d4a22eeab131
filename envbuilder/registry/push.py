"""Publishes images with their proof and bill of materials, and replaces other content only on request."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from envbuilder import paths, platforms
from envbuilder.docker.engine import Docker, Image
from envbuilder.environment import Environment, image_names
from envbuilder.environment.image_names import candidate_name
from envbuilder.errors import EnvbuilderError, NetworkError, NoMatchError
from envbuilder.files import turn, workspace, write_text
from envbuilder.language import tr
from envbuilder.platforms import PLATFORMS
from envbuilder.progress import Progress
from envbuilder.registry.attach import BILL, VALIDATION, attach
from envbuilder.registry.attestations import BILL as BILL_OF_MATERIALS
from envbuilder.registry.attestations import PROVENANCE, attest, provenance
from envbuilder.registry.client import INDEX_TYPES, Manifest, Registry
from envbuilder.registry.publish import GZIP, ZSTD, Form, prepare, upload
from envbuilder.registry.published import Published, find
from envbuilder.registry.pull import RegistryOptions
from envbuilder.registry.reference import Reference
from envbuilder.registry.signatures import sign, verify
from envbuilder.signing.keys import PrivateKey


@dataclass(frozen=True)
class Pushed:
    """The result of a push."""

    image: str
    digest: str
    # whether the registry had it already
    there: bool
    attachments: tuple[str, ...]


def push(
    environment: Environment, options: RegistryOptions, docker: Docker, progress: Progress, *, candidate: bool,
    replace: bool, local: str, zstd: bool = False, key: PrivateKey | None = None,
) -> Pushed:  # fmt: skip
    """Publish the image of an environment, and sign it with the key.

    `local` is the prefix of its name in the engine, if not the registry's. With `zstd`, it is published in that form
    too.
    """
    names = [environment.image_name(prefix) for prefix in (options.registry, local)]
    if candidate:
        names = [candidate_name(name) for name in names]
    source, made = _first_present(docker, names, environment)
    image_names.refuse_rehearsal(source, made.labels, pulled=False)
    target = Reference.parse(names[0])
    job = _Job(docker, source, made, f"{environment.branch.date}T00:00:00Z", options.of(target.api), replace, progress)
    path = made.labels.get(image_names.BILL)
    bill = docker.read(source, path) if path else None
    subject, same = job.publish(target, GZIP)
    attachments = _accompany(job.registry, target, subject, made, bill, key)
    if zstd:
        smaller, _ = job.publish(ZSTD.of(target), ZSTD)
        _accompany(job.registry, ZSTD.of(target), smaller, made, bill, key)
    return Pushed(names[0], subject.digest, same, attachments)


@dataclass(frozen=True)
class _Job:
    """An image of the engine to publish, and the date that it gets."""

    docker: Docker
    source: str
    image: Image
    created: str
    registry: Registry
    replace: bool
    progress: Progress

    def publish(self, target: Reference, form: Form) -> tuple[Manifest, bool]:
        """Publish the image in one form; return its manifest, and whether the registry had it already."""
        # simultaneous pushes of one image would all rewrite it
        with turn(f"publication of {self.image.id}", lambda: None):
            return self._publish(target, form)

    def _publish(self, target: Reference, form: Form) -> tuple[Manifest, bool]:
        # the digest of an earlier publication of this image saves rewriting it
        note = paths.state_folder() / "publications" / f"{self.image.id.partition(':')[2]}{form.ending}"
        known = note.read_text(encoding="utf-8") if note.is_file() else None
        published = self.registry.find(target.repository, target.wanted)
        if published is not None and published.digest == known:
            # the bytes are ours, and their type must not be the registry's word either
            return published._replace(media_type=form.manifest), True
        there = published.digest if published else None
        with workspace() as folder:
            made = prepare(self.docker, self.source, self.created, form, folder, self.progress)
            digest = made.manifest.digest
            if there not in {None, digest} and not self.replace:
                raise EnvbuilderError(
                    tr(
                        "{image} is published with other content: {published}, and that of the engine is {digest}",
                        image=target,
                        published=there,
                        digest=digest,
                    ),
                    hint=tr("use --replace to publish it anyway"),
                )
            if there != digest:
                upload(made, self.registry, target)
        write_text(note, digest)
        manifest = self.registry.find(target.repository, target.wanted)
        found = manifest.digest if manifest else tr("none")
        if found != digest:
            raise NetworkError(
                tr("{image} was pushed as {digest}; the registry has {found}", image=target, digest=digest, found=found)
            )
        return made.manifest, there == digest


def _accompany(
    registry: Registry, target: Reference, subject: Manifest, made: Image, bill: bytes | None, key: PrivateKey | None
) -> tuple[str, ...]:
    """Attach the proof and the bill to a published image, and sign it; return the kinds of the attachments."""
    # simultaneous pushes of one image would lose each other's attachments
    with turn(f"attachments of {target.name}@{subject.digest}", lambda: None):
        attachments = tuple(_attachments(registry, target, subject, made, bill))
        if key is None:
            return attachments
        sign(registry, target, subject, key)
        parts = json.loads(bill) if bill else {}
        attest(registry, target, subject, PROVENANCE, provenance(made.labels, made.created, parts), key)
        if parts:
            attest(registry, target, subject, BILL_OF_MATERIALS, parts, key)
    return *attachments, "signature", "provenance"


def push_index(
    environment: Environment, options: RegistryOptions, *, replace: bool, key: PrivateKey | None = None
) -> tuple[str, list[str]]:
    """Publish one name for all published architectures of a row; return the name and the architectures.

    With a key, each of these images must have its signature, because the signature of the index covers them all.
    """
    target = Reference.parse(environment.image_name(options.registry).removesuffix(f"-{environment.coordinates.arch}"))
    registry = options.of(target.api)
    found = _published(registry, target, environment.hardware.arches, key)
    if not found:
        raise NoMatchError(
            tr("no image of {environment} is published", environment=environment.id),
            hint=tr("run envbuilder push without --index first"),
        )
    items = [_platform(arch, image) for arch, image in found.items()]
    content = json.dumps({"schemaVersion": 2, "mediaType": INDEX_TYPES[0], "manifests": items}, sort_keys=True).encode()
    lost = _lost(registry, target, set(found))
    if lost and not replace:
        raise EnvbuilderError(
            tr("{target} names {lost}, which would be lost", target=target, lost=lost),
            hint=tr("use --replace to publish it anyway"),
        )
    digest = registry.put_manifest(target.repository, target.wanted, content, INDEX_TYPES[0])
    if key is not None:
        # what was sent, and not what the registry answers now
        sign(registry, target, Manifest(digest, INDEX_TYPES[0], content), key)
    return str(target), list(found)


def _published(
    registry: Registry, target: Reference, arches: Iterable[str], key: PrivateKey | None
) -> dict[str, Published]:
    """Return the images of an index by architecture."""
    found: dict[str, Published] = {}
    for arch in arches:
        name = target._replace(tag=f"{target.tag}-{arch}")
        image = find(registry, name, arch)
        if image is None:
            continue
        if key is not None:
            hint = tr("publish it with envbuilder push --sign-key first, from where it was built")
            verify(registry, name, image.digest, name, (key.public,), hint)
        found[arch] = image
    return found


def _first_present(docker: Docker, names: Sequence[str], environment: Environment) -> tuple[str, Image]:
    """Return the first of the names that an image of the engine has, and that image."""
    for name in names:
        if image := docker.image(name):
            return name, image
    raise NoMatchError(
        tr("the engine has no image {image}", image=names[-1]), hint=f"envbuilder build {environment.id}"
    )


def _attachments(
    registry: Registry, target: Reference, subject: Manifest, made: Image, bill: bytes | None
) -> Iterator[str]:
    result = made.labels.get(image_names.VALIDATION, "").partition(":")[2]
    report = paths.state_folder() / "validations" / f"{result}.json"
    if result and report.exists():
        attach(registry, target.repository, subject, VALIDATION, report.read_bytes())
        yield "validation"
    if bill:
        attach(registry, target.repository, subject, BILL, bill)
        yield "bill of materials"


def _platform(arch: str, image: Published) -> dict[str, object]:
    system, _, name = PLATFORMS[arch].partition("/")
    return {**image.manifest.descriptor, "platform": {"os": system, "architecture": name}}


def _lost(registry: Registry, target: Reference, arches: set[str]) -> str:
    """Return the architectures of the published index that the new one, with these architectures, does not have."""
    before = registry.find(target.repository, target.wanted)
    if before is None:
        return ""
    if not before.is_index:
        return tr("an image")
    names = {platforms.arch(item.architecture) for item in before.listed if item.architecture}
    return ", ".join(sorted(names - arches))
