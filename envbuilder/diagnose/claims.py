"""Reads claims on versions, the architecture and the chip: each reader handles one kind of text and ranks its claims.

A report is a mixture of npu-smi tables, `pip list`, collect_env, files of the vendor, commands and sentences.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from envbuilder import versions
from envbuilder.environment import Catalog
from envbuilder.machine import npu_smi, vendor
from envbuilder.matrix.model import Engine
from envbuilder.matrix.patterns import bounded

# packages to look for beside the components of the matrices
_MORE = ("transformers", "triton", "torchaudio", "numpy", "ray", "flash_attn")
_V = (
    r"\d+(?:\.\d+)+(?:(?:-(?=rc|alpha|beta|post|dev)|\.)?(?:rc|alpha|beta|post|dev|a|b|t)\.?\d+(?:\.\d+)*)*"
    r"(?:\+[0-9a-z]+(?:\.[0-9a-z]+)*)?"
)
_VERSION = rf"(?P<version>{_V})"
# a name starts a word, and is not a part of a path or of a longer name
_WORD = r"(?:(?<![A-Za-z0-9_./-])|(?<=^-)|(?<=^--))"
# a line that states a requirement: its version is not an installed one
_REQUIREMENT = re.compile(
    r"requir(?!ements\.txt)|depends on|user requested|no matching distribution|could not find|satisf|not on "
    r"|does not have|full command|no version of|conflict|incompatible|but you have",
    re.IGNORECASE,
)
_DRIVER_SINCE = 20
_ARCHES = {"aarch64": "aarch64", "arm64": "aarch64", "x86_64": "x86_64", "x86-64": "x86_64", "amd64": "x86_64"}
# the name of one chip, without a plain 910B: npu-smi means the first generation by it, and people mean Atlas A2
_ONE_CHIP = r"910B[1-4](?:C|-1)?|910_93\d\d|910C\d?|910Pro[AB]|910PremiumA|910A|310P\d|310B\d|950(?:PR|DT)"
_CHIP = rf"(?:Ascend[ -]?)?(?:{_ONE_CHIP}|950)|Ascend ?910(?![ ]?[A-Z0-9_])"
# the version of a checkout of the main branch
MAIN = "main"
# a reference to an image, by any publisher
IMAGE = (
    r"(?<![\w./-])(?:[\w.-]+(?::\d+)?/)*(?P<name>[a-z0-9][\w.-]*)"
    r":(?P<tag>(?=[\w.-]*[A-Za-z.-])(?=[\w.-]*\d|latest|main|nightly)[A-Za-z0-9][\w.-]*)(?![\w./])"
)
_FAILED = re.compile(r"conflict|fail|error|cannot|报错|失败|冲突|不了|无法", re.IGNORECASE)
_SEPARATOR = re.compile(r"/|,|，|&|、|和|与|\band\b")
# what people write between a name and its version
_QUOTES = r"[*`'\"（(]{0,3}"
_SAYS = r"(?:[:：|]|={1,2}|is\b|stays? at\b|at\b|为|是)?"
_BETWEEN = rf"{_QUOTES}[ \t]*(?:(?:version|ver\.?|image|branch|版本|镜像|分支)[ \t]*)?{_SAYS}[ \t]*{_QUOTES}v?"


class Claim(NamedTuple):
    """The value of a fact according to one place of a text; the lower the rank, the more it is trusted."""

    fact: str
    value: str
    rank: int
    at: int = 0


class Words(NamedTuple):
    """Patterns of the spellings of packages, by component; longer names come before those that they contain."""

    patterns: Mapping[str, str]
    # the engines, which have patterns of what programs print before their versions when they start
    announced: Mapping[str, Engine]

    @property
    def any(self) -> str:
        return "|".join(f"(?P<{key}>{pattern})" for key, pattern in self.patterns.items())

    @property
    def unnamed(self) -> str:
        return "|".join(self.patterns.values())

    def of(self, match: re.Match[str]) -> str:
        return next(key for key in self.patterns if match[key])

    def named(self, text: str) -> str | None:
        """Return the component of which a text is a spelling."""
        found = (key for key, pattern in self.patterns.items() if re.fullmatch(pattern, text.strip(), re.IGNORECASE))
        return next(found, None)

    def listed(self, text: str) -> Iterator[str]:
        """Yield the components of a list in a sentence."""
        return filter(None, map(self.named, _SEPARATOR.split(text)))


def words_of(catalog: Catalog) -> Words:
    """Return the spellings of all packages that a report may mention."""
    known = {name: (name, item.title) for name, item in catalog.components.items() if item.kind != "vendor"}
    known |= {name: (name, name) for name in _MORE}
    known.pop("python", None)
    longest = sorted(known, key=len, reverse=True)
    patterns = {name: "|".join(sorted({_spellings(word) for word in known[name]})) for name in longest}
    return Words(patterns, {item.engine: item for item in catalog.engines.values()})


def _spellings(word: str) -> str:
    """Return a pattern that accepts `-`, `_` and a space for each other."""
    return r"[-_ ]".join(re.escape(part) for part in re.split(r"[-_ ]", word.lower()))


def mentioned(text: str, words: Words) -> frozenset[str]:
    """Return the components that a text names."""
    return frozenset(words.of(match) for match in _matches(rf"(?<![A-Za-z0-9])(?:{words.any})(?![A-Za-z0-9])", text))


def _matches(pattern: str, text: str) -> Iterator[re.Match[str]]:
    # with the words of ASCII, so that a name ends before a Chinese character
    return re.finditer(pattern, text, re.IGNORECASE | re.MULTILINE | re.ASCII)


def _line_of(match: re.Match[str]) -> str:
    """Return the line of a match up to its end."""
    text = match.string
    return text[text.rfind("\n", 0, match.start()) + 1 : match.end()]


def _versions(pattern: str, text: str, words: Words, rank: int) -> Iterator[Claim]:
    """Yield a claim for each match, which names a package and its version."""
    for match in _matches(pattern, text):
        yield Claim(words.of(match), match["version"], rank, match.start())


def _values(fact: str, pattern: str, text: str, rank: int, group: str = "version") -> Iterator[Claim]:
    """Yield a claim on one fact for each match."""
    for match in _matches(pattern, text):
        yield Claim(fact, match[group], rank, match.start())


def _arches(pattern: str, text: str, rank: int) -> Iterator[Claim]:
    for match in _matches(pattern, text):
        yield Claim("arch", _ARCHES[match["arch"].lower()], rank, match.start())


# --- readers, the most trusted first ---------------------------------------------------------------------


def _packages(text: str, words: Words) -> Iterator[Claim]:
    """Read `pip list`, `pip freeze`, and their copy in collect_env; `pip show`; messages of pip."""
    label = r"^[ \t]*(?:\[(?:pip3?|conda)\][ \t]*)?"
    for match in _matches(rf"{label}(?:{words.any})(?:==|[ \t]{{2,}}|[ \t]+(?=v?\d))v?{_VERSION}(?=[ \t]|$)", text):
        rank = 0 if "==" in match[0] or "  " in match[0].strip() else 2
        yield Claim(words.of(match), match["version"], rank, match.start())
    yield from _versions(rf"^Name:[ \t]*(?:{words.any})[ \t]*\nVersion:[ \t]*{_VERSION}", text, words, 0)
    yield from _versions(rf"^[ \t]*(?:{words.any})-{_VERSION}(?=[ \t,，]|$)", text, words, 3)
    yield from _versions(rf"(?:^|[ ])(?:{words.any}) in /\S+ \({_VERSION}\)", text, words, 1)
    yield from _versions(rf"VersionConflict: \((?:{words.any}) {_VERSION} \(", text, words, 2)
    yield from _versions(rf"but you have (?:{words.any}) {_VERSION}", text, words, 2)
    for line in _matches(r"^[ \t]*Successfully installed .*$", text):
        for match in _matches(rf"(?<=[ ])(?:{words.any})-{_VERSION}(?=[ ]|$)", line[0]):
            yield Claim(words.of(match), match["version"], 1, line.start())


def _headers(text: str, words: Words) -> Iterator[Claim]:
    """Read the lines with versions of collect_env, of servers and of a prompt."""
    titled = rf"^[ \t*-]*(?:{words.any}) version(?: \([^)\n]*\))?[ \t]*[:：][ \t]*{_VERSION}"
    yield from _versions(titled, text, words, 1)
    yield from _versions(rf"(?:{words.any}) (?:api )?server version:? {_VERSION}", text, words, 1)
    # verl's own script
    for match in _matches(rf"^-+(?:(?P<python>python)|{words.any}) Info-+[ \t]*\nVersion[ \t]*:[ \t]*{_VERSION}", text):
        yield Claim("python" if match["python"] else words.of(match), match["version"], 1, match.start())
    for name, engine in words.announced.items():
        with bounded(engine.name, engine.where):
            found = [
                item for pattern in engine.announces for item in _values(name, rf"(?:{pattern}){_VERSION}", text, 1)
            ]
        yield from found
    yield from _values("python", rf"^[ \t+*-]*python(?: version)?[ \t]*[:：= ]+[ \t]*{_VERSION}", text, 1)


def _npus(text: str, words: Words) -> Iterator[Claim]:
    """Read the table of npu-smi."""
    found = npu_smi.read(text)
    at = max(text.find("npu-smi "), 0)
    if found.driver_version and found.driver_version[0].isdecimal():
        yield Claim("driver", found.driver_version, 1, at)
    for device in found.devices:
        if device.name and re.search(r"\d", device.name):
            row = re.search(rf"^\|.*\b{re.escape(device.name)}\b", text, re.MULTILINE)
            yield Claim("chip", device.name, 0, row.start() if row else at)


def _vendor(text: str, words: Words) -> Iterator[Claim]:
    """Read the vendor's files as `cat` shows them; without a toolkit, other parts give the version of CANN."""
    for match in _matches(r"^package_name=Ascend-cann-(?P<part>\S+)\n(?P<rest>(?:\w+=.*\n?)+)", text):
        fields = vendor.values(match["rest"])
        rank = 0 if match["part"].lower() == "toolkit" else 3
        if "version" in fields:
            yield Claim("cann", fields["version"], rank, match.start("rest"))
        if fields.get("arch") in _ARCHES:
            yield Claim("arch", _ARCHES[fields["arch"]], rank, match.start("rest"))
    yield from _values("cann", rf"^version_dir={_VERSION}", text, 1)
    for part in ("driver", "firmware"):
        if version := shown_file(text, f"{part}/version.info").get("version"):
            yield Claim(part, version, 0, max(text.find(f"{part}/version.info"), 0))


