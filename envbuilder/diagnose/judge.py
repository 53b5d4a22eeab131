"""What is wrong in a report: by the rules that rows are judged by, by the symptoms that are known, by the chip."""

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

# the rules that judge versions against each other, whoever chose them
_PAIRS = (
    "torch-npu-torch", "torch-npu-cann", "cann-hdk", "torchvision-torch", "triton-ascend-cann", "plugin-engine",
    "plugin-cann", "plugin-pins", "python-range", "expected-conflict",
)  # fmt: skip
# of these the vendor publishes what works, and sometimes what does not
_STATEMENTS = ("torch-npu-cann", "cann-hdk")
_IMAGE = re.compile(r"(?:[\w.-]+/)*\w*ascend\w*/[\w.-]+:(?P<tag>[\w.-]+)")
_REQUIRED_HAL = re.compile(r"^required_driver_ascendhal_version=([\d.]+)", re.MULTILINE)
_PACKAGE_ARCH = re.compile(r"^package_name=Ascend-cann-(\S+)\n(?:\w+=.*\n)*?arch=(\S+)", re.MULTILINE)
_NUMBER = re.compile(r"\d+")
# whose issues are the sources of most of this
_PLUGIN = "vllm-project/vllm-ascend"
_LONG, _ALIKE, _LONGEST_LINE = 100_000, 20, 2_000
_SEND = (
    "send what `envbuilder doctor --report FILE` writes, `pip list`, and the whole traceback; "
    "or run `envbuilder diagnose --live` there"
)


@dataclass(frozen=True)
class Diagnosis:
    facts: Mapping[str, str]
    closest: Environment | None
    findings: tuple[Finding, ...]


def diagnose(catalog: Catalog, text: str) -> Diagnosis:
    text = condensed(text)
    facts = read(catalog, text)
    symptoms = list(_symptoms(catalog, text))
    found = [*symptoms]
    for judgement in _JUDGEMENTS:
        found += judgement(catalog, facts, text)
    # versions can be judged on any chip
    nearest = closest(catalog, facts)
    row = nearest or closest(catalog, {name: facts[name] for name in facts if name != "chip"})
    if row is not None:
        found += _rules(row, facts)
    findings = sorted(_settled(found), key=worst_first)
    if not any(item.severity != "info" for item in findings) and not symptoms:
        findings.append(_cannot_tell(facts))
    return Diagnosis(facts, nearest, tuple(findings))


def _found(code: str, severity: FindingSeverity, message: str, remedy: str | None, source: str | None) -> Finding:
    return Finding(severity, message, remedy, code=code, source=source)


def condensed(text: str) -> str:
    """A long log repeats itself: of lines that differ in numbers alone, the first few tell everything."""
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


def _settled(findings: list[Finding]) -> Iterator[Finding]:
    """Each once. One cause has one error: who replaced torch is a better word than that it is another one; and on a
    chip that no row has, nothing else matters before that."""
    codes = {item.code for item in findings}
    for item in {(item.code, item.message): item for item in findings}.values():
        if item.code == "torch-npu-torch" and "torch-overwritten" in codes:
            continue
        hopeless = "unsupported-chip" in codes and item.severity == "error" and item.code != "unsupported-chip"
        yield replace(item, severity="warning") if hopeless else item


def _cannot_tell(facts: Mapping[str, str]) -> Finding:
    seen = ", ".join(f"{name} {value}" for name, value in facts.items()) or "no version of anything"
    message = f"cannot tell what is wrong: the report shows {seen}, and nothing in it is known to be a fault"
    return _found("cannot-tell", "info", message, _SEND, None)


def _symptoms(catalog: Catalog, text: str) -> Iterator[Finding]:
    for symptom in seen_in(catalog.symptoms, text):
        said = " ".join(symptom.cause.split())
        severity: FindingSeverity = symptom.severity
        message = said if symptom.certain or severity == "info" else f"perhaps: {said}"
        yield _found(symptom.code, severity, message, " ".join(symptom.remedy.split()), symptom.source)


def _rules(environment: Environment, facts: Mapping[str, str]) -> Iterator[Finding]:
    """The rules of `check`, over what is there instead of what the row pins; only where everything that a rule speaks
    of was seen."""
    known = {name: value for name, value in facts.items() if name in environment.pins}
    if "driver" in facts:
        known["hdk"] = facts["driver"]
    context = RuleContext(environment.with_versions(known))
    for code in _PAIRS:
        for item in RULES[code].check(context):
            if item.components and all(name in known for name in item.components):
                severity: FindingSeverity = item.severity
                if severity == "error" and code in _STATEMENTS and not _is_excluded(context, *item.components):
                    severity = "warning"  # nobody has published that it works, nor that it does not
                # here nobody has pinned anything
                message = item.message.replace(" is pinned at ", " is ")
                yield _found(item.code, severity, message, item.hint, None)


def _is_excluded(context: RuleContext, name: str, partner: str) -> bool:
    release, pin = context.release(name), context.pin(partner)
    excluded = release.excluded.get(partner, ()) if release else ()
    return pin is not None and any(versions.in_family(pin.version, item) for item in excluded)


# --- what no row has a rule for --------------------------------------------------------------------------


