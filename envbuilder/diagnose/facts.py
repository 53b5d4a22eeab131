"""Reads the versions, the architecture and the chip of an environment from a report that users paste.

A report is a mixture of npu-smi tables, `pip list`, collect_env, files of the vendor, commands and sentences. Each
reader handles one kind of text and ranks its claims; for every fact the most trusted claim wins, then the first one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from envbuilder.doctor import npu_smi, vendor
from envbuilder.environment import Catalog

# packages to look for beside the components of the matrices
_MORE = ("transformers", "triton", "torchaudio", "numpy", "ray", "flash_attn")
_V = r"\d+(?:\.\d+)+(?:\.?(?:rc|alpha|beta|post|dev|a|b|t)\.?\d+(?:\.\d+)*)*(?:\+[0-9a-z]+(?:\.[0-9a-z]+)*)?"
_VERSION = rf"(?P<version>{_V})"
# a name starts a word, and is not a part of a path or of a longer name
_WORD = r"(?<![A-Za-z0-9_./-])"
# a line that states a requirement: its version is not an installed one
_REQUIREMENT = re.compile(
    r"requir|depends on|user requested|no matching distribution|could not find|satisf|not on |does not have"
    r"|full command|no version of|conflict|incompatible|but you have",
    re.IGNORECASE,
)
_DRIVER_SINCE = 20
_ARCHES = {"aarch64": "aarch64", "arm64": "aarch64", "x86_64": "x86_64", "x86-64": "x86_64", "amd64": "x86_64"}
_CHIP = (
    r"(?:Ascend[ -]?)?(?:910B[1-4](?:C|-1)?|910C\d?|910(?:Pro|Premium)?[AB]|310P\d|310B\d|950(?:PR|DT)?)|Ascend ?910"
)


class Claim(NamedTuple):
    """The value of a fact according to one text; the lower the rank, the more it is trusted."""

    fact: str
    value: str
    rank: int


class Words(NamedTuple):
    """Patterns of the spellings of packages, by component; longer names come before those that they contain."""

    patterns: Mapping[str, str]

    @property
    def any(self) -> str:
        return "|".join(f"(?P<{key}>{pattern})" for key, pattern in self.patterns.items())

    @property
    def unnamed(self) -> str:
        return "|".join(self.patterns.values())

    def of(self, match: re.Match[str]) -> str:
        return next(key for key in self.patterns if match[key])


def words_of(catalog: Catalog) -> Words:
    """Return the spellings of all packages that a report may mention."""
    known = {name: (name, item.title) for name, item in catalog.components.items() if item.kind != "vendor"}
    known |= {name: (name, name) for name in _MORE}
    known.pop("python", None)
    longest = sorted(known, key=len, reverse=True)
    return Words({name: "|".join(sorted({_spellings(word) for word in known[name]})) for name in longest})


def _spellings(word: str) -> str:
    """Return a pattern that accepts `-`, `_` and a space for each other."""
    return r"[-_ ]".join(re.escape(part) for part in re.split(r"[-_ ]", word.lower()))


def keys(catalog: Catalog) -> list[str]:
    """Return the facts that every diagnosis lists, found or not."""
    engines = [name for item in catalog.engines.values() for name in (item.engine, item.plugin)]
    vendors = ("python", "torch", "torch_npu", "cann", "driver")
    return [*vendors, *engines, "transformers", "triton", "triton_ascend", "arch", "chip"]


def read(catalog: Catalog, text: str) -> dict[str, str]:
    """Return every fact that a text contains."""
    words, best = words_of(catalog), dict[str, Claim]()
    for reader in _READERS:
        for claim in reader(text, words):
            if claim.fact not in best or claim.rank < best[claim.fact].rank:
                best[claim.fact] = claim
    return {claim.fact: _normalized(claim, words) for claim in best.values()}


def _normalized(claim: Claim, words: Words) -> str:
    """Return a version in the spelling of its publisher."""
    if claim.fact == "cann":
        return re.sub(r"[. ]*rc[. ]*(?=\d)", ".RC", claim.value, flags=re.IGNORECASE)
    if claim.fact in words.patterns:
        return re.sub(r"(?<=\d)\.?(post|dev)(?=\d)", r".\1", claim.value)
    return claim.value


def _matches(pattern: str, text: str) -> Iterator[re.Match[str]]:
    return re.finditer(pattern, text, re.IGNORECASE | re.MULTILINE)


def _line_of(match: re.Match[str]) -> str:
    """Return the line of a match up to its end."""
    text = match.string
    return text[text.rfind("\n", 0, match.start()) + 1 : match.end()]


# --- readers, the most trusted first ---------------------------------------------------------------------


def _packages(text: str, words: Words) -> Iterator[Claim]:
    """Read `pip list`, `pip freeze`, and collect_env's copy of them; `pip show`."""
    label = r"^[ \t]*(?:\[(?:pip3?|conda)\][ \t]*)?"
    for match in _matches(rf"{label}(?:{words.any})(?:==|[ \t]{{2,}}|[ \t]+(?=v?\d)){_VERSION}(?=[ \t]|$)", text):
        yield Claim(words.of(match), match["version"], 0 if "==" in match[0] or "  " in match[0].strip() else 2)
    for match in _matches(rf"^Name:[ \t]*(?:{words.any})[ \t]*\nVersion:[ \t]*{_VERSION}", text):
        yield Claim(words.of(match), match["version"], 0)


