"""How many pins of the rows `matrix draft` derives from upstream's files: a table, for a folder of mirrors.

    ENVBUILDER_GIT_MIRROR=/mirrors .venv/bin/python -m benchmarks.draft [FRAMEWORK-BRANCH ...]

"clean" is a pin that a source states and none contradicts. Only pins that the row itself has are counted.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator

from envbuilder import paths
from envbuilder.environment import Catalog, Environment
from envbuilder.errors import EnvbuilderError
from envbuilder.lock.index import Index, cache_folder
from envbuilder.lock.uploads import IndexUploads
from envbuilder.matrix import load
from envbuilder.upstream.audit import ComparedPin, compare, differing
from envbuilder.upstream.draft import Sources, draft
from envbuilder.upstream.readers import RowTarget

_HEADER = "| row | pins | equal | clean | clean and equal | documented found | seconds |\n|---|---|---|---|---|---|---|"


def rows(catalog: Catalog, wanted: list[str]) -> Iterator[tuple[Environment, RowTarget]]:
    """Yield one environment of each row and engine, of its first hardware with NPUs."""
    seen = set()
    for item in catalog.environments:
        row = item.branch.framework, item.branch.name, item.engine.name
        named = not wanted or f"{row[0]}-{row[1]}" in wanted
        drafted = item.engine.reads and catalog.frameworks[row[0]].reads and not item.hardware.cpu_only
        if named and drafted and row not in seen:
            seen.add(row)
            yield item, RowTarget(*row, item.hardware.family)


def counts(pins: Iterable[ComparedPin]) -> list[int]:
    """Return the numbers of pins, equal, clean, clean and equal, documented and found, documented."""
    listed = list(pins)
    clean = [pin for pin in listed if pin.drafted.clean]
    documented = [pin.documented_found for pin in listed if pin.documented_found is not None]
    equal = sum(pin.equal for pin in listed)
    return [len(listed), equal, len(clean), sum(pin.equal for pin in clean), sum(documented), len(documented)]


def line(name: str, numbers: list[int], seconds: float) -> str:
    pins, equal, clean, right, found, documented = numbers
    return f"| {name} | {pins} | {equal} | {clean} | {right} | {found}/{documented} | {seconds:.1f} |"


def main() -> None:
    mirror = os.environ.get("ENVBUILDER_GIT_MIRROR")
    if not mirror:
        sys.exit("ENVBUILDER_GIT_MIRROR names no folder of bare repositories")
    matrix = load(everything=True)
    sources = Sources(IndexUploads(Index(None, cache=cache_folder())), mirror, paths.cache_folder() / "repositories")
    total, spent, different = [0] * 6, 0.0, []
    print(_HEADER)
    for environment, target in rows(Catalog(matrix), sys.argv[1:]):
        started = time.monotonic()
        name = f"{target.framework} {target.branch} {target.engine} {target.family}"
        try:
            pins = compare(environment, draft(matrix, target, sources, {}))
        except EnvbuilderError as error:
            print(f"| {name} | {error.message} |")
            continue
        seconds = time.monotonic() - started
        numbers = counts(pins)
        total, spent = [a + b for a, b in zip(total, numbers, strict=True)], spent + seconds
        print(line(name, numbers, seconds), flush=True)
        different += [(name, pin) for pin in differing(pins)]
    print(line("all", total, spent))
    print("\n| row | pin | row has | draft | documented |\n|---|---|---|---|---|")
    for name, pin in different:
        status = "clean" if pin.drafted.clean else pin.drafted.status
        missing = "not found: " + str(pin.documented) if pin.documented_found is False else ""
        absent = f"absent: {pin.absent}" if pin.absent else ""
        print(f"| {name} | {pin.component} | {pin.pinned} | {pin.drafted.version} {status} | {missing} {absent} |")


if __name__ == "__main__":
    main()
