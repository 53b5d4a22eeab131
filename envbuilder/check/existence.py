"""Rules on the existence of releases, images, commits, SOC names, locks and evidence."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from envbuilder import versions
from envbuilder.check.finding import Finding
from envbuilder.check.rule import RuleContext, rule
from envbuilder.environment.locks import UNHASHED, known_file, split_lock
from envbuilder.environment.packages import source_builds
from envbuilder.errors import MatrixError
from envbuilder.language import did_you_mean, tr
from envbuilder.matrix.model import LayerSpec
from envbuilder.requirements import normalize

# how many sources must agree on the hash of a file that was not seen
_INDEPENDENT = 2
_SOC = re.compile(r"\$\{soc\.([^{}]+)\}")


@rule("unknown-version")
def unknown_version(context: RuleContext) -> Iterator[Finding]:
    """The compat tables do not list the pinned release, or list it only as a candidate that is not reviewed yet."""
    for name, pin in context.environment.pins.items():
        component, release = context.component(name), context.release(name)
        if release is not None and release.status == "candidate":
            message = tr(
                "{component} is only a candidate: its compatibility is not recorded yet", component=context.shown(name)
            )
            yield context.finding("warning", message, name, hint=tr("complete it at {where}", where=release.where))
        if component is None or release is not None:
            continue
        near = ", ".join(_nearest(pin.version, [release.version for release in component.releases]))
        named = {"component": component.title, "version": pin.version}
        if component.complete:
            hint = tr("these exist: {near} (source: {source})", near=near, source=component.source)
            yield context.finding("error", tr("{component} {version} does not exist", **named), name, hint=hint)
        else:
            message = tr("{component} {version} is not recorded, and may not exist", **named)
            hint = tr("these exist: {near}; add it to compat/{name}.yaml", near=near, name=name)
            yield context.finding("warning", message, name, hint=hint)


@rule("unknown-pin")
def unknown_pin(context: RuleContext) -> Iterator[Finding]:
    """A pin must name a component, or a package that a release of one requires."""
    known = context.environment.package_names
    for name in context.environment.pins:
        if normalize(name) not in known:
            guess = did_you_mean(normalize(name), known)
            hint = (
                guess + tr("If not, name the package in 'requirements', or add compat/{name}.yaml", name=name)
                if guess
                else tr("name the package in 'requirements', or add compat/{name}.yaml", name=name)
            )
            message = tr("nothing in the matrices requires the package '{name}'", name=name)
            yield context.finding("error", message, name, hint=hint)


def _nearest(version: str, known: list[str]) -> list[str]:
    """Return versions with a similar spelling, then those next in order: both mistakes happen."""
    ordered = sorted(known, key=versions.key)
    place = sum(versions.key(item) < versions.key(version) for item in ordered)
    near = difflib.get_close_matches(version, known, n=2)
    return list(dict.fromkeys((*near, *ordered[max(0, place - 1) : place + 2])))[:4]


@rule("cann-image-missing")
def cann_image_missing(context: RuleContext) -> Iterator[Finding]:
    """No container image is published for this combination of toolkit, chip, system and Python."""
    environment, base = context.environment, context.environment.hardware.base
    if base.listed_in is None:
        return
    release = context.release(base.listed_in)
    if release is None:
        return  # the rule unknown-version reports it
    try:
        tag = environment.expand(base.tag, base.where)
    except MatrixError:
        tag = None
    if tag is None or tag not in release.images:
        what = f"{base.image}:{tag}" if tag else tr("an image of {component}", component=context.shown(base.listed_in))
        near = difflib.get_close_matches(tag or "", release.images, n=3, cutoff=0.0)
        hint = tr("these exist: {near}", near=", ".join(near)) if near else tr("no image of this release is published")
        yield context.finding("error", tr("{what} does not exist", what=what), base.listed_in, "python", hint=hint)


@rule("image-family")
def image_family(context: RuleContext) -> Iterator[Finding]:
    """A chip in the tag of a base image, or of the image that is built, must be of the hardware's family."""
    hardware, families = context.environment.hardware, context.environment.chips.families
    others = {
        word: family for name, family in families.items() if name != hardware.family for word in family.image_words
    }
    own = context.environment.chip_family
    for what, tag in (("base image", hardware.base.tag), ("image", hardware.image_tag)):
        for word in dict.fromkeys(re.split(r"[^\w.${}]+", tag)):
            if word in others:
                named = {"what": tr(what), "hardware": hardware.title, "word": word, "family": others[word].title}
                message = tr("the {what} of {hardware} is tagged {word}, which is {family}", **named)
                hint = (
                    tr("the family of this hardware is tagged {words}", words=tr(" or ").join(own.image_words))
                    if own.image_words
                    else tr("the family of this hardware is tagged with no chip")
                )
                yield context.finding("error", message, hint=hint, where=hardware.where)


@rule("moving-ref")
def moving_ref(context: RuleContext) -> Iterator[Finding]:
    """A component built from source must have a full commit, or a hashed source archive; a branch or tag can move."""
    git = [name for name in context.environment.pins if (item := context.component(name)) and item.kind == "git"]
    for name in dict.fromkeys((*git, *(layer.component for layer in source_builds(context.environment)[0]))):
        component, release = context.component(name), context.release(name)
        if component is None or component.repository is None:
            message = tr(
                "{component} is built from source, and the compat tables have no repository of it",
                component=context.shown(name),
            )
            hint = tr("add compat/{name}.yaml with its repository, and the release with its 40-digit commit", name=name)
            yield context.finding("error", message, name, hint=hint)
        elif release is None or not release.fixed:
            named = {"component": context.shown(name)}
            message = tr("{component} has no recorded commit, and a tag or branch can move", **named)
            hint = tr("add the release with its 40-digit commit to compat/, or the SHA-256 of its source archive")
            yield context.finding("error", message, name, hint=hint)


