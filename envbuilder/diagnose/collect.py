"""A report of this machine, or of an image, in the words that people paste."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from envbuilder.docker.engine import Docker
from envbuilder.doctor.machine import Machine
from envbuilder.errors import EnvbuilderError, NoMatchError
from envbuilder.process import ProgramError, run

_SECONDS = 120
# packages as pip lists them, of whatever Python is the first; where CANN is; what the system is
_SCRIPT = """
for python in python3 python; do
  command -v $python >/dev/null && break
done
echo "Python version: $($python -c 'import platform; print(platform.python_version())')"
$python -m pip list --format=freeze --disable-pip-version-check 2>/dev/null || $python - <<'END'
from importlib.metadata import distributions
for item in distributions():
    print(f"{item.metadata['Name']}=={item.version}")
END
echo "Architecture: $(uname -m)"
cd /usr/local/Ascend 2>/dev/null || exit 0
for file in */latest/*-linux/ascend_*_install.info cann*/*-linux/ascend_*_install.info; do
  [ -f "$file" ] && echo "cat $file" && cat "$file" && echo
done
true
"""


def of_machine(machine: Machine) -> str:
    """What is installed here and what the vendor's tools say."""
    parts = [_output(["bash", "-c", _SCRIPT]), machine.npu_smi_output]
    for name, values in (("driver", machine.driver), ("firmware", machine.firmware)):
        if values:
            lines = "\n".join(f"{key}={value}" for key, value in values.items())
            parts.append(f"cat {name}/version.info\n{lines}\n")
    return "\n".join(parts)


def of_image(image: str, engine: Docker) -> str:
    """By a container of it, without a network; nothing in it is imported or changed."""
    found = engine.image(image)
    if found is None:
        raise NoMatchError(f"there is no image {image}", hint="docker pull gets it")
    command = ["docker", "run", "--rm", "--network", "none", "--entrypoint", "bash", found.id, "-c", _SCRIPT]
    return f"image {image}\n" + _output(command)


def _output(command: Sequence[str]) -> str:
    if shutil.which(command[0]) is None:
        raise EnvbuilderError(f"the command {command[0]} is not installed")
    try:
        done = run(command, seconds=_SECONDS)
    except ProgramError as error:
        raise EnvbuilderError(f"{command[0]} does not end: {' '.join(command[:3])}") from error
    if not done.ok:
        raise EnvbuilderError(f"{command[0]} fails: {done.error_text.strip()[-300:]}")
    return done.text
