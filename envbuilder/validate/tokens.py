"""Compares the tokens that the row's engine generates greedily with those of transformers."""

from __future__ import annotations

import json
import time
from pathlib import Path

from envbuilder.language import english, tr
from envbuilder.progress import Progress
from envbuilder.validate.follow import follow
from envbuilder.validate.report import Check
from envbuilder.validate.smoke.job import Job
from envbuilder.validate.smoke.judge import judge_engine, judge_tokens
from envbuilder.validate.target import Target
from envbuilder.validate.training import TITLE

_LIMIT = 15 * 60


def compare_tokens(target: Target, job: Job, log: Path, progress: Progress) -> Check:
    """Return the check that both generate the same tokens: on the target they compute with the same kernels."""
    progress.said(TITLE, tr("{engine} and transformers answer the same prompts", engine=job.engine))
    started = time.monotonic()
    ended = follow(target, "tokens.py", job.document(), job.variables, _LIMIT, log)
    verdict = ended.verdict(english("comparison with {engine}", engine=job.engine))
    if verdict.passed:
        verdict = judge_engine(job.fallbacks, ended.text)
    if verdict.passed:
        answers = json.loads(next(line for line in ended.text.splitlines() if line.startswith('{"wanted"')))
        verdict = judge_tokens(answers["wanted"], answers["found"])
    return Check("train", "tokens", verdict.status, verdict.message, round(time.monotonic() - started, 1))
