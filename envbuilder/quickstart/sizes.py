"""Whether the sizes of a run go together, before a trainer says so in a traceback."""

from __future__ import annotations

import math
from collections.abc import Mapping

from envbuilder.environment import Environment
from envbuilder.environment.trainer_arguments import bare
from envbuilder.errors import UsageError
from envbuilder.matrix.model import Recipe, SizeRule

_ADVICE = "another --npus or --nodes, or --set one of them"


def check_sizes(recipe: Recipe, environment: Environment, settings: Mapping[str, str], npus: int, nodes: int) -> None:
    values = {bare(name): value for name, value in settings.items()}
    values |= {"npus": str(npus), "nodes": str(nodes), "devices": str(npus * nodes)}
    for rule in recipe.rules:
        if rule.when is None or environment.holds(rule.when):
            _check(rule, values)


def _check(rule: SizeRule, values: Mapping[str, str]) -> None:
    size = _value(rule.of, values)
    if rule.at_least is not None and size < (least := _value(rule.at_least, values)):
        told = f"{_told(rule.of, values)} is {size}, and {_told(rule.at_least, values)} is {least}"
        raise UsageError(f"{told}: {rule.because}", hint=_ADVICE)
    if rule.by is not None and size % (part := _value(rule.by, values)) and not (rule.either_way and part % size == 0):
        told = f"{_told(rule.of, values)} is {size}, which {_told(rule.by, values)}, {part}, does not divide"
        raise UsageError(f"{told}: {rule.because}", hint=_ADVICE)


def _value(text: str, values: Mapping[str, str]) -> int:
    return sum(math.prod(_number(term, values) for term in product.split(" * ")) for product in text.split(" + "))


def _number(name: str, values: Mapping[str, str]) -> int:
    text = values.get(name, "1")
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(f"{name} is a number of at least 1, not '{text}'")
    return int(text)


def _told(text: str, values: Mapping[str, str]) -> str:
    """Without what is not set, which is one."""
    products = ([term for term in product.split(" * ") if term in values] for product in text.split(" + "))
    return " + ".join(" * ".join(terms) for terms in products if terms)
