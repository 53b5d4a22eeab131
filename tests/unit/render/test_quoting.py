"""Values are quoted for the shell and for the Dockerfile, and the parameters of steps are checked."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from envbuilder.environment import resolve
from envbuilder.environment.select import pick
from envbuilder.errors import MatrixError
from envbuilder.matrix import Matrix, load
from envbuilder.plan import Layer, Step, make_plan
from envbuilder.render import render_dockerfile
from envbuilder.render.text import body, comment, word
from tests.conftest import A3_SGLANG, Edit
from tests.helpers.rendered import dockerfile, instructions

NASTY = [
    "; rm -rf /", "$(touch pwned)", "`touch pwned`", "a && touch pwned", "a || b", "| tee pwned", "> pwned", "'; touch pwned; '",
    '"; touch pwned; "', "\\", "a\\", "$HOME", "${BASE_IMAGE}", "a b", "*", "~", "#", "--option", "\\'", "RUN touch pwned", "FROM scratch",
    "<<EOF", "%s", "!x", "{a,b}", "a=b", "中文", "-e", "",
]  # fmt: skip


@pytest.mark.parametrize("value", NASTY)
def test_a_value_is_one_shell_word(value: str) -> None:
    layer = Layer(
        "t",
        (Step("build-script", {"into": "x", "command": ("printf", "%s", value), "output": value, "wheels": (value,)}),),
    )
    command, install = str(body(layer)).split(" && \\\n    ")
    printed = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert printed.stdout == value
    assert shlex.split(install.replace("\\\n", ""))[-5:] == [
        "--find-links",
        value,
        "--wheel-dir",
        "../../wheels/x",
        value,
    ]


@pytest.mark.parametrize("value", NASTY)
def test_a_value_is_one_dockerfile_word(value: str) -> None:
    quoted = word(value)
    # only characters without a meaning to the parser, or a closed pair of quotes
    assert re.fullmatch(r'[A-Za-z0-9_./:@=+,-]+|"(?:[^"\\$]|\\["\\$])*"', quoted), quoted
    assert re.sub(r"\\(.)", r"\1", quoted.removeprefix('"').removesuffix('"')) == value
    assert "\n" not in quoted


@pytest.mark.parametrize("value", ["a\nRUN touch pwned", "a\rb", "a\x0bb", "a\u2028RUN x", "a\x85b", "# escape=`"])
def test_a_comment_is_one_line(value: str) -> None:
    assert len(comment(value).splitlines()) == 1


FIELDS = [
    ("hardware/a3.yaml", "title: Atlas 800T A3"),
    ("hardware/a3.yaml", "image: quay.io/ascend/cann"),
    ("hardware/a3.yaml", "sgl_kernel_npu: Ascend910_9382"),
    ("frameworks/verl/v0.6.0.yaml", "title: verl v0.6.0"),
    ("frameworks/verl/v0.6.0.yaml", "value: '1'"),
    ("frameworks/verl/v0.6.0.yaml", "version: 4.56.1"),
    ("frameworks/verl/v0.6.0.yaml", "version: '3.11'"),
    ("engines/sglang.yaml", "title: SGLang\n"),
    ("engines/sglang.yaml", "output: output"),
    ("engines/sglang.yaml", "by: '${build.sglang.pyproject}'"),
    ("engines/sglang.yaml", "[build-essential, ca-certificates"),
    ("engines/sglang.yaml", "remove: [torchvision"),
    ("engines/sglang.yaml", "module: deep_ep_cpp"),
    ("compat/sglang.yaml", "repository: https://github.com/sgl-project/sglang.git"),
    ("compat/cann.yaml", "nnal_set_env: /usr/local/Ascend/nnal/atb/set_env.sh"),
    ("matrix.yaml", "version: 0.13.7"),
]
STRUCTURE = re.compile(
    r"^(ARG|FROM|SHELL|RUN|ENV|LABEL|CMD|COPY|ADD|USER|ENTRYPOINT|ONBUILD|WORKDIR|EXPOSE|VOLUME|HEALTHCHECK|STOPSIGNAL)\b",
    re.M,
)


@pytest.mark.slow
@pytest.mark.parametrize(("file", "field"), FIELDS, ids=[f"{file}-{field[:12]}" for file, field in FIELDS])
def test_no_yaml_value_changes_the_instructions(file: str, field: str, edit: Edit, matrix: Matrix) -> None:
    """A value is refused on loading or quoted, so that the instructions stay the same."""
    expected = _structure(dockerfile(matrix, A3_SGLANG))
    key, colon, _ = field.partition(":")
    for value in [
        "a\nRUN touch pwned\n",
        "x\u2028RUN y",
        "$(touch pwned)",
        '"; touch pwned; "',
        "' && touch pwned && '",
        "a \\",
        "# x",
        "<<EOF",
    ]:
        escaped = (
            '"'
            + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\u2028", "\\u2028")
            + '"'
        )
        if "[" in field:
            new = field.split("[")[0] + "[" + escaped
        else:
            new = f"{key}{colon} {escaped}" + ("\n" if field.endswith("\n") else "")
        folder = _whole_copy(edit, field, new) if file == "matrix.yaml" else edit(file, field, new)
        try:
            changed = load(folder)
            text = render_dockerfile(make_plan(resolve(changed, pick(changed, A3_SGLANG))))
        except MatrixError as error:
            assert error.problems[0].where.line >= 1
        else:
            assert _structure(text) == expected, (value, text)
        finally:
            (folder / file).unlink()


def test_the_base_image_is_quoted(edit: Edit) -> None:
    folder = edit("hardware/a3.yaml", "image: quay.io/ascend/cann", 'image: "x BASH_ENV=$HOME"')
    (line,) = (item for item in instructions(dockerfile(load(folder), A3_SGLANG)) if "BASE_IMAGE=" in item)
    assert line == 'ARG BASE_IMAGE="x BASH_ENV=\\$HOME:8.3.rc1-a3-ubuntu22.04-py3.11"'


def _structure(text: str) -> list[str]:
    return STRUCTURE.findall(text)


def _whole_copy(edit: Edit, old: str, new: str) -> Path:
    from envbuilder import paths

    folder = edit("matrix.yaml", old, new)
    for path in paths.matrices().rglob("*.yaml"):
        target = folder / path.relative_to(paths.matrices())
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    return folder


def test_an_unquoted_value_is_refused_outside_steps(matrix: Matrix) -> None:
    from envbuilder.render.text import _environment

    with pytest.raises(TypeError, match="is not quoted"):
        _environment("outer").from_string("RUN {{ value }}").render(value="x")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"file": "a", "by": ("b",)}, "'by' is a list, not a text"),
        ({"file": "a"}, "needs the parameter 'by'"),
        ({"file": "a", "by": "b", "mode": "0644"}, "'mode' is not a parameter"),
    ],
)
def test_parameters_of_a_step_are_those_that_its_template_declares(values: dict[str, str], message: str) -> None:
    with pytest.raises(MatrixError, match=re.escape(message)):
        body(Layer("t", (Step("replace-file", values),)))


def test_an_unknown_step_is_refused() -> None:
    with pytest.raises(MatrixError, match="there is no step 'teleport'"):
        body(Layer("t", (Step("teleport", {}),)))
