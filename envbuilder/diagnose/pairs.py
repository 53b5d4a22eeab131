"""Judges the versions of a report by the published pairs, also if no row is close to it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from envbuilder import versions
from envbuilder.check import RULES, Finding, FindingSeverity, RuleContext, perhaps
from envbuilder.diagnose.claims import MAIN
from envbuilder.diagnose.facts import Facts
from envbuilder.environment import Catalog, Environment
from envbuilder.environment.driver import TOOLKIT
from envbuilder.language import tr
from envbuilder.matrix.model import Release
from envbuilder.requirements import Requirement, parse

# the rules that compare versions with each other, and so apply to installed versions too
_PAIRS = (
    "torch-npu-torch", "torch-npu-cann", "cann-hdk", "torchvision-torch", "triton-ascend-cann", "plugin-engine",
    "plugin-cann", "plugin-pins", "python-range", "expected-conflict",
)  # fmt: skip
# for these pairs the vendor publishes what works, and sometimes what does not: only the latter is an error
_STATEMENTS = ("torch-npu-cann", "cann-hdk")
# these usually work with other versions too, as what is installed has passed the check of its installer
_LENIENT = ("triton-ascend-cann", "python-range")
_DEVELOPMENT = re.compile(r"\.?dev\d|\+g(?:it)?[0-9a-f]{6}|\.d20\d{6}")
_POST = r"\.post\d+$"
_NUMBER = re.compile(r"\d+")
# the first release that is compiled for both
_TORCH_WITH_NUMPY_2 = "2.3"
_TRITON_LAST = "`pip uninstall -y triton triton-ascend`, then install triton-ascend last"
_PLUGIN = "vllm-project/vllm-ascend"
_NPU = "torch_npu"
_NUMPY_1, _NUMPY_SOURCE = "`pip install 'numpy<2'`", f"{_PLUGIN} issues 473, 2210"
_LOOK = "pip list | grep -i -E 'torch|triton|numpy|transformers', and the engine with its plugin"


def judge_versions(catalog: Catalog, row: Environment | None, facts: Facts) -> Iterator[Finding]:
    """Yield the contradictions between the versions of a report; those of an unsure version are only warnings."""
    environment = row or _carrier(catalog, facts)
    found = [*_torch(catalog, facts), *_numpy(catalog, row, facts), *_triton(catalog, facts), *_audio(facts)]
    found += [*_main(catalog, facts), *_oldest(catalog, facts), *_rules(environment, facts)]
    for item in found:
        lines = tuple(sorted({facts.lines[name] for name in item.components if name in facts.lines}))
        is_unsure = item.severity == "error" and not facts.unsure.isdisjoint(item.components)
        severity: FindingSeverity = "warning" if is_unsure else item.severity
        yield replace(item, severity=severity, lines=lines, ask=item.ask or tr(_LOOK))


def _carrier(catalog: Catalog, facts: Facts) -> Environment:
    """Return an environment whose tables judge a report that no row is close to: one with its engine if possible."""
    able = [item for item in catalog.environments if not item.hardware.cpu_only]
    own = [item for item in able if {item.engine.engine, item.engine.plugin} & facts.keys()]
    return max(own or able, key=lambda item: (item.is_default_framework, item.rank))


def _rules(environment: Environment, facts: Facts) -> Iterator[Finding]:
    """Apply the rules of `check` to the versions of the report instead of those that the row pins.

    A finding counts only if the report has the versions of all its components.
    """
    known = {name: value for name, value in facts.items() if name in environment.pins and value != MAIN}
    if "driver" in facts:
        known["hdk"] = facts["driver"]
    context = RuleContext(environment.with_versions(known), installed=True)
    for code in _PAIRS:
        for item in RULES[code].check(context):
            # _numpy judges numpy
            if item.components and all(name in known and name != "numpy" for name in item.components):
                components = tuple("driver" if name == "hdk" else name for name in item.components)
                yield replace(item, severity=_severity(context, item), components=components, where=None)


def _severity(context: RuleContext, item: Finding) -> FindingSeverity:
    """Return how serious the finding of a rule is for installed versions."""
    if item.severity != "error":
        is_stated = any(_is_stated(context, *item.components, kind=kind) for kind in ("paired", "compatible"))
        is_suspicious = is_stated and not _is_listed(context, "compatible", *item.components)
        return "warning" if item.severity == "warning" and is_suspicious else "info"
    if item.code in _STATEMENTS:
        return "error" if _is_listed(context, "excluded", *item.components) else "warning"
    if item.code == "plugin-cann" and _is_newer(context, *item.components):
        return "warning"
    if _is_listed(context, "paired", *item.components, ending=_POST):
        return "info"  # people leave out the number of a post release
    is_published = any(_is_listed(context, kind, *item.components) for kind in ("paired", "compatible"))
    pins = [pin.version for name in item.components if (pin := context.pin(name))]
    is_development = any(_DEVELOPMENT.search(version) for version in pins)
    return "warning" if is_published or is_development or item.code in _LENIENT else "error"


def _is_listed(context: RuleContext, kind: str, *components: str, ending: str = "$^") -> bool:
    """Return whether one of two components lists the version of the other; `ending` is left out."""
    for name in components:
        release = context.release(name)
        listed = getattr(release, kind) if release else {}
        for partner in components:
            pin = context.pin(partner)
            listings = [re.sub(ending, "", item) for item in listed.get(partner, ())]
            if pin and any(versions.in_family(pin.version, item) for item in listings):
                return True
    return False


def _is_stated(context: RuleContext, *components: str, kind: str) -> bool:
    """Return whether anything is published on these components together."""
    releases = [release for name in components if (release := context.release(name))]
    return any(name in getattr(release, kind) for release in releases for name in components)


def _is_newer(context: RuleContext, plugin: str, cann: str) -> bool:
    """Return whether the toolkit is newer than every one that the plugin is published for."""
    release, pin = context.release(plugin), context.pin(cann)
    paired: Sequence[str] = release.paired.get(cann, ()) if release else ()
    return pin is not None and all(versions.key(pin.version) > versions.key(item) for item in paired)


# --- faults without a rule in `check` --------------------------------------------------------------------


def _torch(catalog: Catalog, facts: Facts) -> Iterator[Finding]:
    """Compare torch with torch_npu, which has the version of the torch that it is compiled against."""
    torch, npu = facts.get("torch"), facts.get("torch_npu")
    if torch is None or npu is None or MAIN in {torch, npu}:
        return
    ours, theirs = (_NUMBER.findall(item.partition("+")[0])[:3] for item in (torch, npu))
    # users leave out the last number
    if all(left == right for left, right in zip(ours, theirs, strict=False)):
        return
    wanted = ".".join(theirs)
    message = tr(
        "torch is {torch}, and torch_npu {npu} is compiled against torch {wanted}", torch=torch, npu=npu, wanted=wanted
    )
    code = "torch-npu-torch"
    if by := _engine_that_requires(catalog, facts, torch):
        message, code = tr("{message}: {by} has replaced it", message=message, by=by), "torch-overwritten"
    remedy = tr("`pip install torch=={wanted} torch_npu=={npu}`, after everything else", wanted=wanted, npu=npu)
    components, source = ("torch", "torch_npu"), f"{_PLUGIN} issues 1188, 5710"
    yield Finding("error", message, remedy, code=code, components=components, source=source)


def _engine_that_requires(catalog: Catalog, facts: Facts, torch: str) -> str | None:
    """Return the engine whose published wheel requires exactly this torch."""
    for name in (item.engine for item in catalog.engines.values()):
        release = _release(catalog, facts, name)
        requirements = map(parse, (*release.metadata_requires, *release.requires) if release else ())
        if any(item.name == "torch" and item.allows(torch) for item in requirements):
            return f"{catalog.components[name].title} {facts[name]}"
    return None


def _release(catalog: Catalog, facts: Facts, name: str) -> Release | None:
    """Return the published release of a component that the report has."""
    component = catalog.components.get(name)
    return component.release(facts[name]) if component and name in facts else None


def _numpy(catalog: Catalog, row: Environment | None, facts: Facts) -> Iterator[Finding]:
    """Judge numpy 2 by the requirements of the report's plugin and CANN, or else by what both were made for."""
    numpy = facts.get("numpy")
    if numpy is None or versions.key(numpy) < versions.key("2"):
        return
    bounds = dict(_bounds(catalog, facts, "numpy"))
    owner = next((name for name, wanted in bounds.items() if not wanted.allows(numpy)), None)
    if owner is not None:
        yield _numpy_finding(catalog, row, facts, owner, bounds[owner])
    elif not bounds:
        yield from _numpy_of_unknown(facts, numpy)


