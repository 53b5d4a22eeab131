"""Rules on published pairings: releases made for each other, and releases stated to be compatible."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from envbuilder import versions
from envbuilder.check.finding import Finding
from envbuilder.check.rule import RuleContext, rule
from envbuilder.language import tr
from envbuilder.matrix.model import Severity


def _one_generation(version: str, others: Sequence[str]) -> bool:
    """Return whether a version shares major and minor with another: 8.3.RC1 does with 8.3.RC2, not with 8.5.0."""
    stem = ".".join(versions.public(version).split(".")[:2])
    return any(versions.in_family(other, f"{stem}.X") for other in others)


def _exact(context: RuleContext, name: str, partner: str) -> Iterator[Finding]:
    """Yield an error if the pinned partner is not one that the release was made for."""
    release, pin = context.release(name), context.pin(partner)
    if release is None or pin is None or partner not in release.paired or release.is_paired(partner, pin.version):
        return
    message = tr(
        "{component} is made for {partner} {made_for}, not {version}",
        component=context.shown(name),
        partner=context.title(partner),
        made_for=tr(" or ").join(release.paired[partner]),
        version=pin.version,
    )
    yield context.finding("error", message, name, partner, hint=_others(context, name, partner, pin.version))


def _others(context: RuleContext, name: str, partner: str, version: str) -> str | None:
    """Return a hint with the releases that are paired with this version of the partner."""
    component = context.component(name)
    releases = component.releases if component else ()
    fitting = ", ".join([release.version for release in releases if release.is_paired(partner, version)][-4:])
    named = {"partner": context.title(partner), "version": version, "fitting": fitting}
    return tr("made for {partner} {version}: {fitting}", **named) if fitting else None


def _levels(context: RuleContext, name: str, partner: str) -> Iterator[Finding]:
    """Yield nothing for a pair, a warning for a compatible version or the same generation, otherwise an error."""
    release, pin = context.release(name), context.pin(partner)
    if release is None or pin is None or release.is_paired(partner, pin.version):
        return
    paired, compatible = release.paired.get(partner, ()), release.compatible.get(partner, ())
    shown = {"component": context.shown(name), "partner": context.title(partner), "version": pin.version}
    pair = tr("{component} and {partner} {version}", **shown)
    named = tr("paired with {versions}", versions=", ".join(paired)) if paired else None
    stated = tr("compatible with {versions}", versions=", ".join(compatible)) if compatible else None
    known = tr("; ").join(filter(None, (named, stated)))
    if _listed(pin.version, release.excluded.get(partner, ())):
        message = tr("{pair} are stated not to work together", pair=pair)
        yield context.finding("error", message, name, partner, hint=known or None)
    elif _listed(pin.version, compatible):
        message = tr("{pair} are stated to be compatible, but were not released together", pair=pair)
        release_pair = {"name": context.title(name), "version": release.version, "paired": ", ".join(paired)}
        hint = tr("{name} {version} is paired with {paired}", **release_pair) if paired else None
        yield context.finding("warning", message, name, partner, hint=hint)
    elif _one_generation(pin.version, paired):
        message = tr("{pair} are of one generation, but were not released together", pair=pair)
        yield context.finding("warning", message, name, partner, hint=known)
    elif paired or compatible:
        message = tr("{pair} are not published as working together", pair=pair)
        yield context.finding("error", message, name, partner, hint=known)
    else:
        message = tr("nothing is published on {pair} working together", pair=pair)
        yield context.finding("warning", message, name, partner)


def _listed(version: str, families: Sequence[str]) -> bool:
    return any(versions.in_family(version, family) for family in families)


@rule("torch-npu-torch")
def torch_npu_torch(context: RuleContext) -> Iterator[Finding]:
    """Each torch_npu is compiled against one torch, and does not import with another."""
    yield from _exact(context, "torch_npu", "torch")


@rule("torch-npu-cann")
def torch_npu_cann(context: RuleContext) -> Iterator[Finding]:
    """torch_npu is paired with the CANN it was released with; the vendor states some others to be compatible."""
    if context.provides("cann"):
        yield from _levels(context, "torch_npu", "cann")


@rule("cann-hdk")
def cann_hdk(context: RuleContext) -> Iterator[Finding]:
    """CANN is paired with one driver release (HDK); the release notes state others to be compatible or excluded."""
    if context.provides("cann"):
        yield from _levels(context, "cann", "hdk")


@rule("toolkit-driver")
def toolkit_driver(context: RuleContext) -> Iterator[Finding]:
    """The toolkit of a GPU is paired with one driver; its vendor states others to be compatible."""
    if names := context.environment.hardware.toolkit:
        yield from _levels(context, names.component, names.driver)


@rule("torchvision-torch")
def torchvision_torch(context: RuleContext) -> Iterator[Finding]:
    """Each torchvision is compiled against one torch."""
    yield from _exact(context, "torchvision", "torch")


@rule("triton-ascend-cann")
def triton_ascend_cann(context: RuleContext) -> Iterator[Finding]:
    """triton-ascend carries a compiler back end for one generation of CANN."""
    release, cann = context.release("triton_ascend"), context.pin("cann")
    if release is None or cann is None or not context.provides("cann"):
        return
    paired = release.paired.get("cann", ())
    pair = tr("{one} and {other}", one=context.shown("triton_ascend"), other=context.shown("cann"))
    if not paired:
        message = tr("nothing is published on {pair} working together", pair=pair)
        yield context.finding("warning", message, "triton_ascend", "cann")
    elif not release.is_paired("cann", cann.version):
        engine = context.environment.engine.engine
        if context.published_with(engine, "triton_ascend", "cann"):
            named = {"pair": pair, "engine": context.shown(engine)}
            message = tr("{pair} are not paired, but {engine} was published with them", **named)
            yield context.finding("warning", message, "triton_ascend", "cann", engine)
            return
        severity: Severity = "warning" if _one_generation(cann.version, paired) else "error"
        hint = _others(context, "triton_ascend", "cann", cann.version) or tr(
            "it is paired with {paired}", paired=", ".join(paired)
        )
        yield context.finding(severity, tr("{pair} are not paired", pair=pair), "triton_ascend", "cann", hint=hint)


@rule("plugin-engine")
def plugin_engine(context: RuleContext) -> Iterator[Finding]:
    """A plugin release is made for one engine release. If only the engine publishes the pairing, another plugin is a
    warning."""
    engine, plugin = context.environment.engine.engine, context.environment.engine.plugin
    yield from _exact(context, plugin, engine)
    release, pin = context.release(engine), context.pin(plugin)
    if release and pin and plugin in release.paired and not release.is_paired(plugin, pin.version):
        message = tr(
            "{engine} was released with {plugin} {tested}, not {version}",
            engine=context.shown(engine),
            plugin=context.title(plugin),
            tested=", ".join(release.paired[plugin]),
            version=pin.version,
        )
        yield context.finding("warning", message, plugin, engine)


@rule("plugin-cann")
def plugin_cann(context: RuleContext) -> Iterator[Finding]:
    """A plugin is compiled with one CANN: the same generation is a warning, another generation an error."""
    plugin = context.environment.engine.plugin
    release, cann = context.release(plugin), context.pin("cann")
    if release is None or cann is None or not context.provides("cann"):
        return
    condition, paired = release.needs.get("cann"), release.paired.get("cann", ())
    if condition is not None and not versions.satisfies(cann.version, condition):
        named = {"plugin": context.shown(plugin), "condition": condition, "cann": cann.version}
        yield context.finding("error", tr("{plugin} needs CANN {condition}, not {cann}", **named), plugin, "cann")
    if paired and not release.is_paired("cann", cann.version):
        severity: Severity = "warning" if _one_generation(cann.version, paired) else "error"
        named = {"plugin": context.shown(plugin), "paired": tr(" or ").join(paired), "cann": cann.version}
        message = tr("{plugin} is published for CANN {paired}, not {cann}", **named)
        yield context.finding(severity, message, plugin, "cann", hint=_others(context, plugin, "cann", cann.version))
