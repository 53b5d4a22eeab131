"""Rules on the requirements of packages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from envbuilder import versions
from envbuilder.check.finding import Finding
from envbuilder.check.rule import RuleContext, rule
from envbuilder.environment.cascade import ResolvedPin
from envbuilder.environment.driver import TOOLKIT
from envbuilder.language import tr
from envbuilder.requirements import normalize, parse


class _Unmet(NamedTuple):
    """A requirement of one component that a pin does not meet."""

    pin: ResolvedPin
    requirement: str
    message: str


def _unmet(context: RuleContext, owner: str) -> list[_Unmet]:
    found = []
    for item in (*context.environment.conflicts, *context.environment.toolkit_conflicts):
        if item.owner == owner and (pin := item.pin) is not None:
            named = {
                "component": context.shown(owner),
                "requirement": item.requirement.unconditional,
                "version": pin.full,
            }
            message = (
                tr("{component} requires {requirement}, but {name} is {version}", name=pin.name, **named)
                if context.installed
                else tr("{component} requires {requirement}, but {name} is pinned at {version}", name=pin.name, **named)
            )
            found.append(_Unmet(pin, item.requirement.name, message))
    return found


def _overridden(context: RuleContext, owner: str) -> Iterator[Finding]:
    """Yield an error for an unmet requirement, or a warning if the pin gives a reason."""
    for pin, _, message in _unmet(context, owner):
        if pin.because is not None:
            yield context.finding("warning", message, pin.name, owner)
        else:
            hint = tr("change the pin, or give the reason for it with 'because'")
            yield context.finding("error", message, pin.name, owner, hint=hint)


def _unlike_published(context: RuleContext, owner: str, *skip: str) -> Iterator[Finding]:
    """Yield a warning for a pin that meets the requirements but is not the version the release was published with."""
    release = context.release(owner)
    if release is None:
        return
    skipped = {*skip, *(item.requirement for item in _unmet(context, owner)), *context.environment.removed}
    for name, published in release.paired.items():
        pin = context.pin(name)
        if name in skipped or pin is None or (name == "cann" and not context.provides("cann")):
            continue
        if not release.is_paired(name, pin.version):
            made_with = f"{context.title(name)} {', '.join(published)}"
            named = {"component": context.shown(owner), "made_with": made_with, "version": pin.version}
            yield context.finding(
                "warning", tr("{component} was published with {made_with}, not {version}", **named), name, owner
            )


@rule("plugin-pins")
def plugin_pins(context: RuleContext) -> Iterator[Finding]:
    """The requirements of the plugin at its tag; its compiled code needs exactly these, so no reason overrides them.
    Only its published image may have other versions, as a later build of the same release."""
    plugin, engine = context.environment.engine.plugin, context.environment.engine.engine
    for pin, _, message in _unmet(context, plugin):
        if context.published_with(plugin, pin.name):
            as_published = tr("{message}, as in its published image", message=message)
            yield context.finding("warning", as_published, pin.name, plugin)
        else:
            yield context.finding("error", message, pin.name, plugin, hint=tr("pin what the plugin requires"))
    yield from _unlike_published(context, plugin, engine, "cann")


@rule("engine-pins")
def engine_pins(context: RuleContext) -> Iterator[Finding]:
    """The requirements of the engine, and the versions in its published image."""
    engine, plugin = context.environment.engine.engine, context.environment.engine.plugin
    yield from _overridden(context, engine)
    yield from _unlike_published(context, engine, plugin)


@rule("framework-pins")
def framework_pins(context: RuleContext) -> Iterator[Finding]:
    """The requirements of the framework for NPUs."""
    yield from _overridden(context, context.environment.framework.component)


@rule("cann-python-deps")
def cann_python_deps(context: RuleContext) -> Iterator[Finding]:
    """The Python packages that the compilers of CANN import, in the versions that its install guide names: with others
    they may not start, and then no operator is compiled. Installers do not know of them, so that none reports it."""
    yield from _overridden(context, TOOLKIT)


@rule("source-pins")
def source_pins(context: RuleContext) -> Iterator[Finding]:
    """The requirements of what else is built from source, such as the training backend Megatron and MindSpeed."""
    environment = context.environment
    others = {environment.engine.plugin, environment.engine.engine, environment.framework.component}
    for owner in sorted({item.owner for item in environment.conflicts} - others):
        yield from _overridden(context, owner)


@rule("python-range")
def python_range(context: RuleContext) -> Iterator[Finding]:
    """Every component must allow the environment's Python."""
    python = context.pin("python")
    if python is None:
        return
    for name in context.environment.pins:
        release = context.release(name)
        if release and release.python and not versions.satisfies(python.version, release.python):
            named = {"component": context.shown(name), "wanted": release.python, "python": python.version}
            message = tr("{component} needs Python {wanted}, not {python}", **named)
            yield context.finding("error", message, "python", name)


