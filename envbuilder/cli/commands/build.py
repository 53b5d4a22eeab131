"""envbuilder build"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from envbuilder import paths
from envbuilder.check import refuse_errors
from envbuilder.cli import options
from envbuilder.cli.arguments import (
    DeviceArguments,
    Dimensions,
    IndexArguments,
    MatrixFolder,
    ProofFiles,
    ReachArguments,
    SourceArguments,
    Talk,
    bundled_environment,
    warn_unlocked,
)
from envbuilder.cli.console import Console
from envbuilder.cli.json import document
from envbuilder.cli.project_argument import project_here
from envbuilder.cli.rehearsal import for_this_machine
from envbuilder.cli.report import show_report
from envbuilder.environment import Catalog, Environment
from envbuilder.environment.coordinates import USUAL_REGISTRY
from envbuilder.environment.image_names import REHEARSAL
from envbuilder.errors import HostError, NetworkError, NoMatchError, UsageError
from envbuilder.files import write_text
from envbuilder.language import tr
from envbuilder.machine.choice import refuse_unfit
from envbuilder.matrix import evidence
from envbuilder.platforms import PLATFORMS

if TYPE_CHECKING:
    from envbuilder.build.deliver import Delivered
    from envbuilder.build.options import BuildOptions
    from envbuilder.docker.engine import Docker
    from envbuilder.progress import Progress
    from envbuilder.validate import ValidationLevel


@options.command("build")
@options.identifiers
@options.dimensions
@options.option(
    "--rehearse", is_flag=True,
    help="Build on a stand-in of CANN, without kernels, where CANN's images are out of reach.",
)  # fmt: skip
@options.setting(
    "--for-another-machine", is_flag=True,
    help="Build for another machine than this one, whose driver does not matter then.",
)  # fmt: skip
@options.option("--dry-run", is_flag=True, help="Check, and print what would be done; needs no engine.")
@options.sources
@options.registry
@options.pip_index
@options.reach
@options.offline
@options.bundle_keys
@options.option("--platform", type=click.Choice([*PLATFORMS.values()]), help="The same as --arch, by docker's name.")
@options.option("--no-cache", is_flag=True, help="Build every layer and every wheel anew.")
@options.wheel_cache
@options.option(
    "--jobs", type=click.IntRange(1, 256),
    help="Number of compilers at once, for builds that read MAX_JOBS; scripts that build NPU kernels may not.",
)  # fmt: skip
@options.option("--no-validate", is_flag=True, help="Name the image without proving it.")
@options.devices
@options.option("--push", is_flag=True, help="Push the image to the registry that its name begins with.")
@options.sign_key
@options.option("--record", is_flag=True, help="Record the build in the evidence of the row.")
@options.option(
    "--report", type=options.OUTPUT_FILE, help="Write a JSON report, or with --dry-run the plan, to this file."
)
@options.proof_files
@options.as_json
@options.index
@options.matrices
@options.talk
def command(
    identifiers: tuple[str, ...], dimensions: Dimensions, rehearse: bool, for_another_machine: bool, dry_run: bool,
    sources: SourceArguments, registry: str, pip_index: str | None, reach: ReachArguments, offline: Path | None,
    verify_keys: tuple[str, ...], platform: str | None, no_cache: bool, wheel_cache: Path | None, jobs: int | None,
    no_validate: bool, devices: DeviceArguments, push: bool, sign_key: Path | None, record: bool, report: Path | None,
    proof_files: ProofFiles, json_: bool, index: IndexArguments, matrices: MatrixFolder, talk: Talk,
) -> None:  # fmt: skip
    """Build an image of an environment from its lock and its sources, and prove it.

    Without --arch, --rehearse takes the architecture of this machine; a product that does not exist with it is
    rehearsed as its family. An image for another architecture is proven to level import if an emulator is registered,
    and not at all otherwise.
    """
    console, catalog = talk.console, matrices.catalog(everything=True)
    if offline is not None:
        named = _of_bundle(identifiers, offline)
        # the bundle of a project names its row
        identifiers = named if identifiers or project_here() is None else ()
    dimensions = _of_platform(dimensions, platform)
    if rehearse and not identifiers:
        dimensions = for_this_machine(catalog, dimensions, console)
    chosen = _chosen(catalog, identifiers, dimensions, talk, any_driver=rehearse or for_another_machine)
    environments = [item.rehearsed() if rehearse else item for item in chosen]
    files = proof_files.by_form
    _refuse(len(environments) if files else 0, push=push, rehearse=rehearse, no_validate=no_validate)
    for environment in environments:
        for finding in refuse_errors(environment):
            console.warn(finding.code, finding.message, finding.hint)
    warn_unlocked(talk.console, environments)
    from envbuilder.build.options import BuildOptions
    from envbuilder.cli.passwords import private_key, trusted_for_bundles
    from envbuilder.inputs.kept_wheels import WheelCache

    how = BuildOptions(
        sources=sources.options(index) if offline is None else None,
        network=reach.network(index.ca_bundle, pip_index),
        wheels=WheelCache(wheel_cache or paths.cache_folder() / "wheels"),
        base=reach.base(),
        offline=offline,
        keys=trusted_for_bundles(verify_keys, offline),
        no_cache=no_cache,
        jobs=jobs,
    )
    if dry_run:
        _dry_run(console, environments, how, registry, report, json_=json_)
        return
    from envbuilder.build.deliver import DeliveryOptions, deliver
    from envbuilder.cli.progress import shown
    from envbuilder.docker.engine import Docker

    key = private_key(sign_key) if push and sign_key else None
    docker = Docker()
    if files:
        _refuse_unprovable(environments, docker)
    results = []
    for environment in environments:
        # an emulated training takes an hour or more, and an image that is not emulated does not run here
        arch = environment.coordinates.arch
        level: ValidationLevel = "train" if arch == docker.arch else "import"
        validation = devices.validation(environment, level) if docker.runs(arch) and not no_validate else None
        console.talk(tr("building {environment}", environment=environment.id))
        with shown(console) as progress:
            delivered = deliver(
                environment,
                DeliveryOptions(
                    registry, push, validation, files, key, _puller(catalog, registry, index, verify_keys, progress)
                ),
                how,
                docker,
                progress,
            )
        results.append(delivered)
        _summary(console, delivered, json_=json_)
        if record:
            _record(delivered, environment, matrices)
        # after each build, so that a later failure does not lose the report
        _write(report, document(builds=[item.report() for item in results]))
    if json_:
        console.data(document(builds=[item.report() for item in results]))


def _puller(
    catalog: Catalog, registry: str, index: IndexArguments, keys: tuple[str, ...], progress: Progress
) -> Callable[[Environment], str | None]:
    """Return what pulls the image of a project's row from the registry that the names of images begin with."""
    from envbuilder.cli.passwords import trusted
    from envbuilder.registry.pull import RegistryOptions, pull

    def pulled(row: Environment) -> str | None:
        if registry == USUAL_REGISTRY or row.on_stand_in:
            return None
        place = RegistryOptions(registry, (), index.ca_bundle, trusted(keys))
        try:
            return pull(row, catalog, place, progress, upstream=False, save=None).name
        except (NoMatchError, NetworkError) as error:
            progress.say(error.message)
            return None

    return pulled