def _bounds(catalog: Catalog, facts: Facts, package: str) -> Iterator[tuple[str, Requirement]]:
    """Yield the requirement of a package by each plugin and by the toolkit, if the report has a published release."""
    python = ".".join(facts.get("python", "3").split(".")[:2])
    for name in (*(item.plugin for item in catalog.engines.values()), TOOLKIT):
        release = _release(catalog, facts, name)
        for found in map(parse, release.requires if release else ()):
            if found.name == package and found.applies(python, facts.get("arch", "")):
                yield name, found


def _numpy_finding(catalog: Catalog, row: Environment | None, facts: Facts, owner: str, wanted: Requirement) -> Finding:
    """Return the finding for a numpy that its owner does not allow; what CANN asks for is not always needed."""
    release, named = _release(catalog, facts, owner), {"component": catalog.components[owner].title}
    message = tr(
        "numpy is {numpy}, and {component} {version} requires {wanted}",
        numpy=facts["numpy"], version=facts[owner], wanted=wanted.unconditional, **named,
    )  # fmt: skip
    source = (release.stated_in.get("numpy") if release else None) or _NUMPY_SOURCE
    if owner != TOOLKIT:
        remedy = f"`pip install '{wanted.text}'`"
        return Finding("error", message, remedy, code="numpy-2", source=source, components=("numpy", owner))
    pin = row.pins.get("numpy") if row else None
    remedy = _NUMPY_1
    if row is not None and pin is not None and pin.because and not wanted.allows(pin.version):
        as_pinned = tr("{row} has numpy {version} too: {reason}", row=row.id, version=pin.version, reason=pin.because)
        remedy = tr("; ").join((tr("if an operator fails with the error 500001, {remedy}", remedy=remedy), as_pinned))
    return Finding("warning", message, remedy, code="numpy-2", source=source, components=("numpy", owner))


