"""Settings of a trainer: the last one wins, and Hydra reads the values unchanged."""

from __future__ import annotations

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import QuotedString

from envbuilder.environment.trainer_arguments import literal, merged


def test_the_last_setting_wins_with_or_without_a_plus_sign() -> None:
    assert merged({"a": "1", "+b": "2", "c": "3"}, {"+a": "4", "b": "5"}, {"c": None}) == {"+a": "4", "b": "5"}


@pytest.mark.parametrize(
    "text",
    [
        "Qwen/Qwen3-8B", "/a b/c", "/ckpt/lr=1e-6,bs=8/hf", "/m/模型/x", "/m/it's $5", '"q"', "C:\\a\\b", "a\\", "a\\'b",
        "a\\\\'", "(x)", "[y]", "{z}", "#", "&;~", " x", "x\ty", "a|b?c*d@e%f+g-h",
    ],
)  # fmt: skip
def test_hydra_reads_a_path_unchanged(text: str) -> None:
    read = OverridesParser.create().parse_override(f"key={literal('assignment', text)}").value()
    assert (read.text if isinstance(read, QuotedString) else read) == text
    assert literal("option", text) == text
