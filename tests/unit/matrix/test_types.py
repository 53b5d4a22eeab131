"""The shapes of the model's types."""

from __future__ import annotations

from typing import Literal

import pytest

from envbuilder.matrix.types import shape_of


def test_a_union_of_two_lists_of_words_is_refused() -> None:
    """Only the first of them would be read, and what the second allows could be written but not read."""
    with pytest.raises(TypeError, match="two members of a union have the same kind"):
        shape_of(Literal["a"] | Literal["b"])
