"""A project on an environment: locks what its file asks for, and gives environments with what the lock adds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from envbuilder import versions
from envbuilder.environment import Catalog, Environment, Filters
from envbuilder.environment.additions import Additions, OwnSource
from envbuilder.environment.cascade import Origin, ResolvedPin
from envbuilder.environment.packages import source_builds
from envbuilder.errors import MatrixError, NoMatchError, Where
from envbuilder.language import did_you_mean, tr
from envbuilder.lock.index import Index, uv_program
from envbuilder.project.file import ProjectFile, read_project
from envbuilder.project.lock_file import NAME, LockedEnvironment, ProjectLock, read_project_lock
from envbuilder.project.resolve import Wishes, additions_for, new_requirements
from envbuilder.project.trees import OwnTree, metadata_of, pack_tree, stated_requirements
from envbuilder.requirements import normalize

_LAYER = "project"


@dataclass(frozen=True)
class Project:
    """A project's file, and its lock if there is one."""

    wanted: ProjectFile
    # whether the project is to be locked anew, so that its lock counts no longer
    without_lock: bool = False

    @cached_property
    def lock(self) -> ProjectLock | None:
        return None if self.without_lock else read_project_lock(self.lock_path)

    @property
    def lock_path(self) -> Path:
        return self.wanted.folder / NAME

    def adopt(self, environment: Environment) -> Environment:
        """Return an environment with what the project's lock adds to it; a lock that does not fit is an error."""
        wanted, lock = self.wanted, self.fitting_lock(environment)
        moved, pins = _moved(environment, wanted, lock.environments[environment.id])
        additions = Additions(
            project=wanted.name,
            folder=wanted.folder,
            requirements=tuple(wish.text for wish in wanted.packages),
            packages=lock.environments[environment.id].packages,
            system_packages=wanted.system_packages,
            variables=wanted.variables,
            files=wanted.files,
            sources=wanted.sources,
            moved=moved,
            lock_digest=lock.digest,
        )
        return environment.changed(additions=additions, pins={**environment.pins, **pins})

    def fitting_lock(self, environment: Environment | None = None) -> ProjectLock:
        """Return the lock if it is of this file, and of the present lock of this row."""
        lock, where, again = self.lock, Where(str(self.lock_path)), tr("run: envbuilder lock")
        if lock is None:
            raise MatrixError.of(tr("the project is not locked"), Where(str(self.wanted.file)), again)
        if lock.of != self.wanted.digest:
            raise MatrixError.of(tr("it is older than {file}", file=self.wanted.file.name), where, again)
        for name, source in self.wanted.sources.items():
            if changed := _changed(lock.stated.get(name, {}), stated_requirements(source)):
                message = tr(
                    "{files} of {source} changed since, and may require something else", files=changed, source=name
                )
                raise MatrixError.of(message, where, again)
        if environment is None:
            return lock
        item = lock.environments.get(environment.id)
        if item is None:
            message = tr("it has nothing for {environment}", environment=environment.id)
            raise MatrixError.of(message, where, again)
        if environment.lock is None or item.row != environment.lock.digest:
            raise MatrixError.of(
                tr("the row {environment} was locked anew since", environment=environment.id), where, again
            )
        return lock

    def rows(self, catalog: Catalog) -> list[Environment]:
        """Return the environments of the lock; one that the matrices no longer have is an error."""
        found = []
        for name in self.lock.environments if self.lock else ():
            item = catalog.find(name)
            if item is None:
                known = [environment.id for environment in catalog.environments]
                raise NoMatchError(
                    tr("{file}: the matrices have no row {environment}", file=self.lock_path, environment=name),
                    hint=did_you_mean(name, known) + tr("`envbuilder upgrade` moves the project to another row"),
                )
            found.append(item)
        return found

    def filters(self, catalog: Catalog, given: Filters) -> Filters:
        """Return the dimensions of the project, over which those that a user gives come first.

        The lock decides the release: a newer default must not move the project.
        """
        wanted = self.wanted.filters
        merged = Filters(*(new or old for new, old in zip(given, wanted, strict=True)))
        rows = self.rows(catalog)
        if rows and merged.branch is None:
            where = rows[0].coordinates
            merged = merged._replace(
                framework=where.framework, branch=where.branch, engine=merged.engine or where.engine
            )
        return merged


def open_project(file: Path) -> Project | None:
    """Return the project of a settings file, or None if the file describes none. Nothing of the project is run."""
    wanted = read_project(file) if file.is_file() else None
    return Project(wanted) if wanted else None


# --- locking ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LockOptions:
    index: Index
    warn: Callable[[str], None]
    git_mirror: str | None = None
    may_change: tuple[str, ...] = ()
    # whether to keep the versions of the present lock
    kept: ProjectLock | None = None