def shown_file(text: str, name: str) -> dict[str, str]:
    """Return the values of a file that the text shows with `cat`, up to the next empty line."""
    found = re.search(rf"{re.escape(name)}[^\n]*\n\s*((?:\w+=.*\n?)+)", text)
    return vendor.values(found[1]) if found else {}


def _mentions(text: str, words: Words) -> Iterator[Claim]:
    """Read a name followed by a version: `torch_npu：2.7.1`, `CANN 8.1.RC1`, `torch=2.7.1`, `| vllm | 0.9.1 |`."""
    spaced = rf"(?P<version>{_V}(?:[ ]rc[ ]?\d+)?)"
    for match in _matches(rf"{_WORD}(?:{words.any}){_BETWEEN}{spaced}(?![\w.]*\d[\w.]*-)", text):
        if not _REQUIREMENT.search(line := _line_of(match)) and "pip install" not in line:
            yield Claim(words.of(match), match["version"], 4, match.start())
    for match in _matches(rf"(?<!:){_WORD}(?:{words.any})-{_VERSION}(?![\w-]|\.\w|\)[ ]?[\[\w])", text):
        if "uninstall" not in _line_of(match):
            yield Claim(words.of(match), match["version"], 4, match.start())


def _vendor_mentions(text: str, words: Words) -> Iterator[Claim]:
    """Read the versions of CANN, Python and the driver in sentences."""
    part = r"(?:(?:[ _-]?|[ ]?(?:和|与|/|&|,|and)[ ]?)(?:ascend-)?(?:包|kernels?|toolkit|package|nnal))*"
    yield from _values("cann", rf"^[ \t*-]*(?:kernels?/toolkit|toolkit(?:/kernels?)?){_BETWEEN}{_VERSION}", text, 5)
    for match in _matches(rf"(?:{_WORD}|ascend-)cann{part}{_BETWEEN}(?P<version>{_V}(?:[ ]rc[ ]?\d+)?)", text):
        # some users give the number in npu-smi as that of CANN
        fact = "driver" if versions.series(match["version"], 1) >= (_DRIVER_SINCE,) else "cann"
        yield Claim(fact, match["version"], 4, match.start())
    yield from _values("python", rf"{_WORD}python{_BETWEEN}{_VERSION}", text, 4)
    label = r"(?:driver|驱动|hdk|npu-smi|npu version|software version|^[ \t*-]*npu(?=[ ]?[:：]))"
    for match in _matches(rf"{label}[^\n|\d]{{0,20}}(?:\|[^\n|\d]{{0,8}})?(?:(?P<firmware>[\d.]+)-)?{_VERSION}", text):
        if versions.series(match["version"], 1) >= (_DRIVER_SINCE,):
            yield Claim("driver", match["version"], 4, match.start())
            if match["firmware"]:
                yield Claim("firmware", match["firmware"], 4, match.start())


