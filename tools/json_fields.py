"""Describes the JSON of the reading commands: every field with its type, from the output of examples."""

from __future__ import annotations

import io
import json
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any

from envbuilder.cli import cli
from envbuilder.errors import EnvbuilderError
from envbuilder.matrix.schema import KINDS

# a machine, a report and two trainings: the fields do not depend on the machine that writes the page
_FILES = {
    "npu-smi.txt": """\
+------------------------------------------------------------------------------------------------+
| npu-smi 25.5.0                   Version: 25.5.0                                               |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip  Phy-ID              | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     Ascend910           | OK            | 160.1       35                0    / 0             |
| 0     0                   | 0000:9D:00.0  | 0           0    / 0          3105 / 65536         |
+------------------------------------------------------------------------------------------------+
""",
    "report.txt": "torch==2.8.0\ntorch_npu==2.7.1\nCANN 8.3.RC1\n",
    "npu.log": "{'device': 'npu'}\n"
    + "\n".join(f"step:{n} - critic/rewards/mean:{n / 40} - perf/throughput:90.0" for n in range(1, 13)),
    "gpu.log": "{'device': 'cuda'}\n"
    + "\n".join(f"step:{n} - critic/rewards/mean:{n / 39} - perf/throughput:80.0" for n in range(1, 13)),
}
_COMMANDS = (
    "list --json",
    "show --hw a3 --json",
    "show --hw a3 --why torch_npu --json",
    "compat torch_npu 2.8.0 --json",
    "hardware --json",
    "diff verl-v0.7.1-vllm-a3-aarch64 verl-v0.8.0-vllm-a3-aarch64 --json",
    "check --hw a2 --json",
    "build --hw a3 --dry-run --json",
    "quickstart --hw a3 --json",
    "doctor --root . --npu-smi npu-smi.txt --json",
    "diagnose report.txt --json",
    "compare npu.log gpu.log --framework verl --json",
)
# objects whose keys are names of components, settings and the like
_MAPS = {"pins", "variables", "lists", "hardware", "products", "paired", "compatible", "excluded", "named_by", "facts"}
_MAPS |= {"documented", "unsupported_features", "unsupported_packages", "settings", "measured_on", "metrics"}
_MAPS |= {"stated_by"}
_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}


def json_page() -> str:
    parts = [
        "# JSON",
        "",
        "Reading commands take `--json`; builds and validations also write such a document with `--report FILE`. Its",
        "`schema_version` changes when a field is removed or changes its meaning, not when a field is added.",
        "",
        "`[]` is each item of a list, `{}` each value of an object with names as keys; types are those of the example.",
        "Identifiers, codes and JSON are the same in every language.",
    ]
    for words in _COMMANDS:
        parts += ["", f"## envbuilder {words.split()[0]}{' --why' if '--why' in words else ''}", "", "```"]
        parts += [f"envbuilder {words}", "```", "", "| field | type |", "| --- | --- |"]
        parts += [f"| `{path}` | {' or '.join(sorted(kinds))} |" for path, kinds in fields(_printed(words)).items()]
    parts += ["", "## Matrix files", "", "The matrices are YAML; each kind of file has a JSON Schema for editors:"]
    parts += [", ".join(f"[{kind}](schema/{kind}.json)" for kind in sorted(KINDS)) + ".", ""]
    return "\n".join(parts)


def fields(value: Any) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for path, kind in _walk("", value):
        found.setdefault(path, set()).add(kind)
    return found


def _walk(path: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, list):
        yield path, "list"
        for item in value:
            yield from _walk(f"{path}[]", item)
    elif isinstance(value, dict):
        if path:
            yield path, "object"
        is_map = path.rpartition(".")[2] in _MAPS
        for key, item in value.items():
            yield from _walk(f"{path}{{}}" if is_map else f"{path}.{key}".lstrip("."), item)
    else:
        yield path, _TYPES[type(value)]


def _printed(words: str) -> Any:
    out = io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        for name, text in _FILES.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        # a verdict may end the command with an exit code
        with redirect_stdout(out), redirect_stderr(io.StringIO()), suppress(EnvbuilderError, SystemExit):
            given = [f"{folder}/{word}" if word in {*_FILES, "."} else word for word in shlex.split(words)]
            cli.main(given, prog_name="envbuilder", standalone_mode=False)
    return json.loads(out.getvalue())
