"""Publishes images with their proof and bill of materials, and replaces other content only on request."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from envbuilder import paths, platforms
from envbuilder.docker.engine import Docker, Image
from envbuilder.environment import Environment, image_names
from envbuilder.environment.image_names import candidate_name
from envbuilder.errors import EnvbuilderError, NetworkError, NoMatchError
from envbuilder.files import turn
from envbuilder.platforms import PLATFORMS
from envbuilder.registry.attach import BILL, VALIDATION, attach
from envbuilder.registry.attestations import BILL as BILL_OF_MATERIALS
from envbuilder.registry.attestations import PROVENANCE, attest, provenance
from envbuilder.registry.client import INDEX_TYPES, Manifest, Registry
from envbuilder.registry.keys import PrivateKey
from envbuilder.registry.published import Published, look_up
from envbuilder.registry.pull import RegistryOptions
from envbuilder.registry.reference import Reference
from envbuilder.registry.signatures import sign
from envbuilder.registry.zstd import in_zstd, publish


@dataclass(frozen=True)
class Pushed:
    """The result of a push."""

    image: str
    digest: str
    # whether the registry had it already
    there: bool
    attachments: tuple[str, ...]


def push(
    environment: Environment,
    options: RegistryOptions,
    docker: Docker,
    *,
    candidate: bool,
    replace: bool,
    local: str,
    zstd: bool = False,
    key: PrivateKey | None = None,
) -> Pushed:
    """Publish the image of an environment, and sign it with the key.

    `local` is the prefix of its name in the engine, if not the registry's. With `zstd`, it is published in that form
    too.
    """
    name = environment.image_name(options.registry)
    source = _local_name(environment, docker, options.registry, local, candidate=candidate)
    if candidate:
        name = candidate_name(name)
    target = Reference.parse(name)
    made = docker.image(source)
    assert made is not None  # noqa: S101  it was just found
    image_names.refuse_rehearsal(source, made.labels, "published")
    registry = options.of(target.api)
    published = _published(registry, target, environment)
    same = published is not None and published.id == made.id
    if published is not None and not same and not replace:
        raise EnvbuilderError(
            f"{name} is published with other content: {published.id}, and the engine has {made.id}",
            hint="use --replace to publish it anyway",
        )
    if not same:
        if source != name:
            docker.tag(source, name)
        digest = docker.push(name)
        if registry.manifest(target.repository, target.wanted).digest != digest:
            raise NetworkError(f"{name} was pushed as {digest}, and another push has replaced it since")
    bill = _bill(docker, made, source)
    digest, attachments = _accompany(registry, target, made, bill, key)
    if zstd:
        smaller = in_zstd(target)
        known = _published(registry, smaller, environment)
        if known is None or known.id != made.id:
            publish(docker, source, registry, smaller)
        _accompany(registry, smaller, made, bill, key)
    return Pushed(name, digest, same, attachments)


def _accompany(
    registry: Registry, target: Reference, made: Image, bill: bytes | None, key: PrivateKey | None
) -> tuple[str, tuple[str, ...]]:
    """Attach to a published image what belongs to it; return the digest of the image and what was attached."""
    subject = registry.manifest(target.repository, target.wanted)
    # pushes of one image at once would each read what is beside it, and lose what others add meanwhile
    with turn(f"attachments of {target.name}@{subject.digest}", lambda: None):
        attachments = tuple(_attachments(registry, target, subject, made, bill))
        if key is not None:
            sign(registry, target, subject, key)
            attachments += ("signature", *_attest(registry, target, subject, made, bill, key))
    return subject.digest, attachments


def push_index(
    environment: Environment, options: RegistryOptions, *, replace: bool, key: PrivateKey | None = None
) -> tuple[str, list[str]]:
    """Publish one name for all published architectures of a row; return the name and the architectures."""
    found: dict[str, Published] = {}
    for arch in environment.hardware.arches:
        name = environment.image_name(options.registry)
        own = environment.coordinates.arch
        reference = Reference.parse(f"{name.removesuffix(own)}{arch}")
        one = _published(options.of(reference.api), reference, environment, arch)
        if one is not None:
            found[arch] = one
    if not found:
        raise NoMatchError(
            f"no image of {environment.id} is published", hint="run envbuilder push without --index first"
        )
    target = Reference.parse(environment.image_name(options.registry).removesuffix(f"-{environment.coordinates.arch}"))
    registry = options.of(target.api)
    items = [_platform(arch, one) for arch, one in found.items()]
    content = json.dumps({"schemaVersion": 2, "mediaType": INDEX_TYPES[0], "manifests": items}, sort_keys=True).encode()
    lost = _lost(registry, target, items)
    if lost and not replace:
        raise EnvbuilderError(f"{target} names {lost}, which would be lost", hint="use --replace to publish it anyway")
    registry.put_manifest(target.repository, target.wanted, content, INDEX_TYPES[0])
    if key is not None:
        sign(registry, target, registry.manifest(target.repository, target.wanted), key)
    return str(target), list(found)


def _local_name(environment: Environment, docker: Docker, registry: str, local: str, *, candidate: bool) -> str:
    names = [environment.image_name(prefix) for prefix in (registry, local)]
    names = [candidate_name(name) if candidate else name for name in names]
    found = next((name for name in names if docker.image(name) is not None), None)
    if found is None:
        raise NoMatchError(f"the engine has no image {names[-1]}", hint=f"envbuilder build {environment.id}")
    return found


def _published(
    registry: Registry, reference: Reference, environment: Environment, arch: str | None = None
) -> Published | None:
    try:
        return look_up(registry, reference, arch or environment.coordinates.arch)
    except NoMatchError:
        return None


def _bill(docker: Docker, made: Image, source: str) -> bytes | None:
    path = made.labels.get(image_names.BILL)
    return docker.read(source, path) if path else None


def _attest(
    registry: Registry, target: Reference, subject: Manifest, made: Image, bill: bytes | None, key: PrivateKey
) -> Iterator[str]:
    """Sign how the image was made, and what is in it."""
    parts = json.loads(bill) if bill else {}
    attest(registry, target, subject, PROVENANCE, provenance(made.labels, made.created, parts), key)
    yield "provenance"
    if parts:
        attest(registry, target, subject, BILL_OF_MATERIALS, parts, key)


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
    manifest = image.manifest
    platform = {"os": system, "architecture": name}
    return {
        "mediaType": manifest.media_type,
        "digest": manifest.digest,
        "size": len(manifest.content),
        "platform": platform,
    }


def _lost(registry: Registry, target: Reference, items: list[dict[str, object]]) -> str:
    """Return the architectures of the published index that the new one does not have."""
    try:
        before = registry.manifest(target.repository, target.wanted)
    except NoMatchError:
        return ""
    if not before.is_index:
        return "an image"
    have = {str(item["platform"]["architecture"]) for item in items}  # type: ignore[index]
    had = {str(item.get("platform", {}).get("architecture")) for item in before.document["manifests"]}
    return ", ".join(sorted(platforms.arch(name) for name in had - have))