@rule("soc-missing")
def soc_missing(context: RuleContext) -> Iterator[Finding]:
    """A build machine has no NPU to detect, so the hardware must name the SOC for each component with kernels."""
    hardware = context.environment.hardware
    for layer in source_builds(context.environment)[0]:
        for name in sorted(set(_soc_names(layer))):
            if name not in hardware.soc:
                named = {"layer": layer.title, "hardware": hardware.title, "name": context.title(name)}
                message = tr("'{layer}' needs the SOC name of {hardware} for {name}", **named)
                hint = tr("add soc: {{{name}: ...}}", name=name)
                yield context.finding("error", message, name, hint=hint, where=hardware.where)


def _soc_names(layer: LayerSpec) -> Iterator[str]:
    for step in layer.steps:
        for value in step.with_.values():
            texts = [value] if isinstance(value, str) else value.values() if hasattr(value, "values") else value
            for text in texts:
                yield from _SOC.findall(text)


@rule("soc-family")
def soc_family(context: RuleContext) -> Iterator[Finding]:
    """A SOC name of another chip family compiles kernels that do not run."""
    hardware, family = context.environment.hardware, context.environment.chip_family
    for name, soc in hardware.soc.items():
        if soc.lower() not in family.soc_names:
            message = tr("the SOC name {soc} does not belong to {family}", soc=soc, family=family.title)
            hint = tr("its names: {names}", names=", ".join(family.soc_names) or tr("none"))
            yield context.finding("error", message, name, hint=hint, where=hardware.where)


@rule("lock-stale")
def lock_stale(context: RuleContext) -> Iterator[Finding]:
    """The committed lock was made from other pins or requirements than the row has now."""
    # the lock of a project is its own, beside the row's
    row = context.environment.of_row
    lock, packages = row.lock, row.packages
    if lock is None:
        return
    if lock.inputs != packages.digest or lock.parts != split_lock(lock.packages, packages.parts):
        hint = tr("run: envbuilder lock {environment}", environment=context.environment.id)
        yield context.finding("error", tr("the lock was made from other inputs than the row has now"), hint=hint)


@rule("base-not-pinned")
def base_not_pinned(context: RuleContext) -> Iterator[Finding]:
    """The digest of the base image is not recorded, so that its registry decides what its tag is."""
    environment = context.environment
    if environment.defines(environment.hardware.base.tag) and environment.base_digest is None:
        message = tr("the digest of {image} is not recorded", image=environment.base_image)
        hint = tr(
            "where its registry can be reached, run docker buildx imagetools inspect {image}, and add its digest to "
            "`digests` at {where}",
            image=environment.base_image,
            where=environment.hardware.base.where,
        )
        yield context.finding("info", message, hint=hint)


@rule("lock-unhashed")
def lock_unhashed(context: RuleContext) -> Iterator[Finding]:
    """The index of a package could not be reached when the row was locked: its version is fixed, its file is not."""
    environment = context.environment
    for item in environment.lock.parts[UNHASHED] if environment.lock else ():
        named = {"name": item.name, "version": item.version}
        message = tr("the lock has no hash of {name} {version}, whose index could not be reached", **named)
        index = environment.indexes.get(normalize(item.name)) or tr("its index")
        command = {"index": index, "environment": environment.id}
        hint = tr("where {index} can be reached, run: envbuilder lock {environment}", **command)
        yield context.finding("warning", message, normalize(item.name), hint=hint)


@rule("file-not-seen")
def file_not_seen(context: RuleContext) -> Iterator[Finding]:
    """The index of a wheel could not be reached when the row was locked: its hash comes from public lock files. One
    source is a warning; where the matrices have another hash now, the lock is wrong."""
    environment, lock = context.environment, context.environment.lock
    for package in lock.packages if lock and lock.unseen else ():
        known = known_file(environment, package.name, package.version)
        if known is None or lock is None or known.file not in lock.unseen:
            continue
        name, sources = normalize(package.name), ", ".join(known.sources)
        if known.sha256 not in package.hashes:
            message = tr("the lock has another hash of {file} than the matrices", file=known.file)
            hint = tr("run: envbuilder lock {environment}", environment=environment.id)
            yield context.finding("error", message, name, hint=hint)
        elif (number := len(known.publishers)) < _INDEPENDENT:
            message = tr(
                "the hash of {file} has one public source; its index was out of reach when the row was locked",
                file=known.file,
            )
            hint = tr(
                "nothing to do: if the index has another file, the build fails and names it; to read the hash from the "
                "index, lock the row where it can be reached; the source: {sources}",
                sources=sources,
            )
            yield context.finding("warning", message, name, hint=hint, of_versions=False)
        else:
            message = tr(
                "the hash of {file} has {number} public sources; the file was not seen", file=known.file, number=number
            )
            yield context.finding("info", message, name, hint=tr("the sources: {sources}", sources=sources))


@rule("evidence-missing")
def evidence_missing(context: RuleContext) -> Iterator[Finding]:
    """No evidence is recorded that this environment was resolved, built or trained in."""
    if not context.environment.evidence:
        yield context.finding("info", tr("no evidence is recorded for this environment"))
