"""Finds what is wrong in a report: by the rules of `check`, by the known symptoms, and by the chip."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from envbuilder import versions
from envbuilder.check import RULES, Finding, FindingSeverity, RuleContext, worst_first
from envbuilder.diagnose.closest import closest
from envbuilder.diagnose.facts import read, shown_file
from envbuilder.doctor.chips import family_of, family_of_tag, supported
from envbuilder.doctor.symptoms import seen_in
from envbuilder.doctor.vendor import disagreements
from envbuilder.environment import Catalog, Environment
from envbuilder.requirements import parse

# the rules that compare versions with each other, and so apply to installed versions too
_PAIRS = (
    "torch-npu-torch", "torch-npu-cann", "cann-hdk", "torchvision-torch", "triton-ascend-cann", "plugin-engine",
    "plugin-cann", "plugin-pins", "python-range", "expected-conflict",
)  # fmt: skip
# for these pairs the vendor publishes what works, and sometimes what does not
_STATEMENTS = ("torch-npu-cann", "cann-hdk")
_IMAGE = re.compile(r"(?:[\w.-]+/)*\w*ascend\w*/[\w.-]+:(?P<tag>[\w.-]+)")
_REQUIRED_HAL = re.compile(r"^required_driver_ascendhal_version=([\d.]+)", re.MULTILINE)
_PACKAGE_ARCH = re.compile(r"^package_name=Ascend-cann-(\S+)\n(?:\w+=.*\n)*?arch=(\S+)", re.MULTILINE)
_NUMBER = re.compile(r"\d+")
# the project whose issues are the sources of most findings
_PLUGIN = "vllm-project/vllm-ascend"
_LONG, _ALIKE, _LONGEST_LINE = 100_000, 20, 2_000
_SEND = (
    "send the file of `envbuilder doctor --report FILE`, the output of `pip list`, and the whole traceback; "
    "or run `envbuilder diagnose --live` on that machine"
)


@dataclass(frozen=True)
class Diagnosis:
    facts: Mapping[str, str]
    closest: Environment | None
    findings: tuple[Finding, ...]


def diagnose(catalog: Catalog, text: str) -> Diagnosis:
    """Return the facts of a report, its faults, and the environment that it is closest to."""
    text = condensed(text)
    facts = read(catalog, text)
    symptoms = list(_symptoms(catalog, text))
    found = [*symptoms]
    for judgement in _JUDGEMENTS:
        found += judgement(catalog, facts, text)
    # versions can be judged on any chip
    nearest = closest(catalog, facts)
    row = nearest or closest(catalog, {name: facts[name] for name in facts if name != "chip"})
    found += _numpy(row, facts)
    if row is not None:
        found += _rules(row, facts)
    findings = sorted(_one_per_cause(found), key=worst_first)
    if not any(item.severity != "info" for item in findings) and not symptoms:
        findings.append(_cannot_tell(facts))
    return Diagnosis(facts, nearest, tuple(findings))


def _finding(code: str, severity: FindingSeverity, message: str, remedy: str | None, source: str | None) -> Finding:
    return Finding(severity, message, remedy, code=code, source=source)


def condensed(text: str) -> str:
    """Return a text without the repetitions of a long log: of lines that differ only in numbers, the first few."""
    if len(text) < _LONG:
        return text
    seen: Counter[str] = Counter()
    kept = []
    for line in text.splitlines():
        alike = _NUMBER.sub("0", line)
        seen[alike] += 1
        if seen[alike] <= _ALIKE:
            kept.append(line[:_LONGEST_LINE])
    return "\n".join(kept) + "\n"


def _one_per_cause(findings: list[Finding]) -> Iterator[Finding]:
    """Yield each finding once, and one error for each cause.

    A package that has replaced torch explains why its version is wrong; and while no row supports the chip, other
    errors are only warnings.
    """
    codes = {item.code for item in findings}
    for item in {(item.code, item.message): item for item in findings}.values():
        if item.code == "torch-npu-torch" and "torch-overwritten" in codes:
            continue
        hopeless = "unsupported-chip" in codes and item.severity == "error" and item.code != "unsupported-chip"
        yield replace(item, severity="warning") if hopeless else item


def _cannot_tell(facts: Mapping[str, str]) -> Finding:
    seen = ", ".join(f"{name} {value}" for name, value in facts.items()) or "no versions"
    message = f"cannot tell what is wrong: the report shows {seen}, and nothing in it is a known fault"
    return _finding("cannot-tell", "info", message, _SEND, None)


def _symptoms(catalog: Catalog, text: str) -> Iterator[Finding]:
    for symptom in seen_in(catalog.symptoms, text):
        cause = " ".join(symptom.cause.split())
        severity: FindingSeverity = symptom.severity
        message = cause if symptom.certain or severity == "info" else f"perhaps: {cause}"
        yield _finding(symptom.code, severity, message, " ".join(symptom.remedy.split()), symptom.source)


def _rules(environment: Environment, facts: Mapping[str, str]) -> Iterator[Finding]:
    """Apply the rules of `check` to the versions of the report instead of those that the row pins.

    A finding counts only if the report has the versions of all its components.
    """
    known = {name: value for name, value in facts.items() if name in environment.pins}
    if "driver" in facts:
        known["hdk"] = facts["driver"]
    context = RuleContext(environment.with_versions(known))
    for code in _PAIRS:
        for item in RULES[code].check(context):
            if item.components and all(name in known for name in item.components):
                severity: FindingSeverity = item.severity
                if severity == "error" and code in _STATEMENTS and not _is_excluded(context, *item.components):
                    severity = "warning"  # published neither as working nor as failing
                # the versions of a report are not pins
                message = item.message.replace(" is pinned at ", " is ")
                yield _finding(item.code, severity, message, item.hint, None)


def _is_excluded(context: RuleContext, name: str, partner: str) -> bool:
    release, pin = context.release(name), context.pin(partner)
    excluded = release.excluded.get(partner, ()) if release else ()
    return pin is not None and any(versions.in_family(pin.version, item) for item in excluded)


# --- faults without a rule in `check` --------------------------------------------------------------------


def _torch(catalog: Catalog, facts: Mapping[str, str], text: str) -> Iterator[Finding]:
    """Compare torch with torch_npu, which has the version of the torch that it is compiled against."""
    torch, npu = facts.get("torch"), facts.get("torch_npu")
    if torch is None or npu is None:
        return
    ours, theirs = (_NUMBER.findall(item.partition("+")[0])[:3] for item in (torch, npu))
    # users leave out the last number
    if all(left == right for left, right in zip(ours, theirs, strict=False)):
        return
    wanted = ".".join(theirs)
    message = f"torch is {torch}, and torch_npu {npu} is compiled against torch {wanted}"
    if by := _engine_that_requires(catalog, facts, torch):
        message, code = f"{message}: {by} has replaced it", "torch-overwritten"
    else:
        code = "torch-npu-torch"
    remedy = f"pip install torch=={wanted} torch_npu=={npu}, after everything else"
    yield _finding(code, "error", message, remedy, f"{_PLUGIN} issues 1188, 5710")


def _engine_that_requires(catalog: Catalog, facts: Mapping[str, str], torch: str) -> str | None:
    """Return the engine whose published wheel requires exactly this torch."""
    for name in (item.engine for item in catalog.engines.values()):
        component = catalog.components.get(name)
        release = component.release(facts[name]) if component and name in facts else None
        for requirement in (*release.metadata_requires, *release.requires) if release else ():
            parsed = parse(requirement)
            if parsed.name == "torch" and parsed.allows(torch):
                return f"{component.title} {facts[name]}" if component else None
    return None


def _chip(catalog: Catalog, facts: Mapping[str, str], text: str) -> Iterator[Finding]:
    """Look for a chip that no row supports, or an image for another chip."""
    family = family_of(catalog.chips, facts["chip"]) if "chip" in facts else None
    if family is None:
        return
    known = catalog.chips.families[family]
    if not known.supported:
        message = f"{facts['chip']} is {known.title}: {known.note or 'no row supports it'}"
        remedy = f"use hardware of {supported(catalog.chips)}"
        yield _finding("unsupported-chip", "error", message, remedy, "chips.yaml")
        return
    for match in _IMAGE.finditer(text):
        made_for = family_of_tag(catalog.chips, match["tag"])
        if made_for is not None and made_for != family:
            message = (
                f"{match[0]} is for {catalog.chips.families[made_for].title}, and {facts['chip']} is {known.title}"
            )
            words = " or ".join(f"-{word}" for word in known.image_words)
            remedy, source = f"use the image whose tag has {words}", f"{_PLUGIN} issues 3386, 1696"
            yield _finding("wrong-image-for-chip", "error", message, remedy, source)


def _numpy(row: Environment | None, facts: Mapping[str, str]) -> Iterator[Finding]:
    """Look for numpy 2, unless the nearest row has it too."""
    wanted = (row.version("numpy") if row else None) or "1"
    if (
        "numpy" in facts
        and "cann" in facts
        and versions.key(facts["numpy"]) >= versions.key("2") > versions.key(wanted)
    ):
        message = f"numpy is {facts['numpy']}, and CANN and the plugins are made for numpy 1"
        yield _finding("numpy-2", "error", message, "pip install 'numpy<2'", f"{_PLUGIN} issue 473")


def _triton(catalog: Catalog, facts: Mapping[str, str], text: str) -> Iterator[Finding]:
    """Look for triton beside triton-ascend, which is a fault with some releases of triton-ascend."""
    if "triton" not in facts or "triton_ascend" not in facts:
        return
    component = catalog.components.get("triton_ascend")
    release = component.release(facts["triton_ascend"]) if component else None
    if release is not None and any(parse(item).name == "triton" for item in release.requires):
        return
    message = f"triton {facts['triton']} and triton-ascend {facts['triton_ascend']} share a folder: the last one wins"
    remedy = "pip uninstall -y triton triton-ascend, then install triton-ascend last"
    yield _finding(
        "triton-shadow", "error" if release else "warning", message, remedy, "triton-lang/triton-ascend issue 306"
    )


def _audio(catalog: Catalog, facts: Mapping[str, str], text: str) -> Iterator[Finding]:
    """Compare torchaudio with torch, whose version it has."""
    torch, audio = facts.get("torch"), facts.get("torchaudio")
    if torch and audio and not versions.same(torch, audio):
        message = f"torchaudio {audio} belongs to torch {versions.public(audio)}, and torch is {torch}"
        yield _finding("torch-abi", "warning", message, f"pip install torchaudio=={versions.public(torch)}", None)


def _vendor(catalog: Catalog, facts: Mapping[str, str], text: str) -> Iterator[Finding]:
    """Compare the vendor's files that the report shows: each names the versions that it is compatible with."""
    driver, firmware = (shown_file(text, f"{part}/version.info") for part in ("driver", "firmware"))
    for message in disagreements(driver, firmware):
        remedy = "install driver and firmware of one HDK release"
        yield _finding("driver-firmware", "warning", message, remedy, "version.info of driver and firmware")
    wanted = _REQUIRED_HAL.search(text)
    have = driver.get("ascendhal_version")
    if wanted and have and versions.key(have) < versions.key(wanted[1]):
        message = f"CANN needs ascendhal {wanted[1]}, and the driver has {have}"
        remedy = "install a newer driver, or an older CANN"
        yield _finding("driver-too-old", "error", message, remedy, "version.cfg of CANN")
    arches = {match[1]: match[2] for match in _PACKAGE_ARCH.finditer(text)}
    if len(set(arches.values())) > 1:
        message = "parts of CANN are for different architectures: " + ", ".join(f"{k} {v}" for k, v in arches.items())
        yield _finding("cann-arch", "error", message, "install all parts for this machine", "install.info of CANN")


_JUDGEMENTS: tuple[Callable[[Catalog, Mapping[str, str], str], Iterator[Finding]], ...] = (
    _torch, _chip, _triton, _audio, _vendor,
)  # fmt: skip