def _sentences(text: str, words: Words) -> Iterator[Claim]:
    """Read a version followed by names: `installed version 2.5.1 of torch and Torch-NPU`, `2.7.1版本的torch_npu`."""
    listed = rf"(?P<names>(?:{words.unnamed})(?:(?:,|[ ]and|和|与|、)[ ]?(?:{words.unnamed}))*)"
    changed = r"(?:up|down)graded?[ ](?:the[ ])?|(?:升级|降级|更新|换)了?[ ]?"
    for match in _matches(
        rf"(?:{changed})(?:{words.any}|(?P<cann>cann))(?:[ ]version)?[ ]?(?:to|到|至|成|为)[ ]?v?{_VERSION}", text
    ):
        yield Claim("cann" if match["cann"] else words.of(match), match["version"], 3, match.start())
    became = r"(?:升级|降级|更新|换|升|降)了?[ ]?(?:到|至|成|为)[ ]?"
    yield from _versions(rf"{_WORD}(?:{words.any}){became}v?{_VERSION}", text, words, 3)
    joined = rf"(?P<names>(?:{words.unnamed})(?:[ ]?(?:/|,|，|&|、|和|与|and)[ ]?(?:{words.unnamed}))+)"
    for match in _matches(rf"{_WORD}{joined}[ ]{{0,3}}(?:version|版本)?[ ]?(?:[:：]|={{0,2}})[ ]?v?{_VERSION}", text):
        for key in words.listed(match["names"]):
            yield Claim(key, match["version"], 3, match.start())
    for match in _matches(rf"(?:version[ ]{_VERSION}[ ]of[ ]|(?P<other>{_V})[ ]?版本的[ ]?){listed}", text):
        for key in words.listed(match["names"]):
            yield Claim(key, match["version"] or match["other"], 3, match.start())


