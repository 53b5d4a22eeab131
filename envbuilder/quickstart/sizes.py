"""Checks that the sizes of a run fit together, before a trainer fails with a traceback."""

from __future__ import annotations

import math
from collections.abc import Mapping

from envbuilder.environment import Environment
from envbuilder.environment.trainer_arguments import bare
from envbuilder.errors import UsageError
from envbuilder.language import tr
from envbuilder.matrix.model import Recipe, SizeRule

_ADVICE = "choose another --npus or --nodes, or change one of these values with --set"

# a size has fewer of them, and Python refuses a number of thousands
_DIGITS = 19


def check_sizes(recipe: Recipe, environment: Environment, settings: Mapping[str, str], npus: int, nodes: int) -> None:
    values = {bare(name): value for name, value in settings.items()}
    values |= {"npus": str(npus), "nodes": str(nodes), "devices": str(npus * nodes)}
    shared = (rule for other in environment.recipes if other.recipe == recipe.rules_of for rule in other.rules)
    for rule in (*shared, *recipe.rules):
        if rule.when is None or environment.holds(rule.when):
            _check(rule, values)


def _check(rule: SizeRule, values: Mapping[str, str]) -> None:
    name, size = _terms(rule.of, values), _value(rule.of, values)
    if rule.at_least is not None and size < (least := _value(rule.at_least, values)):
        other = _terms(rule.at_least, values)
        problem = tr("{name} is {size}, and {other} is {least}", name=name, size=size, other=other, least=least)
    elif rule.by is not None and size % (part := _value(rule.by, values)) and (part % size or not rule.either_way):
        problem = tr(
            "{name} is {size}, which is not a multiple of {other}, {part}",
            name=name,
            size=size,
            other=_terms(rule.by, values),
            part=part,
        )
    else:
        return
    because = tr(" ".join(rule.because.split()))
    raise UsageError(tr("{problem}: {because}", problem=problem, because=because), hint=tr(_ADVICE))


def _value(text: str, values: Mapping[str, str]) -> int:
    return sum(math.prod(_number(term, values) for term in product.split(" * ")) for product in text.split(" + "))


def _number(name: str, values: Mapping[str, str]) -> int:
    text = values.get(name, "1")
    if not (text.isdecimal() and len(text) < _DIGITS) or int(text) < 1:
        raise UsageError(tr("{name} must be a number of at least 1, not '{text}'", name=name, text=text))
    return int(text)


def _terms(text: str, values: Mapping[str, str]) -> str:
    """Return the expression without the terms that are not set, which count as 1."""
    products = ([term for term in product.split(" * ") if term in values] for product in text.split(" + "))
    return " + ".join(" * ".join(terms) for terms in products if terms)
