"""Gives an image its name only after it was proven; until then it is a candidate."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from envbuilder import paths
from envbuilder.docker.engine import Docker
from envbuilder.environment import Environment
from envbuilder.environment.image_names import CANDIDATE, PROVEN, VALIDATION, candidate_name, proven_name
from envbuilder.errors import ValidationError
from envbuilder.files import write_text
from envbuilder.language import tr
from envbuilder.plan import Plan
from envbuilder.progress import Progress
from envbuilder.validate.account import ImageAccountant
from envbuilder.validate.junit import junit
from envbuilder.validate.levels import Subject, ValidationOptions, validate
from envbuilder.validate.page import page
from envbuilder.validate.report import Report
from envbuilder.validate.target import container_of

FORMS: Mapping[str, Callable[[Report], str]] = {
    "json": lambda report: json.dumps(report.document(), indent=2) + "\n",
    "xml": junit,
    "html": page,
}


def pass_gate(
    environment: Environment, plan: Plan, image: str, docker: Docker, options: ValidationOptions, progress: Progress,
    files: Mapping[str, Path],
) -> Report | None:  # fmt: skip
    """Prove the candidate that a plan has made, and give it its name; return None if it was proven before.

    The report is written to these files, by the forms that they have, whether the candidate passes or not.
    """
    candidate = candidate_name(image)
    made, named = docker.image(candidate), docker.image(image)
    assert made is not None  # noqa: S101  it has just been built
    if named is not None and named.labels.get(CANDIDATE) == made.id:
        kept = _place(named.labels.get(VALIDATION, ""))
        # an image whose report is kept on another machine is proven again where the report is wanted
        if not files or kept.with_suffix(".json").is_file():
            progress.say(tr("proven before, level {level}: {image}", level=named.labels.get(PROVEN), image=image))
            docker.untag(candidate)
            hand_out(kept, files)
            return None
    with container_of(docker, candidate, environment, options.device, options.npus) as target:
        subject = Subject(target, candidate, made.id, made.labels, ImageAccountant(docker, made.id, environment))
        report = validate(environment, plan, subject, options, progress)
    place = keep(report)
    hand_out(place, files)
    if not report.passed:
        raise failure(report, place)
    give_name(candidate, report, docker)
    return report


def give_name(candidate: str, report: Report, docker: Docker) -> str:
    """Give a candidate that has passed its name, which replaces that of the candidate, and return it."""
    image, made = proven_name(candidate), docker.image(candidate)
    assert made is not None  # noqa: S101  it has just been validated
    labels = {CANDIDATE: report.image_id or "", PROVEN: report.proven or "", VALIDATION: report.digest}
    docker.label(candidate, labels, image, docker.platform(made.arch))
    docker.untag(candidate)
    return image


def keep(report: Report) -> Path:
    """Write a report in every format, named by the digest in the label of the image, and return the HTML page."""
    place = _place(report.digest)
    for suffix, form in FORMS.items():
        write_text(place.with_suffix(f".{suffix}"), form(report))
    return place.with_suffix(".html")


def hand_out(kept: Path, files: Mapping[str, Path]) -> None:
    """Copy a kept report to files, by the forms that they have."""
    for suffix, file in files.items():
        write_text(file, kept.with_suffix(f".{suffix}").read_text(encoding="utf-8"))


def _place(digest: str) -> Path:
    return paths.state_folder() / "validations" / digest.partition(":")[2]


def failure(report: Report, page_file: Path) -> ValidationError:
    """Return the error that lists the failed checks of a report."""
    wrong = [check for check in report.checks if check.status == "failed"]
    lines = [
        tr(
            "{target} failed {failed} of {number} checks",
            target=report.image or tr("this host"),
            failed=len(wrong),
            number=len(report.checks),
        )
    ]
    lines += [f"  {check.level}: {check.name}: {tr(check.message)}" for check in wrong[:10]]
    if wrong[10:]:
        lines.append(tr("  ... and {number} more", number=len(wrong) - 10))
    log = [tr("training log: {log}", log=report.training.log)] if report.training else []
    return ValidationError("\n".join(lines), hint=tr("; ").join([*log, tr("full report: {file}", file=page_file)]))