def _commands(text: str, words: Words) -> Iterator[Claim]:
    """Read what commands install: requirements, wheels, and sources at a tag; not where the command failed."""
    is_refused = "ResolutionImpossible" in text
    for line in _matches(r"pip3?[ ]install\b.*$", text):
        if not is_refused and not _FAILED.search(line[0]):
            for match in _matches(rf"[ '\"](?:{words.any})==v?{_VERSION}", line[0]):
                yield Claim(words.of(match), match["version"], 5, line.start())
    for match in _matches(
        rf"(?:{words.any})-{_VERSION}-cp(?P<major>3)(?P<minor>\d+)-\S*?(?P<arch>{'|'.join(_ARCHES)})", text
    ):
        yield Claim(words.of(match), match["version"], 2, match.start())
        yield Claim("arch", _ARCHES[match["arch"].lower()], 4, match.start())
        yield Claim("python", f"{match['major']}.{match['minor']}", 6, match.start())
    for match in _matches(rf"Ascend-cann-[a-z0-9-]+_{_VERSION}_linux-(?P<arch>{'|'.join(_ARCHES)})", text):
        yield Claim("cann", match["version"], 5, match.start())
        yield Claim("arch", _ARCHES[match["arch"].lower()], 4, match.start())
    yield from _values("driver", rf"Ascend-hdk-[a-z0-9-]*driver_{_VERSION}_linux", text, 5)
    cloned = rf"(?:--branch|-b)[ =]v?{_VERSION}[ ](?:\S+[ ])*?\S*/(?:{words.any})(?:\.git)?(?=\s|$)"
    yield from _versions(cloned, text, words, 5)


def _branches(text: str, words: Words) -> Iterator[Claim]:
    """Read that a package is a checkout of its main branch."""
    name = rf"(?:{words.any})"
    for pattern in (
        rf"main[ ]branch[ ]of[ ](?:the[ ])?{name}",
        rf"{_WORD}{name}(?:[ ]version)?[ ]?[:：@(]?[ ]?[(]?(?:latest[ ])?main(?:[ ]branch|分支|\b(?![-./\w]))",
        rf"{_WORD}{name}[ ]?[:：]?[ ]?(?:的|基于|使用|用)?[ ]?main[ ]?分支",
        rf"main[ ]?分支[^\n,，。]{{0,12}}?(?:编译|构建|安装|源码)[^\n,，。]{{0,6}}?{name}",
        rf"repository:[ ]*\S*/{name}[ ]*\n(?:.*\n)?[ \t]*branch:[ ]*main\b",
        rf"/{name}:main(?:-[\w.-]+)?\b",
    ):
        for match in _matches(pattern, text):
            yield Claim(words.of(match), MAIN, 6, match.start())


