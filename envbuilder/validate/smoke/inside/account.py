"""Accounts for every file of an image, as JSON: where each comes from, and those that come from nowhere.

    python3 -I -S account.py JOB

Runs in a container of the base image, with the standard library only. The container sees the processes of one of the
image, and the files of that below /proc/1/root, so that no program of the image is asked about its own files.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from autorun import autorun
from installed import damaged, digest, distributions
from owners import BASE, Owner, Owners, Roots
from rules import follows
from suspects import capability

ROOT = "/proc/1/root"
# the engine mounts or makes these; the last three are of programs that run
_OF_THE_ENGINE = {"/.dockerenv", "/etc/hostname", "/etc/hosts", "/etc/mtab", "/etc/resolv.conf", "/run/.containerenv"}
_RUNNING = ("/proc", "/sys", "/dev")
# the most that is listed of each kind
_MOST = 1000


def main() -> None:
    job: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    if os.path.lexists(job["home"]):
        sys.exit("Error: the layers of the base image cannot be told from those above them")
    print(json.dumps(ImageFiles(ROOT, "", job).document()))


class ImageFiles:
    """The files of the image in `root`, and those of its base image in `base`."""

    def __init__(self, root: str, base: str, job: dict[str, Any]) -> None:
        self.root, self.base, self.job = root, base, job
        self.digests: dict[tuple[str, str], bytes | None] = {}
        self.files = dict(walk(root))
        self.same = {path for path, status in self.files.items() if self._is_same(path, status)}
        self.rest = {path: status for path, status in self.files.items() if path not in self.same}
        self.roots = Roots(root, base, self.files)
        self.owners = Owners(self.roots, job)

    def document(self) -> dict[str, Any]:
        origins = self._origins()
        lost = {path: self._reason(path) for path in sorted(self.rest.keys() - origins.keys())}
        kinds = Counter(origin.partition(": ")[0] for origin in origins.values())
        found = distributions([self.root + folder for folder in self.roots.sites])
        return {
            "files": len(self.files),
            "kinds": dict(sorted(kinds.items())),
            "lost": len(lost),
            "unaccounted": {shown(path): reason for path, reason in [*lost.items()][:_MOST]},
            "packages": damaged(found, self._known),
            "trees": {name: self._tree(name) for name in self.job["trees"]},
            "base": sorted(self.owners.base_packages),
            "runs": {
                kind: {shown(name): origins.get(path, "unaccounted") for name, path in [*named.items()][:_MOST]}
                for kind, named in autorun(self.root, self.files, self.roots).items()
            },
        }

    def _origins(self) -> dict[str, str]:
        """Return where the files come from that come from somewhere."""
        found = dict.fromkeys(self.same, BASE)
        table = {path: self.owners.table.get(path, ()) for path in self.rest}
        self._read((path, owner.algorithm) for path, owners in table.items() for owner in owners)
        for path, owners in table.items():
            known = (owner.origin for owner in owners if owner.algorithm and self._has(path, owner))
            if origin := next(known, None):
                found[path] = origin
        # what a rule looks at, such as the target of a link, is accounted for before the link
        for path in self.rest.keys() - found.keys():
            rules = [owner for owner in table[path] if owner.rule] + list(self.owners.by_rule(path))
            known = (owner.origin for owner in rules if follows(owner, path, self.files[path], self.roots, found))
            if origin := next(known, None):
                found[path] = origin
        return found

    def _has(self, path: str, owner: Owner) -> bool:
        content = self.digests.get((path, owner.algorithm))
        return content is not None and content == owner.digest

    def _is_same(self, path: str, status: os.stat_result) -> bool:
        """Return whether a file is that of the base image: the same one in the engine's store, or an equal one."""
        try:
            other = os.lstat(self.base + path)
        except OSError:
            return False
        if not all(
            getattr(status, name) == getattr(other, name) for name in ("st_mode", "st_uid", "st_gid", "st_size")
        ):
            return False
        # a layer above has its own file, with another number; the kernel sets the time of its change
        if (status.st_ino, status.st_ctime_ns) == (other.st_ino, other.st_ctime_ns):
            return True
        if stat.S_ISLNK(status.st_mode):
            return Path(self.root + path).readlink() == Path(self.base + path).readlink()
        pair = (self.root + path, self.base + path)
        return stat.S_ISREG(status.st_mode) and all(
            len({read(name) for name in pair}) == 1 for read in (capability, digest)
        )

    def _read(self, wanted: Iterable[tuple[str, str]]) -> None:
        """Read the digests of files, with several threads."""
        missing = [key for key in dict.fromkeys(wanted) if key[1] and key not in self.digests and self._is_file(key[0])]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            found = pool.map(lambda key: digest(self.root + key[0], key[1]), missing)
            self.digests.update(zip(missing, found, strict=True))

    def _is_file(self, path: str) -> bool:
        return path in self.files and stat.S_ISREG(self.files[path].st_mode)

    def _known(self, paths: Iterable[str]) -> dict[str, bytes | None]:
        """Return the SHA-256 of files below the root; a link has that of its target."""
        found = {path: self.roots.real(path[len(self.root) :]) for path in paths}
        self._read((path, "sha256") for path in found.values())
        return {path: self.digests.get((real, "sha256")) for path, real in found.items()}

    def _tree(self, name: str) -> dict[str, str]:
        top = f"{self.job['sources']}/{name}/"
        names = [path for path in self.files if path.startswith(top) and not self.owners.is_made_in_tree(path)]
        self._read((path, "sha256") for path in names)
        return {
            path[len(top) :]: (self.digests.get((path, "sha256")) or b"").hex() for path in names if self._is_file(path)
        }

    def _reason(self, path: str) -> str:
        if os.path.lexists(self.base + path):
            return "is changed: the base image has another one"
        owners = self.owners.table.get(path, ())
        if path.endswith(".pyc"):
            return "is not the byte code of the source beside it"
        if owners:
            return f"is changed: {owners[0].origin.replace(': ', ' ')} has another one"
        return "is added: it belongs to nothing"


def walk(root: str, folder: str = "") -> Iterator[tuple[str, os.stat_result]]:
    """Yield everything but folders, with its path in the image; other devices are mounts."""
    device = os.lstat(f"{root}/").st_dev
    with os.scandir(f"{root}{folder}/") as entries:
        for entry in entries:
            path, status = f"{folder}/{entry.name}", entry.stat(follow_symlinks=False)
            if path in _RUNNING or path in _OF_THE_ENGINE:
                continue
            if not stat.S_ISDIR(status.st_mode):
                yield path, status
            elif status.st_dev == device:
                yield from walk(root, path)


def shown(path: str) -> str:
    """Return a path without characters that a terminal obeys, and without those that are not Unicode."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in path)


if __name__ == "__main__":
    main()