def _numpy_of_unknown(facts: Facts, numpy: str) -> Iterator[Finding]:
    """Judge numpy 2 beside releases that no table has."""
    torch = facts.get("torch")
    components: tuple[str, ...]
    if torch is not None and versions.key(torch) < versions.key(_TORCH_WITH_NUMPY_2):
        message = tr("numpy is {numpy}, and torch {torch} is compiled for numpy 1", numpy=numpy, torch=torch)
        components = ("numpy", "torch")
    elif "torch_npu" in facts or TOOLKIT in facts:
        message = tr(
            "numpy is {numpy}, and releases of CANN and of the plugins up to 2025 are made for numpy 1", numpy=numpy
        )
        components = ("numpy",)
    else:
        return
    yield Finding(
        "warning", perhaps(message), _NUMPY_1, code="numpy-2", source=_NUMPY_SOURCE, components=components
    )  # fmt: skip


def _triton(catalog: Catalog, facts: Facts) -> Iterator[Finding]:
    """Look for triton beside triton-ascend, which is a fault with some releases of triton-ascend."""
    if "triton" not in facts:
        return
    if "triton_ascend" not in facts:
        if "torch_npu" in facts:
            message = tr(
                "triton {triton} is the one for GPUs, and takes files from triton-ascend", triton=facts["triton"]
            )
            yield Finding(
                "warning", perhaps(message), tr(_TRITON_LAST), code="triton-shadow",
                components=("triton", "torch_npu"), source=f"{_PLUGIN} issue 7359",
            )  # fmt: skip
        return
    release = _release(catalog, facts, "triton_ascend")
    if release is not None and any(parse(item).name == "triton" for item in release.requires):
        return
    message = tr(
        "triton {triton} and triton-ascend {triton_ascend} share a folder: the last one wins",
        triton=facts["triton"],
        triton_ascend=facts["triton_ascend"],
    )
    yield Finding(
        "error" if release else "warning", message, tr(_TRITON_LAST), code="triton-shadow",
        components=("triton", "triton_ascend"), source="triton-lang/triton-ascend issue 306",
        ask='python -c "import triton; print(triton.__version__, triton.backends.backends)"',
    )  # fmt: skip


