"""Imports the modules of the stack on a target, each in a process of its own."""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envbuilder.language import english
from envbuilder.matrix.model import GPU, NPU, Device
from envbuilder.progress import Progress
from envbuilder.validate.expected import Expected
from envbuilder.validate.follow import follow
from envbuilder.validate.report import Check
from envbuilder.validate.target import Target

TITLE = "imports"
_LIMIT = 30 * 60
# what most modules of a stack, and nearly all modules of a training run, import
_SHARED = ("torch", "torch._dynamo")
_SHARED_IN_RUN = (*_SHARED, "tensordict", "transformers.modeling_utils", "datasets", "ray")
# otherwise torch starts processes at once, as many as there are processors, which wait for something to compile
_VARIABLES = {"TORCHINDUCTOR_COMPILE_THREADS": "1"}
# a package need not have a module of its own name
_ADDED = """
from importlib import import_module, metadata
wanted = metadata.distribution({name!r}).metadata["Name"]
owned = sorted(name for name, owners in metadata.packages_distributions().items() if wanted in owners)
for name in owned:
    if name.isidentifier() and not name.startswith("_"):
        import_module(name)
"""


def import_modules(target: Target, wanted: Expected, device: Device, log: Path, progress: Progress) -> list[Check]:
    """Return a check for each module, and for the device that the engine finds."""
    checks: list[Check] = []

    def seen(line: str, _: str) -> None:
        if line.startswith('{"name"'):
            checks.append(_check(json.loads(line), wanted))
            progress.said(TITLE, checks[-1].name)

    in_run = {f"import {name}": f"import {', '.join(dict.fromkeys([*wanted.first, name]))}" for name in wanted.used}
    plain = {f"import {name}": f"import {name}" for name in wanted.modules if name not in wanted.used}
    plain |= {f"import {name} of the project": _ADDED.format(name=name) for name in wanted.added}
    plain |= {f"device of the engine {name}": _device(name, value) for name, value in wanted.devices.items()}
    groups = [
        {"codes": plain, "variables": {}, "shared": _SHARED},
        # with the variables of a training run modules for an accelerator can be imported on a CPU
        {"codes": in_run, "variables": wanted.run_variables, "shared": (*wanted.first, *_SHARED_IN_RUN)},
    ]
    if device in {NPU, GPU}:
        # a process that has opened a device must not be copied
        groups = [{**group, "shared": ()} for group in groups]
    ended = follow(target, "imports.py", {"groups": groups}, _VARIABLES, _LIMIT, log, seen)
    verdict = ended.verdict(english("import of the modules"))
    if not verdict.passed:
        checks.append(Check("import", verdict.name, "failed", verdict.message))
    return checks


def _device(expression: str, wanted: str) -> str:
    """Return code that fails where the engine finds another device.

    An engine that does not find its plugin takes another device, or none, and imports everything.
    """
    module, _, value = expression.partition(":")
    message = f"{expression} is {{found!r}}, and not {wanted!r}: the plugin of the engine is not found"
    return f"import sys, {module}; found = str({module}.{value}); found == {wanted!r} or sys.exit(f{message!r})"


def _check(answer: Mapping[str, Any], wanted: Expected) -> Check:
    name, code, errors, seconds = answer["name"], answer["code"], answer["errors"], answer["seconds"]
    if code == 0:
        return Check("import", name, "passed", seconds=seconds)
    for library, owner in wanted.libraries.items():
        if owner and library in errors:
            missing = english("needs {component}: {library} is missing", component=owner, library=library)
            return Check("import", name, "not-checked", missing, seconds)
    last = errors.splitlines()[-1] if errors else english("it printed nothing")
    if code < 0:
        last = english("it was killed by {signal}: {last}", signal=signal.Signals(-code).name, last=last)
    elif not errors:
        last = english("it ended with code {code}", code=code)
    return Check("import", name, "failed", last, seconds)