def _headers(text: str, words: Words) -> Iterator[Claim]:
    """Read the lines with versions of collect_env and of servers."""
    for match in _matches(rf"^(?:{words.any}) version:[ \t]*{_VERSION}", text):
        yield Claim(words.of(match), match["version"], 1)
    for match in _matches(rf"(?:{words.any}) api server version {_VERSION}", text):
        yield Claim(words.of(match), match["version"], 1)
    for match in _matches(rf"^[ \t+*-]*python(?: version)?[ \t]*[:：= ]+[ \t]*{_VERSION}", text):
        yield Claim("python", match["version"], 1)


def _npus(text: str, words: Words) -> Iterator[Claim]:
    """Read the table of npu-smi."""
    found = npu_smi.read(text)
    if found.driver_version and found.driver_version[0].isdecimal():
        yield Claim("driver", found.driver_version, 1)
    for device in found.devices:
        if device.name and re.search(r"\d", device.name):
            yield Claim("chip", device.name, 0)


def _vendor(text: str, words: Words) -> Iterator[Claim]:
    """Read files of the vendor as `cat` shows them; other parts give the version of CANN only without a toolkit."""
    for match in _matches(r"^package_name=Ascend-cann-(?P<part>\S+)\n(?P<rest>(?:\w+=.*\n?)+)", text):
        fields = vendor.values(match["rest"])
        rank = 0 if match["part"].lower() == "toolkit" else 3
        if "version" in fields:
            yield Claim("cann", fields["version"], rank)
        if fields.get("arch") in _ARCHES:
            yield Claim("arch", _ARCHES[fields["arch"]], rank)
    for match in _matches(rf"^version_dir={_VERSION}", text):
        yield Claim("cann", match["version"], 1)
    for part in ("driver", "firmware"):
        if version := shown_file(text, f"{part}/version.info").get("version"):
            yield Claim(part, version, 0)


def shown_file(text: str, name: str) -> dict[str, str]:
    """Return the values of a file that the text shows with `cat`, up to the next empty line."""
    found = re.search(rf"{re.escape(name)}[^\n]*\n((?:\w+=.*\n?)+)", text)
    return vendor.values(found[1]) if found else {}


def _mentions(text: str, words: Words) -> Iterator[Claim]:
    """Read a name followed by a version: `torch_npu：2.7.1`, `CANN 8.1.RC1`, `torch=2.7.1`, `| vllm | 0.9.1 |`."""
    quotes = r"[*`'\"]{0,3}"
    between = rf"{quotes}[ \t]*(?:(?:version|版本)[ \t]*)?(?:[:：|]|={{1,2}}|is\b|为|是)?[ \t]*{quotes}v?"
    for match in _matches(rf"{_WORD}(?:{words.any}){between}{_VERSION}(?![\w.]*\d[\w.]*-)", text):
        if not _REQUIREMENT.search(_line_of(match)):
            yield Claim(words.of(match), match["version"], 4)
    part = r"(?:[ _-]?(?:包|kernels|toolkit|package|nnal))?"
    for match in _matches(rf"{_WORD}cann{part}{between}(?P<version>{_V}(?:[ ]rc[ ]?\d+)?)", text):
        yield Claim("cann", match["version"], 4)
    for match in _matches(rf"{_WORD}python{between}{_VERSION}", text):
        yield Claim("python", match["version"], 4)
    label = r"(?:driver|驱动|hdk|npu-smi|software version)"
    for match in _matches(rf"{label}[^\n|\d]{{0,20}}(?:(?P<firmware>[\d.]+)-)?{_VERSION}", text):
        if int(match["version"].partition(".")[0]) >= _DRIVER_SINCE:
            yield Claim("driver", match["version"], 4)
            if match["firmware"]:
                yield Claim("firmware", match["firmware"], 4)