def _refuse(wanted_proofs: int, *, push: bool, rehearse: bool, no_validate: bool) -> None:
    """Refuse options that contradict each other; `wanted_proofs` is of how many environments a file has the proof."""
    if rehearse and push:
        raise UsageError(tr("a rehearsal cannot be pushed"), hint=tr("leave out --push or --rehearse"))
    if not push and options.is_typed("sign_key"):
        raise UsageError(tr("--sign-key signs what is pushed"), hint=tr("add --push, or leave out --sign-key"))
    if wanted_proofs > 1:
        raise UsageError(
            tr("--junit and --html have the proof of one environment"), hint=tr("build them one at a time")
        )
    if wanted_proofs and no_validate:
        raise UsageError(
            tr("--junit and --html write the result of the proof, which --no-validate leaves out"),
            hint=tr("leave out --no-validate"),
        )


def _dry_run(
    console: Console, environments: Sequence[Environment], how: BuildOptions, registry: str, report: Path | None,
    *, json_: bool,
) -> None:  # fmt: skip
    """Print what builds would do, and raise the first error that one of them would end with."""
    from envbuilder.cli.build_plan import plan_data, planned, show_plan

    plans = [planned(item, how, console.talk) for item in environments]
    found = document(plans=[plan_data(item, registry) for item in plans])
    _write(report, found)
    if json_:
        console.data(found)
    else:
        for item in plans:
            show_plan(console, item, registry)
    for item in plans:
        if item.foreseen.error is not None:
            raise item.foreseen.error