@rule("expected-conflict")
def expected_conflict(context: RuleContext) -> Iterator[Finding]:
    """A conflict that installers report and that is intended: a requirement of the published wheel that the build
    from source does not have (torch for CUDA), or a package that the row removes."""
    environment = context.environment
    for conflict in environment.conflicts:
        if conflict.pin is None:
            named = {"component": context.shown(conflict.owner), "requirement": conflict.requirement.text}
            message = tr("{component} requires {requirement}, which this environment removes", **named)
            yield context.finding("info", message, conflict.owner)
    for name in environment.pins:
        release = context.release(name)
        for text in release.metadata_requires if release else ():
            requirement, pin = parse(text), context.pin(parse(text).name)
            if pin is not None and not requirement.allows(pin.version):
                named = {"component": context.shown(name), "requirement": text}
                message = tr(
                    "{component} on the package index requires {requirement}; the build from source does not", **named
                )
                hint = tr("ignore it when an installer reports it")
                yield context.finding("info", message, name, pin.name, hint=hint)


@rule("triton-shadow")
def triton_shadow(context: RuleContext) -> Iterator[Finding]:
    """triton and triton-ascend install into one directory: triton overwrites older releases of triton-ascend, and newer
    releases need triton installed first."""
    release = context.release("triton_ascend")
    if release is None or "triton_ascend" in context.environment.removed:
        return
    needs_triton = "triton" in {parse(text).name for text in release.requires}
    is_removed = "triton" in context.environment.removed
    shown = context.shown("triton_ascend")
    if needs_triton and is_removed:
        message = tr("{component} needs triton, but this environment removes it", component=shown)
        yield context.finding("error", message, "triton_ascend", hint=tr("take triton off the list 'remove'"))
    elif not needs_triton and (not is_removed or context.pin("triton") is not None):
        message = tr("triton would overwrite {component}: both own the module triton", component=shown)
        yield context.finding("error", message, "triton_ascend", hint=tr("put triton on the list 'remove'"))


@rule("unsupported-package")
def unsupported_package(context: RuleContext) -> Iterator[Finding]:
    """The package does not work on an NPU, or its name on the index is a placeholder."""
    environment = context.environment
    wheels = {name for name in environment.pins if environment.is_wheel(name)}
    required = {parse(text).name for text in environment.lists["requirements"].values}
    for name in sorted((wheels | required) - environment.removed):
        package = next((value for key, value in environment.refused_packages.items() if normalize(key) == name), None)
        if package is not None:
            message = tr("{name} must not be installed: {reason}", name=name, reason=package.reason)
            yield context.finding("error", message, name)


@rule("packages-clash")
def packages_clash(context: RuleContext) -> Iterator[Finding]:
    """The lock has versions of packages that fail together, although their metadata allows them."""
    lock = context.environment.lock
    for message, clash in context.environment.clashes(lock.versions if lock else {}).items():
        yield context.finding("error", message, *clash.packages, hint=tr("{remedy}, and lock it", remedy=clash.remedy))


@rule("wheel-missing")
def wheel_missing(context: RuleContext) -> Iterator[Finding]:
    """The index of a package has no wheel of the pin for this Python and machine, only a source archive, or a yanked
    one. It needs the network, so it runs only with --online."""
    environment, python = context.environment, context.environment.version("python")
    if context.wheels is None or python is None:
        return
    arch = environment.coordinates.arch
    for name, pin in environment.pins.items():
        if environment.is_wheel(name) and name not in environment.removed:
            index, package = environment.indexes.get(name), environment.distribution(name)
            for severity, reason in context.wheels.judge(index, package, pin.on_index, python, arch):
                yield context.finding(severity, f"{context.shown(name)}: {reason}", name)


@rule("shared-name")
def shared_name(context: RuleContext) -> Iterator[Finding]:
    """A wheel that the environment builds from source has the name of a package in the lock, which would replace it."""
    environment = context.environment
    locked = {normalize(name) for name in environment.lock.versions} if environment.lock else set()
    layers = (*environment.engine.layers, *environment.framework.layers)
    for layer in (item for item in layers if item.component in environment.pins):
        for step in layer.steps:
            built = step.with_.get("wheels", ())
            for name in built if isinstance(built, tuple) else ():
                if normalize(name) in locked:
                    named = {"name": name, "layer": layer.title}
                    message = tr(
                        "the lock has {name} from the package index, but '{layer}' builds the one for the NPU", **named
                    )
                    yield context.finding("error", message, name, hint=tr("put {name} on the list 'remove'", name=name))