def _sentences(text: str, words: Words) -> Iterator[Claim]:
    """Read a version followed by names: `installed version 2.5.1 of torch and Torch-NPU`, `2.7.1版本的torch_npu`."""
    listed = rf"(?P<names>(?:{words.unnamed})(?:(?:,|[ ]and|和)[ ]?(?:{words.unnamed}))*)"
    for match in _matches(rf"(?:version[ ]{_VERSION}[ ]of[ ]|(?P<other>{_V})[ ]?版本的[ ]?){listed}", text):
        for name in re.split(r",|\band\b|和", match["names"]):
            for key, pattern in words.patterns.items():
                if re.fullmatch(pattern, name.strip(), re.IGNORECASE):
                    yield Claim(key, match["version"] or match["other"], 3)


def _commands(text: str, words: Words) -> Iterator[Claim]:
    """Read what was installed by hand: requirements, wheels, and sources at a tag."""
    for match in _matches(rf"pip3?[ ]install\b[^\n]*?[ '\"](?:{words.any})=={_VERSION}", text):
        yield Claim(words.of(match), match["version"], 5)
    for match in _matches(
        rf"(?:{words.any})-{_VERSION}-cp(?P<major>3)(?P<minor>\d+)-\S*?(?P<arch>{'|'.join(_ARCHES)})", text
    ):
        yield Claim(words.of(match), match["version"], 2)
        yield Claim("arch", _ARCHES[match["arch"].lower()], 4)
        yield Claim("python", f"{match['major']}.{match['minor']}", 6)
    for match in _matches(rf"Ascend-cann-[a-z0-9-]+_{_VERSION}_linux-(?P<arch>{'|'.join(_ARCHES)})", text):
        yield Claim("cann", match["version"], 5)
        yield Claim("arch", _ARCHES[match["arch"].lower()], 4)
    for match in _matches(rf"Ascend-hdk-[a-z0-9-]*driver_{_VERSION}_linux", text):
        yield Claim("driver", match["version"], 5)
    for match in _matches(rf"--branch[ =]v?{_VERSION}[ ]\S*/(?:{words.any})(?:\.git)?(?=\s|$)", text):
        yield Claim(words.of(match), match["version"], 5)


def _images(text: str, words: Words) -> Iterator[Claim]:
    """Read tags of images, which name the content unless it was uninstalled afterwards."""
    for match in _matches(rf"(?<=[/ ])cann:{_VERSION}-[\w.-]*?py(?P<python>3\.\d+)", text):
        yield Claim("cann", match["version"], 6)
        yield Claim("python", match["python"], 6)
    for match in _matches(rf"(?<=[/ ])(?:{words.any}):v?{_VERSION}(?![\w.-])", text):
        key = words.of(match)
        if not re.search(rf"uninstall[ ]+{words.patterns[key]}", text, re.IGNORECASE):
            yield Claim(key, match["version"], 6)


def _places(text: str, words: Words) -> Iterator[Claim]:
    """Read paths and words that show the version of Python, the architecture or the chip."""
    for match in _matches(r"/python(?P<version>3\.\d+(?:\.\d+)?)/", text):
        exact = match["version"].count(".") == 2
        yield Claim("python", match["version"], 5 if exact else 6)
    arch = f"(?P<arch>{'|'.join(_ARCHES)})"
    for match in _matches(rf"(?:^Architecture:[ ]*|^OS:[^\n]*\(|kernel[ ][\w.-]+[ ]){arch}", text):
        yield Claim("arch", _ARCHES[match["arch"].lower()], 1)
    for match in _matches(rf"(?<![a-z]){arch}(?![a-z0-9])", text):
        yield Claim("arch", _ARCHES[match["arch"].lower()], 5)
    for match in _matches(r"\b(?:(?P<intel>x86)|kunpeng|鲲鹏|arm)\b", text):
        yield Claim("arch", "x86_64" if match["intel"] else "aarch64", 7)
    label = r"(?:chip|npu(?: type| name)?|card|推理卡|芯片|device)[ \t]*[:：=]?[ \t]+"
    for match in _matches(rf"{label}(?P<chip>{_CHIP})\b", text):
        yield Claim("chip", match["chip"], 3)
    # without a label only the name of a single chip counts: `910B` is used for all of its family
    for match in _matches(
        r"(?<![\w:/.-])(?:Ascend[ -]?)?(?P<chip>910B[1-4](?:C|-1)?|910C\d|910Pro[AB]|310P\d)\b", text
    ):
        yield Claim("chip", match["chip"], 7)


_READERS: tuple[Callable[[str, Words], Iterator[Claim]], ...] = (
    _packages, _headers, _npus, _vendor, _sentences, _commands, _mentions, _images, _places,
)  # fmt: skip