def _refuse_unprovable(environments: Sequence[Environment], docker: Docker) -> None:
    """Refuse to build for an architecture that the engine does not run, so that nothing could be proven."""
    for arch in sorted({item.coordinates.arch for item in environments}):
        if not docker.runs(arch):
            raise HostError(
                tr("an image for {arch} cannot be proven here: {arch} is not emulated", arch=arch),
                hint=tr("leave out --junit and --html, or use a machine with {arch}", arch=arch),
            )


def _write(report: Path | None, found: dict[str, Any]) -> None:
    if report is not None:
        write_text(report, json.dumps(found, indent=2) + "\n")


def _of_bundle(identifiers: tuple[str, ...], offline: Path) -> tuple[str, ...]:
    if len(identifiers) > 1:
        raise UsageError(tr("a bundle holds one environment"), hint=tr("build them one at a time"))
    identifier = bundled_environment(next(iter(identifiers), None), offline)
    return (identifier,) if identifier else ()


def _of_platform(dimensions: Dimensions, platform: str | None) -> Dimensions:
    arch = {platform: arch for arch, platform in PLATFORMS.items()}.get(platform or "", dimensions.arch)
    if dimensions.arch not in {None, arch}:
        raise UsageError(
            tr("--arch {arch} and --platform {platform} contradict each other", arch=dimensions.arch, platform=platform)
        )
    return Dimensions(**{**dimensions.__dict__, "arch": arch})


def _chosen(
    catalog: Catalog, identifiers: tuple[str, ...], dimensions: Dimensions, talk: Talk, *, any_driver: bool
) -> list[Environment]:
    """Return the environments to build; one that the driver of the machine cannot run is an error."""
    machine = dimensions.look()
    if machine is not None and any_driver:
        machine = machine.without_driver()
    if identifiers:
        chosen = catalog.select(identifiers, dimensions.filters)
    elif (project := project_here()) is not None:
        chosen = [dimensions.of_project(project, catalog, talk, machine)]
    else:
        chosen = [dimensions.choose(catalog, talk, machine).environment]
    if machine is not None:
        for environment in chosen:
            refuse_unfit(catalog, environment, machine)
    return chosen


def _record(delivered: Delivered, environment: Environment, matrices: MatrixFolder) -> None:
    from envbuilder.docker.emulation import processor
    from envbuilder.validate.proof import record_proof

    machine = f"{processor(environment.coordinates.arch)}, no NPU"
    details = {"seconds": f"{delivered.seconds:.0f}", "size_gb": f"{delivered.image.size / 10**9:.2f}"}
    details |= environment.as_labelled(delivered.image.labels).fallback_detail
    evidence.record(matrices.folder, environment.coordinates.folder, "built", machine, details)
    recorded = matrices.catalog().find(environment.id)
    if delivered.proof is not None and recorded is not None:
        record_proof(delivered.proof, recorded.as_labelled(delivered.image.labels), matrices.folder)


def _summary(console: Console, delivered: Delivered, *, json_: bool) -> None:
    built, image, name = delivered.built, delivered.image, delivered.name
    if not json_:
        console.out(name)
    if delivered.proof is not None and not json_:
        show_report(console, delivered.proof)
    console.talk(
        tr(
            "{digest}, {size} GB, {seconds} s",
            digest=delivered.digest or image.id,
            size=f"{image.size / 10**9:.2f}",
            seconds=f"{delivered.seconds:.0f}",
        )
    )
    slowest = sorted(((step.seconds, title) for title, step in built.steps if step and not step.cached), reverse=True)
    if delivered.proof is not None:
        times = ", ".join(
            tr("{step} {seconds} s", step=level, seconds=f"{seconds:.0f}")
            for level, seconds in delivered.proof.times.items()
        )
        console.talk(tr("proof: {times}", times=times))
    if slowest:
        steps = ", ".join(
            tr("{step} {seconds} s", step=title, seconds=f"{seconds:.0f}") for seconds, title in slowest[:3]
        )
        console.talk(tr("longest: {steps}", steps=steps))
    kept = [stage for stage, how in built.wheels.items() if how == "kept"]
    if kept:
        console.talk(tr("reused from an earlier build: {names}", names=", ".join(kept)))
    console.talk(tr("log: {log}", log=built.log))
    use = f"envbuilder validate {name}" if REHEARSAL in image.labels else f"docker run --rm -it {name}"
    console.talk(tr("try it: {command}", command=use))
