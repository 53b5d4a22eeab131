"""Two thousand broken matrices: each is accepted or refused with a file and line, never with a traceback."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from envbuilder.check import check_environment, check_matrix
from envbuilder.environment import resolve
from envbuilder.environment.coordinates import environments
from envbuilder.errors import MatrixError, Problem
from envbuilder.matrix import Matrix, decode, load
from envbuilder.matrix.sources import File
from envbuilder.plan import make_plan
from envbuilder.render import FORMATS

COUNT = 2000
SHARDS = 4
FRAGMENTS = [
    "null", "~", "[]", "{}", "- x", "? y", "*a", "&a b", "!t c", "|", ">", "'", '"', "#", ": ", "\t", "\x00", "\x1b", "\u2028",
    "3.10", "1e9", "yes", "$(id)", "${pin.nothing}", "${build.cann.}", "`id`", "..", "\\", "%", "@", "0x10", "2001-01-01",
    "v0.0.0", "9.9.RC9", "中文", "🙂", "-" * 80, "a" * 5000, "<<: {}", "---", "...", "{a: {a: {a: {a: b}}}}", "==", ">=,<", "; rm -rf /",
]  # fmt: skip


def mutated(text: str, chance: random.Random) -> str:
    lines = text.split("\n")
    at = chance.randrange(len(lines))
    other = chance.randrange(len(lines))
    column = chance.randrange(len(lines[at]) + 1)
    fragment = chance.choice(FRAGMENTS)
    kind = chance.randrange(9)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(at, lines[other])
    elif kind == 2:
        lines[at] = lines[at][:column] + fragment + lines[at][column:]
    elif kind == 3:
        lines[at] = lines[at][: column - 1] + lines[at][column:]
    elif kind == 4:
        lines[at] = " " * chance.randrange(1, 5) + lines[at]
    elif kind == 5:
        lines[at] = lines[at].lstrip()
    elif kind == 6:
        key, colon, _ = lines[at].partition(":")
        lines[at] = f"{key}{colon} {fragment}"
    elif kind == 7:
        lines = lines[: at + 1]
    else:
        lines[at], lines[other] = lines[other], lines[at]
    return "\n".join(lines)


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(SHARDS))
def test_no_mutation_gives_a_traceback(
    shard: int, tmp_path: Path, matrix: Matrix, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {name: file for name, file in matrix.files.items() if name.endswith(".yaml")}
    _remember_decoded(monkeypatch, changed=tmp_path)
    chance = random.Random(shard)  # noqa: S311  repeatable on purpose
    refused = 0
    for number in range(COUNT // SHARDS):
        name = chance.choice(sorted(files))
        path = tmp_path / "changed.yaml"
        path.write_bytes(mutated(files[name].path.read_text(encoding="utf-8"), chance).encode("utf-8", "surrogatepass"))
        broken = {**files, name: File(path, name)}
        try:
            rows, more = decode.decode_everything(broken)
            changed = Matrix(**rows.__dict__, files=broken, locks=matrix.locks)
            changed.__dict__.update(more)
            _use(changed, chance)
        except MatrixError as error:
            refused += 1
            assert error.problems
            for problem in error.problems:
                assert problem.where.file and problem.where.line >= 1, f"mutation {number} of {name}: {problem}"
                assert problem.message
    assert refused > COUNT // SHARDS // 4, "hardly any mutation was noticed: the mutations are too mild"


def _use(matrix: Matrix, chance: random.Random) -> None:
    """Check and render two environments of a matrix that loads; a MatrixError has to name a place."""
    check_matrix(matrix)
    everything = environments(matrix)
    for coordinates in chance.sample(everything, min(2, len(everything))):
        environment = resolve(matrix, coordinates)
        check_environment(environment)
        plan = make_plan(environment)
        for render in FORMATS.values():
            render(plan)


def _remember_decoded(monkeypatch: pytest.MonkeyPatch, changed: Path) -> None:
    """Remember the decoded form of unchanged files, so that each is decoded only once."""
    real = decode._decode
    seen: dict[Path, object] = {}

    def remembering(file: File, model: type, problems: list[Problem], **names: str) -> object:
        if changed in file.path.parents:
            return real(file, model, problems, **names)
        if file.path not in seen:
            seen[file.path] = real(file, model, problems, **names)
        return seen[file.path]

    monkeypatch.setattr(decode, "_decode", remembering)


def test_the_unchanged_matrix_passes(matrix: Matrix) -> None:
    _use(load(everything=True), random.Random(0))  # noqa: S311
