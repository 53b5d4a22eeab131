"""Judges the chip, the image for it, and the vendor's files that a report shows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from envbuilder import versions
from envbuilder.check import Finding
from envbuilder.diagnose.claims import IMAGE, shown_file, words_of
from envbuilder.diagnose.facts import Facts
from envbuilder.diagnose.report import PastedReport
from envbuilder.environment import Catalog
from envbuilder.language import tr
from envbuilder.machine.chips import family_of, family_of_number, family_of_tag, family_on_bus, supported
from envbuilder.machine.vendor import disagreements
from envbuilder.matrix.model import ChipFamily

_NUMBER = re.compile(r"soc[_ ]?version\w*(?:\(\))?[ \t]*[:=]?[ \t]*(?:is )?(?P<number>\d{3})\b", re.IGNORECASE)
_BUS = re.compile(r"\b19e5[: ]+(?P<device>d\d\d\d)\b", re.IGNORECASE)
_REQUIRED_HAL = re.compile(r"^required_driver_ascendhal_version=([\d.]+)", re.MULTILINE)
_PACKAGE_ARCH = re.compile(r"^package_name=Ascend-cann-(\S+)\n(?:\w+=.*\n)*?arch=(\S+)", re.MULTILINE)
_DEVICE = re.compile(r"--device[ =]/dev/davinci(?P<number>\d{1,4})\b")
_VISIBLE = re.compile(r"ASCEND_RT_VISIBLE_DEVICES=[\"']?(?P<numbers>\d{1,4}(?:,[ ]?\d{1,4})*)")
_ALL_DEVICES = re.compile(r"--privileged|-v[ =]/dev:|/dev/davinci\$|davinci\[|davinci\*")
_LOOK = "npu-smi info"


class _Chip(NamedTuple):
    """The family of a chip, with the name and the line of the report that show it."""

    family: ChipFamily
    name: str
    line: int


def judge_hardware(catalog: Catalog, facts: Facts, report: PastedReport) -> Iterator[Finding]:
    """Yield what is wrong with the chip, the image and the driver."""
    if chip := _chip(catalog, facts, report):
        yield from _unsupported(catalog, chip, report) if not chip.family.supported else _image(catalog, chip, report)
    else:
        # a question may name a chip that the user only wants
        named = _spoken_chips(catalog, report, report.said)
        if not any(item.family.supported for item in named):
            yield from (found for item in named for found in _unsupported(catalog, item, report))
    yield from _visible(report)
    yield from _vendor(report)


def _chip(catalog: Catalog, facts: Facts, report: PastedReport) -> _Chip | None:
    """Return the chip of a report; output of tools counts more than sentences."""
    families = catalog.chips.families
    if "chip" in facts and (family := family_of(catalog.chips, facts["chip"])):
        return _Chip(families[family], facts["chip"], facts.lines["chip"])
    buses = {match["device"].lower(): match.start() for match in _BUS.finditer(report.said)}
    if family := family_on_bus(catalog.chips, buses):
        number = next(number for number in buses if number in families[family].pci)
        return _Chip(families[family], tr("PCI device {number}", number=number), report.place(buses[number]))
    match = _NUMBER.search(report.said)
    if match and (family := family_of_number(catalog.chips, int(match["number"]))):
        return _Chip(families[family], f"soc_version {match['number']}", report.place(match.start()))
    spoken = _spoken_chips(catalog, report, report.present)
    return spoken[0] if len(spoken) == 1 else None


def _spoken_chips(catalog: Catalog, report: PastedReport, text: str) -> list[_Chip]:
    """Return the chips that sentences of a text name, one of each family."""
    found = []
    for known in catalog.chips.families.values():
        matches = [match for name in known.spoken if (match := _spoken(name).search(text))]
        if matches:
            first = min(matches, key=lambda match: match.start())
            found.append(_Chip(known, first[0], report.place(first.start())))
    return found


def _visible(report: PastedReport) -> Iterator[Finding]:
    """Compare the devices that a container gets with those that a variable makes visible in it."""
    given = {int(match["number"]) for match in _DEVICE.finditer(report.said)}
    wanted = _VISIBLE.search(report.said)
    if not given or wanted is None or _ALL_DEVICES.search(report.said):
        return
    if max(map(int, wanted["numbers"].split(","))) >= len(given):
        message = tr(
            "{variable} names a device that the container does not have: it gets {devices}, counted from 0 inside",
            variable=wanted[0],
            devices=", ".join(f"davinci{number}" for number in sorted(given)),
        )
        remedy = tr("give the container that device with --device, or let the variable name devices from 0 on")
        yield Finding(
            "warning", message, remedy, code="visible-devices", source="vllm-project/vllm-ascend issue 10481",
            lines=(report.place(wanted.start()),), ask=tr("ls /dev/davinci*, in the container"),
        )  # fmt: skip


def _spoken(name: str) -> re.Pattern[str]:
    words = r"[ _()-]{0,2}".join(re.escape(word) for word in name.split())
    return re.compile(rf"(?<![A-Za-z0-9_.:/-]){words}(?![A-Za-z0-9_]|[ ]?A\d\b)", re.IGNORECASE)


def _unsupported(catalog: Catalog, chip: _Chip, report: PastedReport) -> Iterator[Finding]:
    known = chip.family
    is_served = known.serves or any(word in report.said.lower() for word in known.trained_by)
    note = tr(known.note or "no row supports it")
    message = tr("{chip} is {family}: {note}", chip=chip.name, family=known.title, note=note)
    remedy = tr("use hardware of {families}", families=supported(catalog.chips))
    yield Finding(
        "warning" if is_served else "error", message, remedy, code="unsupported-chip", source="chips.yaml",
        lines=(chip.line,), ask=_LOOK,
    )  # fmt: skip


def _image(catalog: Catalog, chip: _Chip, report: PastedReport) -> Iterator[Finding]:
    """Look for an image that is made for another chip."""
    names = words_of(catalog).unnamed
    for match in re.finditer(IMAGE, report.present, re.ASCII):
        # an image with only Python fits any chip
        if not re.search(rf"ascend|cann|npu|{names}", match[0], re.IGNORECASE):
            continue
        named = family_of_tag(catalog.chips, match["tag"])
        if named is None or (made_for := catalog.chips.families[named]) is chip.family:
            continue
        words = tr(" or ").join(f"-{word}" for word in chip.family.image_words)
        is_marked = any(word in match["tag"].lower() for word in made_for.image_words)
        message = tr(
            "{image} is for {made_for}, and {chip} is {family}",
            image=match[0],
            made_for=made_for.title,
            chip=chip.name,
            family=chip.family.title,
        )
        remedy = tr("use the image whose tag has {words}", words=words)
        yield Finding(
            "error" if is_marked else "warning", message, remedy, code="wrong-image-for-chip",
            source="vllm-project/vllm-ascend issues 3386, 1696",
            lines=tuple(sorted({report.place(match.start()), chip.line})), ask=_LOOK,
        )  # fmt: skip


def _vendor(report: PastedReport) -> Iterator[Finding]:
    """Compare the vendor's files that the report shows: each names the versions that it is compatible with."""
    text = report.said
    driver, firmware = (shown_file(text, f"{part}/version.info") for part in ("driver", "firmware"))
    for message in disagreements(driver, firmware):
        remedy, source = tr("install driver and firmware of one HDK release"), tr("version.info of driver and firmware")
        yield Finding("warning", message, remedy, code="driver-firmware", source=source)
    wanted = _REQUIRED_HAL.search(text)
    have = driver.get("ascendhal_version")
    if wanted and have and versions.key(have) < versions.key(wanted[1]):
        message = tr("CANN needs ascendhal {wanted}, and the driver has {have}", wanted=wanted[1], have=have)
        remedy, lines = tr("install a newer driver, or an older CANN"), (report.place(wanted.start()),)
        yield Finding("error", message, remedy, code="driver-too-old", source=tr("version.cfg of CANN"), lines=lines)
    arches = dict(_PACKAGE_ARCH.findall(text))
    if len(set(arches.values())) > 1:
        parts = ", ".join(f"{name} {arch}" for name, arch in arches.items())
        message = tr("parts of CANN are for different architectures: {parts}", parts=parts)
        remedy = tr("install all parts for this machine")
        yield Finding("error", message, remedy, code="cann-arch", source=tr("install.info of CANN"))
