"""envbuilder show"""

from __future__ import annotations

from envbuilder.check import check_environment
from envbuilder.cli import options
from envbuilder.cli.arguments import Dimensions, MatrixFolder, PinArguments, Talk
from envbuilder.cli.columns import padded
from envbuilder.cli.console import Console
from envbuilder.cli.json import details, document, reason, twin
from envbuilder.cli.markdown import address, environment_table
from envbuilder.environment import Catalog, Environment
from envbuilder.environment.additions import Additions
from envbuilder.environment.cascade import ResolvedList, ResolvedPin, ResolvedSetting, value_named
from envbuilder.environment.proof import PROVES
from envbuilder.environment.twins import differences, twin_of
from envbuilder.errors import UsageError
from envbuilder.language import counted, tr
from envbuilder.plan import Plan, make_plan
from envbuilder.plan.diff import added


@options.command("show")
@options.identifier
@options.dimensions
@options.pins
@options.option("--why", metavar="NAME", help="Show the reason, source and cascade of one value.")
@options.option("--markdown", is_flag=True, help="Print a table for an issue or a document.")
@options.as_json
@options.matrices
@options.talk
def command(
    identifier: str | None, dimensions: Dimensions, pins: PinArguments, why: str | None, markdown: bool,
    json_: bool, matrices: MatrixFolder, talk: Talk,
) -> None:  # fmt: skip
    """Show one resolved environment: pins, what the documents say, reasons, known issues, evidence.

    Without ID the defaults fill in what the dimension options leave open.
    """
    if markdown and (json_ or why is not None):
        raise UsageError(tr("--markdown prints a text of its own: leave out --json and --why"))
    console = talk.console
    catalog = matrices.catalog()
    environment = dimensions.environment(catalog, identifier, talk, pins.versions)
    if why is not None:
        value = value_named(environment, why)
        if json_:
            console.data(document(environment=environment.id, name=why, **reason(value)))
        else:
            _explain(console, value)
        return
    plan = make_plan(environment)
    if json_:
        console.data(document(environment={**details(environment, plan), "twin": twin(catalog, environment)}))
    elif markdown:
        console.out(environment_table(environment, plan))
    else:
        _print(console, environment, plan)
        _print_twin(console, catalog, environment)
        findings = check_environment(environment)
        errors, warnings = (
            counted(sum(item.severity == name for item in findings), name) for name in ("error", "warning")
        )
        again = " ".join((environment.id, *pins.words, *matrices.words))
        console.talk()
        console.talk(
            tr("{errors}, {warnings}: envbuilder check {again}", errors=errors, warnings=warnings, again=again)
        )


def _explain(console: Console, value: ResolvedPin | ResolvedSetting | ResolvedList) -> None:
    """Print a value, what the document contains, why they differ, and every place that sets it."""
    if not isinstance(value, ResolvedList):
        found = value.full if isinstance(value, ResolvedPin) else value.value
        documented = value.documented if isinstance(value, ResolvedPin) else None
        console.out(f"{console.style(value.name, 'title')}  {found}")
        for title, text in ((tr("documented"), documented), (tr("because"), value.because)):
            if text:
                console.entry(title, text, indent=2)
        console.entry(tr("source"), address(value.source) or value.source, indent=2)
    for step in value.trail:
        console.entry(tr("set by"), f"{step.layer}: {step.text}", indent=2)
        console.out(f"{'':14}{step.where}")


def _print_head(console: Console, environment: Environment, plan: Plan) -> None:
    arch = environment.coordinates.arch
    console.heading(environment.id)
    console.out(plan.title)
    machines = [item.title for item in environment.hardware.products.values() if arch in (item.arches or (arch,))]
    if machines:
        console.entry(tr("machines"), ", ".join(machines))
    console.entry(tr("base image"), plan.base_image)
    if least := environment.least_driver:
        console.entry(tr("driver"), tr("{version} or later", version=least.version))
        if least.source:
            console.wrapped(address(least.source) or least.source, 12)
    console.entry(tr("status"), environment.proven or tr("nothing recorded"))
    if environment.proven:
        console.wrapped(tr(PROVES[environment.proven]), 12)
    _print_runs(console, environment)