def _torch(catalog: Catalog, facts: Mapping[str, str], text: str) -> Iterator[Finding]:
    """torch_npu bears the number of the torch that it is compiled against, development builds too."""
    torch, npu = facts.get("torch"), facts.get("torch_npu")
    if torch is None or npu is None:
        return
    ours, theirs = (_NUMBER.findall(item.partition("+")[0])[:3] for item in (torch, npu))
    # people leave out the last number
    if all(left == right for left, right in zip(ours, theirs, strict=False)):
        return
    wanted = ".".join(theirs)
    message = f"torch is {torch}, and torch_npu {npu} is compiled against torch {wanted}"
    if by := _who_brought(catalog, facts, torch):
        message, code = f"{message}: {by} has replaced it", "torch-overwritten"
    else:
        code = "torch-npu-torch"
    remedy = f"pip install torch=={wanted} torch_npu=={npu}, after everything else"
    yield _found(code, "error", message, remedy, f"{_PLUGIN} issues 1188, 5710")


def _who_brought(catalog: Catalog, facts: Mapping[str, str], torch: str) -> str | None:
    """The engine whose published wheel asks for exactly this torch."""
    for name in (item.engine for item in catalog.engines.values()):
        component = catalog.components.get(name)
        release = component.release(facts[name]) if component and name in facts else None
        for requirement in (*release.metadata_requires, *release.requires) if release else ():
            parsed = parse(requirement)
            if parsed.name == "torch" and parsed.allows(torch):
                return f"{component.title} {facts[name]}" if component else None
    return None


def _chip(catalog: Catalog, facts: Mapping[str, str], text: str) -> Iterator[Finding]:
    """A chip that no row has, or an image for another one."""
    family = family_of(catalog.chips, facts["chip"]) if "chip" in facts else None
    if family is None:
        return
    known = catalog.chips.families[family]
    if not known.supported:
        message = f"{facts['chip']} is {known.title}: {known.note or 'no row supports it'}"
        yield _found("unsupported-chip", "error", message, f"hardware of {supported(catalog.chips)}", "chips.yaml")
        return
    for match in _IMAGE.finditer(text):
        made_for = family_of_tag(catalog.chips, match["tag"])
        if made_for is not None and made_for != family:
            message = (
                f"{match[0]} is for {catalog.chips.families[made_for].title}, and {facts['chip']} is {known.title}"
            )
            words = " or ".join(f"-{word}" for word in known.image_words)
            remedy, source = f"the image whose tag says {words}", f"{_PLUGIN} issues 3386, 1696"
            yield _found("wrong-image-for-chip", "error", message, remedy, source)


def _numpy(catalog: Catalog, facts: Mapping[str, str], text: str) -> Iterator[Finding]:
    if "numpy" in facts and "cann" in facts and versions.key(facts["numpy"]) >= versions.key("2"):
        message = f"numpy is {facts['numpy']}, and CANN and the plugins are made for numpy 1"
        yield _found("numpy-2", "error", message, "pip install 'numpy<2'", f"{_PLUGIN} issue 473")


def _triton(catalog: Catalog, facts: Mapping[str, str], text: str) -> Iterator[Finding]:
    """Both in one list: whether that is a fault depends on the release of triton-ascend."""
    if "triton" not in facts or "triton_ascend" not in facts:
        return
    component = catalog.components.get("triton_ascend")
    release = component.release(facts["triton_ascend"]) if component else None
    if release is not None and any(parse(item).name == "triton" for item in release.requires):
        return
    message = f"triton {facts['triton']} and triton-ascend {facts['triton_ascend']} share a folder: the last one wins"
    remedy = "pip uninstall -y triton triton-ascend, then install triton-ascend last"
    yield _found(
        "triton-shadow", "error" if release else "warning", message, remedy, "triton-lang/triton-ascend issue 306"
    )


def _audio(catalog: Catalog, facts: Mapping[str, str], text: str) -> Iterator[Finding]:
    """torchaudio has the number of its torch."""
    torch, audio = facts.get("torch"), facts.get("torchaudio")
    if torch and audio and not versions.same(torch, audio):
        message = f"torchaudio {audio} belongs to torch {versions.public(audio)}, and torch is {torch}"
        yield _found("torch-abi", "warning", message, f"pip install torchaudio=={versions.public(torch)}", None)


def _vendor(catalog: Catalog, facts: Mapping[str, str], text: str) -> Iterator[Finding]:
    """The vendor's files, where the report shows them: what they say of each other."""
    driver, firmware = (shown_file(text, f"{part}/version.info") for part in ("driver", "firmware"))
    for message in disagreements(driver, firmware):
        remedy = "install driver and firmware of one HDK release"
        yield _found("driver-firmware", "warning", message, remedy, "its own version.info")
    wanted = _REQUIRED_HAL.search(text)
    have = driver.get("ascendhal_version")
    if wanted and have and versions.key(have) < versions.key(wanted[1]):
        message = f"CANN needs ascendhal {wanted[1]}, and the driver has {have}"
        yield _found("driver-too-old", "error", message, "a newer driver, or an older CANN", "CANN's own version.cfg")
    arches = {match[1]: match[2] for match in _PACKAGE_ARCH.finditer(text)}
    if len(set(arches.values())) > 1:
        message = "parts of CANN for different machines: " + ", ".join(f"{k} {v}" for k, v in arches.items())
        yield _found("cann-arch", "error", message, "install all of them for this machine", "their install.info")


_JUDGEMENTS: tuple[Callable[[Catalog, Mapping[str, str], str], Iterator[Finding]], ...] = (
    _torch, _chip, _numpy, _triton, _audio, _vendor,
)  # fmt: skip