def _audio(facts: Facts) -> Iterator[Finding]:
    """Compare torchaudio with torch: both have the same version."""
    torch, audio = facts.get("torch"), facts.get("torchaudio")
    if torch and audio and not versions.same(torch, audio):
        message = tr(
            "torchaudio {audio} belongs to torch {wanted}, and torch is {torch}",
            audio=audio,
            wanted=versions.public(audio),
            torch=torch,
        )
        remedy = f"`pip install torchaudio=={versions.public(torch)}`"
        yield Finding("warning", message, remedy, code="torch-abi", components=("torch", "torchaudio"))


def _oldest(catalog: Catalog, facts: Facts) -> Iterator[Finding]:
    """Look for a partner that is too old for every release of a plugin whose version is unknown."""
    for item in catalog.engines.values():
        component = catalog.components.get(item.plugin)
        if component is None or item.plugin in facts or item.plugin not in facts.mentioned:
            continue
        for partner, code in ((_NPU, "torch-npu-too-old"), (item.engine, "plugin-engine")):
            paired = [text for release in component.releases for text in release.paired.get(partner, ())]
            oldest = min(paired, key=versions.key, default=None)
            found = facts.get(partner, MAIN)
            if oldest is None or found == MAIN or versions.key(found) >= versions.key(versions.public(oldest)):
                continue
            message = tr(
                "every published release of {plugin} needs {partner} {oldest} or later, and this is {found}",
                plugin=component.title,
                partner=partner,
                oldest=oldest,
                found=found,
            )
            remedy = tr(
                "take the versions of one row; `envbuilder compat {plugin}` lists the pairs", plugin=item.plugin
            )
            components, source = (partner, item.plugin), f"{_PLUGIN} issues 143, 178"
            yield Finding("warning", message, remedy, code=code, components=components, source=source)


def _main(catalog: Catalog, facts: Facts) -> Iterator[Finding]:
    """Look for a checkout of a plugin's main branch, which fits one commit of the engine."""
    for item in catalog.engines.values():
        if facts.get(item.plugin) != MAIN:
            continue
        components = (item.plugin, item.engine)
        plugin, engine = (catalog.components[name].title for name in components)
        message = tr(
            "{plugin} is its main branch, which follows one commit of {engine} and fits no release of it",
            plugin=plugin,
            engine=engine,
        )
        remedy = tr(
            "take a release of {plugin} with its {engine} (`envbuilder compat {name}`), or the "
            "commit of {engine} that the files of that checkout name",
            plugin=plugin,
            engine=engine,
            name=item.plugin,
        )
        source = f"{_PLUGIN} issue 11996"
        yield Finding("warning", message, remedy, code="moving-ref", components=components, source=source)