def _print_runs(console: Console, environment: Environment) -> None:
    for item in environment.evidence:
        known = {name: getattr(item, name) for name in item.record_types}
        run = tr("{level} on {date}, {machine}", **known)
        if item.fallback:
            run = tr("{run}, with {fallback} of the package index", run=run, fallback=item.fallback)
        if item.torch:
            run = tr("{run}, with torch {torch} in place of the row's", run=run, torch=item.torch)
        if item.steps is None and item.depth is not None:
            console.wrapped(tr("{run}: imports, no training", run=run), 12)
        elif item.depth is not None:
            steps = (
                tr("{steps} steps with {backend} at depth {depth}", **known)
                if item.backend
                else tr("{steps} steps at depth {depth}", **known)
            )
            each = tr("reward {reward}, {seconds_per_step} s each", **known)
            console.wrapped(tr("{run}: {steps}, {each}", run=run, steps=steps, each=each), 12)
        if item.error is not None:
            error = tr("{error} from a GPU in {steps} steps", **known)
            if item.throughput_ratio is not None:
                error = tr("{error}, {ratio} times as fast", error=error, ratio=item.throughput_ratio)
            console.wrapped(tr("{run}: {error}", run=run, error=error), 12)


def _print(console: Console, environment: Environment, plan: Plan) -> None:
    _print_head(console, environment, plan)
    if environment.additions is not None:
        _print_project(console, environment, environment.additions)
    console.section(tr("pins"))
    width = max(map(len, environment.pins))
    for pin in environment.pins.values():
        is_other = pin.documented and pin.documented.lower() != pin.full.lower()
        documented = "   " + tr("documented: {version}", version=pin.documented) if is_other else ""
        console.out(f"  {pin.name:<{width}}  {pin.full}{documented}")
        if pin.because:
            console.wrapped(tr("because {because}", because=pin.because), width + 4)
    if environment.variables:
        console.section(tr("variables"))
        for setting in environment.variables.values():
            console.out(f"  {setting.name}={setting.value}")
            if setting.because:
                console.wrapped(tr("because {because}", because=setting.because), 4)
    if plan.left_out:
        console.section(tr("left out"))
        for item in plan.left_out:
            console.out(f"  {item.title}")
            console.wrapped(tr(item.reason), 4)
    _print_notes(console, environment)


def _print_project(console: Console, environment: Environment, own: Additions) -> None:
    """Print what a project changes, and what of the row's evidence still holds."""
    console.section(tr("project {name}", name=own.project))
    for item in added(environment):
        values = [text for text in (item.before, item.after) if text and text != "yes"]
        console.out(f"  {padded(tr(item.section), 16)} {item.name}  {' -> '.join(values)}".rstrip())
    for name, pin in own.moved.items():
        console.out(f"  {padded(tr('pins'), 16)} {name}  {pin.full} -> {environment.pins[name].full}")
    if own.moved or own.sources:
        names = ", ".join((*own.moved, *own.sources))
        message = tr("the evidence of the row does not cover this project: {names} differ", names=names)
    else:
        message = tr(
            "the packages of the row are unchanged, so that its evidence holds for them; `build` proves the rest"
        )
    console.wrapped(message, 2)


def _print_twin(console: Console, catalog: Catalog, environment: Environment) -> None:
    """Print the environment whose runs are the reference of this one's, or the other way round."""
    other = twin_of(catalog, environment)
    if other is None:
        return
    found = differences(environment, other)
    console.section(tr("twin, to compare runs of an NPU and a GPU"))
    console.out(f"  {other.id}")
    for item in found:
        if item.is_of_both:
            console.out(f"  {padded(item.name, 24)} {item.here} {tr('here, {version} there', version=item.there)}")
    for title, names in (
        (tr("only here"), [f"{item.name} {item.here}" for item in found if item.there is None]),
        (tr("only there"), [f"{item.name} {item.there}" for item in found if item.here is None]),
    ):
        if names:
            console.wrapped(tr("{title}: {names}", title=title, names=", ".join(names)), 2)


def _print_notes(console: Console, environment: Environment) -> None:
    if environment.known_issues:
        console.section(tr("known issues"))
        for issue in environment.known_issues:
            console.wrapped(issue.what, 2)
            if issue.workaround:
                console.wrapped(tr("workaround: {workaround}", workaround=issue.workaround), 4)
            console.wrapped(issue.source, 4)
    support = environment.support
    if support.algorithms:
        console.section(tr("algorithms"))
        for item in support.algorithms:
            percent = item.error_percent
            error = tr("{percent} % from a GPU", percent=percent) if percent else tr("no figure published")
            console.out(f"  {item.name:<30} {padded(tr(item.status), 16)} {error}")
            if item.measured_on:
                versions = ", ".join(f"{name} {value}" for name, value in item.measured_on.items())
                console.wrapped(tr("measured on {versions}", versions=versions), 4)
    if support.unsupported_features or support.unsupported_packages:
        console.section(tr("not supported"))
        for name in support.unsupported_features:
            console.out(f"  {name}")
        for name, package in support.unsupported_packages.items():
            console.out(f"  {name}: {package.reason}")
