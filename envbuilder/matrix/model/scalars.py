"""The types of single values in the matrices."""

from collections.abc import Mapping
from typing import Annotated, Literal, NamedTuple, TypeAlias


class Text(NamedTuple):
    """The pattern of a scalar. No pattern allows a control character, so no value can start a new line."""

    pattern: str
    what: str


Name: TypeAlias = Annotated[str, Text(r"[a-z0-9][a-z0-9._-]*", "a lower-case name")]
Version: TypeAlias = Annotated[str, Text(r"[A-Za-z0-9][A-Za-z0-9._+-]*", "a version")]
Family: TypeAlias = Annotated[str, Text(r"[A-Za-z0-9][A-Za-z0-9._+-]*", "a version, or a family such as 25.2.X")]
_CLAUSE = r"\s*(==|!=|~=|<=|>=|<|>)\s*[0-9A-Za-z][0-9A-Za-z.+_-]*(\.\*)?\s*"
Specifier: TypeAlias = Annotated[str, Text(rf"{_CLAUSE}(,{_CLAUSE})*", "a version condition such as '>=1.2,<2'")]
Commit: TypeAlias = Annotated[str, Text(r"[0-9a-f]{40}", "a full commit: 40 hexadecimal digits")]
ImageDigest: TypeAlias = Annotated[str, Text(r"sha256:[0-9a-f]{64}", "a digest: sha256: and 64 hexadecimal digits")]
Sha256: TypeAlias = Annotated[str, Text(r"[0-9a-f]{64}", "a SHA-256: 64 hexadecimal digits")]
Date: TypeAlias = Annotated[str, Text(r"\d{4}-\d{2}-\d{2}", "a date: YYYY-MM-DD")]
Url: TypeAlias = Annotated[str, Text(r"https?://[A-Za-z0-9][A-Za-z0-9._~:/?#@%&=+-]*", "an http(s) address")]
Variable: TypeAlias = Annotated[str, Text(r"[A-Za-z_][A-Za-z0-9_]*", "a name of an environment variable")]
Requirement: TypeAlias = Annotated[
    str,
    Text(
        r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9._, -]+\])?[^\x00-\x1f\x7f-\x9f\u2028\u2029]*",
        "a requirement such as 'ray>=2.41'",
    ),
]
Line: TypeAlias = Annotated[
    str, Text(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029]*", "one line of text without control characters")
]
Size: TypeAlias = Annotated[str, Text(r"[1-9]\d*[bkmg]?", "a size such as 512m or 16g")]
Number: TypeAlias = Annotated[str, Text(r"\d+(\.\d+)?", "a number")]
# text for readers: it is written to a terminal or a comment, never into a command
Prose: TypeAlias = str
StepValue: TypeAlias = Line | tuple[Line, ...] | Mapping[Variable, Line]

Arch: TypeAlias = Literal["aarch64", "x86_64"]
Severity: TypeAlias = Literal["error", "warning", "info"]
Level: TypeAlias = Literal["resolved", "built", "smoke-cpu", "rehearsed", "gpu", "smoke-npu", "compared"]
# the device of a training run
Device: TypeAlias = Literal["npu", "gpu", "cpu", "stand-in"]
NPU: Device = "npu"
CPU: Device = "cpu"
GPU: Device = "gpu"
# host memory and CPU kernels behind the interface of an NPU
STAND_IN: Device = "stand-in"
# how much of the environment a training run uses
Depth: TypeAlias = Literal["trainer", "engine"]

# marks a value that a person has to look up; `check` refuses it
TODO = "TODO"

# marks a field that the loader sets from the path of a file or the position in it
INJECTED = "injected"
