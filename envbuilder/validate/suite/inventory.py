"""Prints the packages of the Python that runs it, as JSON, using only the standard library."""

from __future__ import annotations

import json
import re
import sys
import sysconfig
from importlib import metadata
from pathlib import Path


def damaged(distribution: metadata.Distribution) -> dict[str, str]:
    """Return the files of a distribution that are missing or have another size than its RECORD lists."""
    found = {}
    for file in distribution.files or []:
        path = Path(str(distribution.locate_file(file)))
        if path.suffix == ".pyc" or file.size is None:
            continue
        try:
            size = path.stat().st_size
        except OSError:
            found[str(file)] = "missing"
        else:
            if size != file.size:
                found[str(file)] = "overwritten"
    return found


def main() -> None:
    packages: dict[str, dict[str, object]] = {}
    for distribution in metadata.distributions():
        name = re.sub(r"[-_.]+", "-", distribution.metadata["Name"]).lower()
        # the first on the path is the one that is imported
        if name not in packages:
            packages[name] = {"version": distribution.version, "damaged": damaged(distribution)}
    python = ".".join(map(str, sys.version_info[:3]))
    print(json.dumps({"python": python, "site": sysconfig.get_path("platlib"), "packages": packages}))  # noqa: T201


main()
