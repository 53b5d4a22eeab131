"""Small wheels: real ones for installers, and forged ones for attacks."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path


def small_wheel(
    folder: Path, name: str, version: str, code: str = "", tag: str = "py3-none-any", requires: Sequence[str] = ()
) -> Path:
    """Write a wheel with one module."""
    module, info = name.replace("-", "_"), f"{name.replace('-', '_')}-{version}.dist-info"
    file = folder / f"{module}-{version}-{tag}.whl"
    files = {
        f"{module}.py": code,
        f"{info}/METADATA": "".join(
            [
                f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
                *(f"Requires-Dist: {item}\n" for item in requires),
            ]
        ),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(file, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
        archive.writestr(f"{info}/RECORD", "".join(f"{path},,\n" for path in (*files, f"{info}/RECORD")))
    return file
