"""Collects a report of this machine, or of an image, in the form that users paste."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from envbuilder.docker.engine import Docker
from envbuilder.docker.failures import failure_of
from envbuilder.docker.which import program
from envbuilder.errors import HostError, NoMatchError
from envbuilder.language import tr
from envbuilder.machine.machine import Machine
from envbuilder.process import run

_SECONDS = 120
_FIRST_PYTHON = """
for python in python3 python; do
  command -v $python >/dev/null && break
done"""
# prints the packages of the first Python on the PATH, the architecture, variables, and the versions of CANN
_SCRIPT = f"""{_FIRST_PYTHON}
echo "Python version: $($python -c 'import platform; print(platform.python_version())')"
$python -m pip list --format=freeze --disable-pip-version-check 2>/dev/null || $python - <<'END'
from importlib.metadata import distributions
for item in distributions():
    print(f"{{item.metadata['Name']}}=={{item.version}}")
END
echo "Architecture: $(uname -m)"
env | grep -E '^(ASCEND|ATB|HCCL|LD_LIBRARY_PATH|PYTORCH_NPU|RAY_EXPERIMENTAL|VLLM)' || true
cd /usr/local/Ascend 2>/dev/null || exit 0
for file in */latest/*-linux/ascend_*_install.info cann*/*-linux/ascend_*_install.info; do
  [ -f "$file" ] && echo "cat $file" && cat "$file" && echo
done
true
"""
# prints why the package for the devices cannot be imported, if it is installed
_IMPORT = f"""
cd /{_FIRST_PYTHON}
$python -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("torch_npu") is None)' || exit 0
$python -c 'import torch, torch_npu' 2>&1 | tail -n 5
true
"""


def of_machine(machine: Machine) -> str:
    """Return what is installed on this machine, whether it can be imported, and the output of the vendor's tools."""
    parts = [_output(["bash", "-c", _SCRIPT]), _output(["bash", "-c", _IMPORT]), machine.npu_smi_output]
    for name, values in (("driver", machine.driver), ("firmware", machine.firmware)):
        if values:
            lines = "\n".join(f"{key}={value}" for key, value in values.items())
            parts.append(f"cat {name}/version.info\n{lines}\n")
    return "\n".join(parts)


def of_image(image: str, engine: Docker) -> str:
    """Return what is installed in an image, from a container without a network; nothing is imported or changed."""
    found = engine.image(image)
    if found is None:
        raise NoMatchError(tr("there is no image {image}", image=image), hint=f"docker pull {image}")
    command = [program(), "run", "--rm", "--network", "none", "--entrypoint", "bash", found.id, "-c", _SCRIPT]
    return f"image {image}\n" + _output(command)


def of_container(name: str) -> str:
    """Return the same report of a running container, without a change to it."""
    within = [program(), "exec", name, "bash", "-c"]
    npu_smi = "npu-smi info 2>&1 || true"
    return "\n".join(_output([*within, script]) for script in (_SCRIPT, _IMPORT, npu_smi))


def _output(command: Sequence[str]) -> str:
    if shutil.which(command[0]) is None:
        raise HostError(tr("the command {command} is not installed", command=command[0]))
    done = run(command, seconds=_SECONDS)
    if not done.ok:
        message = tr("{command} fails: {reason}", command=command[0], reason=done.error_text.strip()[-300:])
        raise failure_of(message, done.error_text.splitlines())
    return done.text