def rows_to_lock(catalog: Catalog, chosen: Environment) -> list[Environment]:
    """Return the environments of a project: its hardware and the CPU, on every architecture that has a lock."""
    own = chosen.coordinates
    cpu_only = [name for name, hardware in catalog.hardware.items() if hardware.cpu_only]
    found = [
        item
        for hardware in dict.fromkeys((own.hardware, *cpu_only))
        for item in catalog.select((), Filters(own.framework, own.branch, own.engine, hardware))
        if item.lock is not None
    ]
    if chosen.id not in {item.id for item in found}:
        raise MatrixError.of(
            tr("{environment} has no lock, and a project stands on one", environment=chosen.id),
            chosen.where,
            tr("choose another row, or lock it: envbuilder lock {environment}", environment=chosen.id),
        )
    # the one that a user works with comes first, also in errors
    return sorted(found, key=lambda item: item.id != chosen.id)


def make_project_lock(wanted: ProjectFile, rows: list[Environment], options: LockOptions) -> ProjectLock:
    """Resolve what a project adds to each of these rows."""
    may_change = {normalize(name) for name in options.may_change}
    known = {normalize(item.name) for row in rows for item in (row.lock.packages if row.lock else ())}
    for name in sorted(may_change - known):
        raise NoMatchError(
            tr("no row of the project has a package '{name}', which could change", name=name),
            hint=did_you_mean(name, known) or None,
        )
    changing = frozenset(may_change | wanted.pins.keys())
    trees = {
        name: pack_tree(source, options.git_mirror, wanted.where("sources")) for name, source in wanted.sources.items()
    }
    metadata = {name: metadata_of(tree, options.index, wanted.where("sources")) for name, tree in trees.items()}
    for name, data in metadata.items():
        if other := other_release(rows[0], trees[name], data.version):
            options.warn(other)

    def locked(row: Environment) -> tuple[str, LockedEnvironment]:
        refuse_sources(row, wanted.sources, wanted.where("sources"))
        of_sources = tuple(
            item
            for name, data in metadata.items()
            for item in new_requirements(row, name, data.requires, changing, wanted.where("sources"))
        )
        pins = tuple(wanted.pinned())
        before = options.kept.environments.get(row.id) if options.kept else None
        kept = {item.name: item.version for item in before.packages} if before else {}
        packages = additions_for(row, Wishes((*wanted.packages, *pins), changing, of_sources, kept), options.index)
        assert row.lock is not None  # noqa: S101  only locked rows are asked for
        present = row.lock.versions
        new = tuple(item for item in packages if present.get(item.name) != item.version)
        return row.id, LockedEnvironment(row.lock.digest, new)

    # the search for uv is not thread-safe
    uv_program()
    with ThreadPoolExecutor() as pool:
        found = dict(pool.map(locked, rows))
    stated = {name: files for name, source in wanted.sources.items() if (files := stated_requirements(source))}
    return ProjectLock(wanted.digest, found, tuple(sorted(may_change)), stated)


def refuse_sources(row: Environment, sources: Mapping[str, OwnSource], where: Where) -> None:
    """Refuse sources in place of components whose source tree does not stay in the image."""
    kept = {spec.component for spec in source_builds(row)[0] if spec.keep_source}
    for name in sources:
        if name not in kept:
            raise MatrixError.of(
                tr("{environment} has no source tree of '{name}' to replace", environment=row.id, name=name),
                where,
                did_you_mean(name, kept) + tr("it has: {names}", names=", ".join(sorted(kept))),
            )


def other_release(environment: Environment, tree: OwnTree, version: str) -> str | None:
    """Return a warning if a project's source tree is of another release than the row's."""
    pin = environment.pins.get(tree.source.component)
    if pin is None or versions.key(version)[:1] == versions.key(pin.version)[:1]:
        return None
    fields = {"source": tree.source.shown, "version": version, "component": tree.source.component, "pin": pin.version}
    return tr("{source} is {component} {version}, and the row is made for {pin}", **fields)


def _changed(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    return ", ".join(sorted(name for name in {*before, *now} if before.get(name) != now.get(name)))


def _moved(
    environment: Environment, wanted: ProjectFile, locked: LockedEnvironment
) -> tuple[dict[str, ResolvedPin], dict[str, ResolvedPin]]:
    """Return the row's pins that the project's lock moves, and the new ones."""
    before, after = {}, {}
    for package in locked.packages:
        name = next(
            (name for name in environment.pins if normalize(environment.distribution(name)) == normalize(package.name)),
            None,
        )
        if name is None:
            continue
        pin, where = environment.pins[name], wanted.where(name if name in wanted.places else "pins")
        before[name] = pin
        origin = Origin(_LAYER, package.version, where)
        after[name] = ResolvedPin(
            name, package.version, str(wanted.file), (*pin.trail, origin), pin.documented, None, None
        )
    return before, after
