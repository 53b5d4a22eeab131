"""Measures what a CPU environment on x86_64 downloads, as a ratio to the same with torch of the package index.

    python -m benchmarks.size [ENVIRONMENT]

The indexes report the sizes. A file of an index that cannot be reached is printed and counts as 0 bytes.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import requests

from envbuilder.environment import Catalog, Environment
from envbuilder.errors import NetworkError
from envbuilder.http import Session
from envbuilder.lock.index import Index, default_index
from envbuilder.matrix import load

ROW = "verl-v0.6.0-sglang-cpu-x86_64"
LIMIT = 1 / 3


def sizes(environment: Environment, index: Index) -> dict[str, int | None]:
    """Return the size of the file of each locked package; None if its index does not answer."""
    lock, packages = environment.lock, environment.packages
    assert lock is not None
    indexes = {name: index.beside(url) for name, url in packages.indexes.items()}

    def size(name: str, hashes: tuple[str, ...]) -> int | None:
        try:
            files = [file for file in indexes.get(name, index).files(name) if file.sha256 in hashes]
            fitting = [file for file in files if file.fits(packages.python, packages.arch)]
            with Session(index.ca_bundle, netrc=True) as session:
                answer = session.head((fitting or files)[0].url, timeout=30, allow_redirects=True)
            return int(answer.headers["Content-Length"])
        except (NetworkError, requests.RequestException):
            return None

    with ThreadPoolExecutor(8) as pool:
        found = pool.map(lambda item: size(item.name, item.hashes), lock.packages)
        return dict(zip((item.name for item in lock.packages), found, strict=True))


def main(identifier: str = ROW) -> int:
    environment = Catalog(load(everything=True)).find(identifier)
    assert environment is not None, identifier
    assert environment.has_fallback, identifier
    index = Index(default_index())
    now, before = (sizes(item, index) for item in (environment, environment.from_package_index()))
    totals = [sum(size or 0 for size in found.values()) for found in (now, before)]
    ratio = totals[0] / totals[1]
    print(f"{identifier}: {len(now)} packages, {len(before)} with torch of the package index")
    for name in (name for name, size in now.items() if size is None):
        print(f"without {name} {environment.pins[name].full}, whose index cannot be reached")
    print(f"download / with torch of the package index {ratio:5.2f}   (limit {LIMIT:.2f})")
    return int(ratio > LIMIT)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
