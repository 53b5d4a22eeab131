"""envbuilder list"""

from __future__ import annotations

from typing import TYPE_CHECKING

from envbuilder.cli import options
from envbuilder.cli.arguments import Dimensions, MatrixFolder, Talk
from envbuilder.environment.driver import DRIVER
from envbuilder.environment.select import select
from envbuilder.errors import NoMatchError, UsageError
from envbuilder.language import counted, tr

if TYPE_CHECKING:
    from envbuilder.cli.console import Console
    from envbuilder.environment import Catalog, Environment
    from envbuilder.matrix.model import Component

# a longer table has one line for each release
_SCREEN = 30


@options.command("list")
@options.identifiers
@options.filters
@options.option(
    "--with", "with_", multiple=True, metavar="NAME=VERSION",
    help="Only with this version of a component, or of its series: torch_npu=2.8; driver=25.2: only what it runs.",
)  # fmt: skip
@options.option("--proof", is_flag=True, help="Show how each was proven, when and where, or why it is not proven.")
@options.as_json
@options.matrices
@options.talk
def command(
    identifiers: tuple[str, ...], dimensions: Dimensions, with_: tuple[str, ...], proof: bool, json_: bool,
    matrices: MatrixFolder, talk: Talk,
) -> None:  # fmt: skip
    """List environments, filtered by identifiers, globs or dimensions.

    A terminal shows a table, with one line for each release if there are many; a pipe gets one identifier per line.
    """
    console = talk.console
    in_pipe = not (json_ or proof or console.is_terminal)
    if in_pipe and not with_:
        # identifiers are known without resolving the environments
        for item in select(matrices.load(), identifiers, dimensions.filters):
            console.out(item.id)
        return
    catalog = matrices.catalog()
    found = catalog.select(identifiers, dimensions.filters)
    for text in with_:
        found = _having(catalog, found, text)
    if in_pipe:
        for environment in found:
            console.out(environment.id)
        return
    if json_:
        from envbuilder.cli.json import document, summary

        console.data(document(environments=[summary(item) for item in found]))
        return
    if proof:
        _show_proof(console, found)
        return
    engine, plugin = tr("ENGINE"), tr("PLUGIN")
    if len(found) <= _SCREEN:
        header = (tr("ENVIRONMENT"), "PYTHON", "CANN", tr("DRIVER"), "TORCH_NPU", engine, plugin, tr("STATUS"))
        console.table(header, [_row(item) for item in found], spare=("PYTHON", plugin, engine))
        environments = counted(len(found), "environment")
        console.talk(tr("{environments}; `envbuilder show ID` shows more", environments=environments))
        return
    hardware = sorted({item.coordinates.hardware for item in found})
    rows = _folded(found, hardware)
    folded = (tr("RELEASE"), "CANN", tr("DRIVER"), engine, plugin, *map(str.upper, hardware))
    console.table(folded, rows, spare=(plugin, engine))
    fields = {"number": len(found), "hardware": hardware[0]}
    console.talk(tr("{number} environments; `envbuilder list --hw {hardware}` lists them one by one", **fields))


def _show_proof(console: Console, environments: list[Environment]) -> None:
    """Print how each environment was proven, and why proofs failed."""
    rows = []
    reasons: dict[str, list[str]] = {}
    for item in environments:
        best = item.proof
        how = (best.level, best.depth or "-", best.date, best.machine) if best else ("-",) * 4
        rows.append((item.id, *how))
        if reason := item.failure.cause if item.failure else item.unresolved:
            reasons.setdefault(reason, []).append(item.id)
    header = (tr("ENVIRONMENT"), tr("STATUS"), tr("DEPTH"), tr("DATE"), tr("PROVEN ON"))
    console.table(header, rows)
    if reasons:
        console.section(tr("not proven"))
    for reason, names in reasons.items():
        console.wrapped(tr("{reason}: {names}", reason=reason, names=", ".join(names)), 2, "")


def _having(catalog: Catalog, environments: list[Environment], text: str) -> list[Environment]:
    """Return the environments with a version of a component; if there are none, the error names their versions."""
    from envbuilder import versions
    from envbuilder.environment.partners import component_named, is_of

    name, equals, wanted = text.partition("=")
    if not (name and equals and wanted):
        raise UsageError(tr("--with takes NAME=VERSION, not '{text}'", text=text))
    component = component_named(catalog, name)
    if component.name == DRIVER:
        return _running_with(component, environments, wanted.lstrip("="))
    pinned = [(item, version) for item in environments if (version := item.version(component.name))]
    found = [item for item, version in pinned if is_of(version, wanted.lstrip("="))]
    if not found:
        known = ", ".join(sorted({version for _, version in pinned}, key=versions.key)) or tr("none")
        fields = {"versions": known, "name": component.name, "wanted": wanted}
        raise NoMatchError(
            tr("no environment has {component} {wanted}", component=component.title, wanted=wanted),
            hint=tr("they have: {versions}; `envbuilder compat {name} {wanted}` shows what goes with it", **fields),
        )
    return found


def _running_with(driver: Component, environments: list[Environment], wanted: str) -> list[Environment]:
    """Return the environments that run with a driver, or with one of a series."""
    from envbuilder.environment.partners import is_of
    from envbuilder.machine.fit import runs_with

    series = [item.version for item in driver.releases if is_of(item.version, wanted)] or [wanted]
    found = [item for item in environments if any(runs_with(item, version) for version in series)]
    if not found:
        raise NoMatchError(
            tr("no environment runs with driver {version}", version=wanted),
            hint=tr("`envbuilder list` shows the least driver of each"),
        )
    return found


def _folded(found: list[Environment], hardware: list[str]) -> list[tuple[str, ...]]:
    """Return one line for each release with an engine, with the highest status of each hardware."""
    from envbuilder.environment.proof import height

    groups: dict[tuple[str, str, str], list[Environment]] = {}
    for item in found:
        groups.setdefault(item.coordinates[:3], []).append(item)
    rows = []
    for release, members in groups.items():
        # of hardware with a toolkit, as no CPU environment has one
        _, _, cann, driver, _, *engine, _ = _row(max(members, key=lambda item: item.least_driver is not None))
        # for each hardware the last one stays, which has the highest status
        ordered = sorted(members, key=lambda item: height(item.proven))
        best = {item.coordinates.hardware: item.proven or "-" for item in ordered}
        rows.append(("-".join(release), cann, driver, *engine, *(best.get(name, "") for name in hardware)))
    return rows


def _row(environment: Environment) -> tuple[str, ...]:
    def version(name: str) -> str:
        return environment.version(name) or "-"

    engine = environment.engine
    return (
        environment.id,
        version("python"),
        version("cann") if "cann" in environment.hardware.provides else "-",
        f">={least.version}" if (least := environment.least_driver) else "-",
        version("torch_npu"),
        version(engine.engine),
        version(engine.plugin),
        environment.proven or "-",
    )
