"""Looks up which wheels exist for an environment, in the index of each package."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

from envbuilder.environment import Environment
from envbuilder.errors import NetworkError
from envbuilder.language import tr
from envbuilder.lock.index import Index, cache_folder
from envbuilder.matrix.model import Severity

_THREADS = 8


class OnlineWheels:
    """The wheels on package indexes, for the rule wheel-missing.

    The main index must answer. If another index does not, its packages are reported as not checked.
    """

    def __init__(self, index: Index) -> None:
        self.index = index
        self._others: dict[str, Index] = {}
        # why an index cannot be reached, by its URL
        self._unreachable: dict[str, str] = {}

    def fetch(self, environments: Iterable[Environment]) -> None:
        """Read the pages of all pins in parallel, so that `judge` does not wait for them."""
        wanted = {
            environment.distribution(name)
            for environment in environments
            for name in environment.pins
            if environment.is_wheel(name) and name not in environment.indexes
        }
        with ThreadPoolExecutor(_THREADS) as pool:
            # the list raises the first error
            list(pool.map(self.index.files, wanted))

    def judge(self, url: str | None, name: str, version: str, python: str, arch: str) -> Iterator[tuple[Severity, str]]:
        if url is None:
            yield from self.index.judge(name, version, python, arch)
            return
        if url not in self._others:
            self._others[url] = Index(url, ca_bundle=self.index.ca_bundle, cache=cache_folder(), back_off=0.1)
        if url not in self._unreachable:
            try:
                yield from self._others[url].judge(name, version, python, arch)
                return
            except NetworkError as error:
                # an index that failed once is not tried again for every package
                self._unreachable[url] = error.message
        yield "info", tr("not checked: {reason}", reason=self._unreachable[url])