def _images(text: str, words: Words) -> Iterator[Claim]:
    """Read tags of images, which name the content; a package that was uninstalled afterwards does not count."""
    for match in _matches(IMAGE, text):
        at, tag = match.start(), match["tag"]
        name = match["name"].lower()
        key = words.named(name)
        own = re.match(rf"v?{_VERSION}(?=-|$)(?!-dev)", tag, re.IGNORECASE)
        # verl's own images name the toolkit after the framework: verl-8.3.rc1-910b-...
        cann = re.search(rf"(?:^|-)(?:cann-?|{name}-){_VERSION}", tag, re.IGNORECASE)
        if name == "cann":
            cann = cann or own
        elif key and own and not re.search(rf"uninstall[ ]+{words.patterns[key]}", text, re.IGNORECASE):
            yield Claim(key, own["version"], 6, at)
        if cann:
            yield Claim("cann", cann["version"], 6, at)
        if python := re.search(r"(?:^|-)py(?P<version>3\.\d+)", tag):
            yield Claim("python", python["version"], 6, at)
        for part in re.finditer(rf"(?:^|-)(?:{words.any})-?v?{_VERSION}(?=-|$)", tag, re.IGNORECASE):
            if words.of(part) != key:
                yield Claim(words.of(part), part["version"], 6, at)


def _tags(text: str, words: Words) -> Iterator[Claim]:
    """Read tags of images without a name: `8.5.0-910b-ubuntu22.04-py3.11`, `main-cann8.5.0-910b`."""
    yield from _values("cann", rf"(?<![\w.:/-])[\w.]+-cann-?{_VERSION}-\w", text, 6)
    for match in _matches(rf"(?<![\w.:-]){_VERSION}-[\w]+-(?:ubuntu|openeuler)[\d.]+-py(?P<python>3\.\d+)", text):
        yield Claim("cann", match["version"], 6, match.start())
        yield Claim("python", match["python"], 6, match.start())


def _places(text: str, words: Words) -> Iterator[Claim]:
    """Read paths and words that show the version of Python, the architecture or the chip."""
    for match in _matches(r"/python(?P<version>3\.\d+(?:\.\d+)?)/", text):
        exact = match["version"].count(".") == 2
        yield Claim("python", match["version"], 5 if exact else 6, match.start())
    yield from _values("cann", rf"(?:/Ascend/cann-|ascend-toolkit/){_VERSION}(?=/|\s|$)", text, 5)
    yield from _versions(rf"(?<!envs)/(?:{words.any})-{_VERSION}/", text, words, 7)
    arch = f"(?P<arch>{'|'.join(_ARCHES)})"
    yield from _arches(rf"(?:^Architecture:[ ]*|^OS:[^\n]*\(|kernel[ ][\w.-]+[ ]){arch}", text, 1)
    yield from _arches(rf"detected host platform \(linux/{arch}", text, 1)
    yield from _arches(rf"(?<![a-z]){arch}(?![a-z0-9])", text, 5)
    for match in _matches(r"(?:\b(?:(?P<intel>x86)|kunpeng|arm)\b|鲲鹏)", text):
        yield Claim("arch", "x86_64" if match["intel"] else "aarch64", 7, match.start())


def _chips(text: str, words: Words) -> Iterator[Claim]:
    """Read the names of chips outside of npu-smi."""
    # a file for another chip is named in the same line
    yield from _values("chip", r"current device soc_?ver\w*[ ]*(?P<chip>Ascend\w+)", text, 2, "chip")
    yield from _values("chip", rf"--target=(?P<chip>Ascend(?:{_ONE_CHIP}))\b", text, 4, "chip")
    # a program prints this line, and torch_npu uses the names of npu-smi
    yield from _values("chip", r"^[ \t-]*NPU type:[ ]*(?P<chip>Ascend910B)[ \t]*$", text, 3, "chip")
    label = r"(?:chip|npu(?: type| name)?|card|推理卡|芯片|device|型号)[ \t]*[:：=]?[ \t]*"
    yield from _values("chip", rf"{label}(?P<chip>{_CHIP})(?![\w-])", text, 3, "chip")
    # without a label only the name of a single chip counts: people mean the whole family by `910B`
    plain = rf"(?<![A-Za-z0-9_:/.=-])(?:Ascend[ -]?|NPU[ -]?)?(?P<chip>{_ONE_CHIP})(?![\w-])"
    yield from _values("chip", plain, text, 7, "chip")


READERS: tuple[Callable[[str, Words], Iterator[Claim]], ...] = (
    _packages, _headers, _npus, _vendor, _sentences, _commands, _mentions, _vendor_mentions, _images, _tags, _branches,
    _places, _chips,
)  # fmt: skip
