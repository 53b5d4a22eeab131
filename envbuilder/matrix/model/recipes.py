"""The training commands of the documents: how data is made, how a trainer is told, and what sizes it takes."""

from collections.abc import Mapping
from typing import Annotated, Literal

from envbuilder.errors import Where
from envbuilder.matrix.model.scalars import INJECTED, Line, Name, Prose, Specifier, Variable
from envbuilder.matrix.model.settings import When
from envbuilder.matrix.record import NOTHING, Record


class Preparation(Record):
    """A program in the source of the framework that makes the data."""

    title: Line
    program: Line
    # the file that says that it was done
    makes: Line
    options: Mapping[Line, Line] = NOTHING


class SizeRule(Record):
    """Sums of products, `a * b + c`, of settings and of what `${...}` names; what is not set counts as one."""

    of: Line
    when: When | None = None
    # it must divide `of` (or, either way, be divided by it), or be no larger
    by: Line | None = None
    either_way: bool = False
    at_least: Line | None = None
    because: Prose
    source: Line
    where: Annotated[Where, INJECTED]


class RecipePart(Record):
    """What a command is told on top, where the conditions hold. With `because` it departs from the document."""

    source: Line
    because: Prose | None = None
    when: When | None = None
    # conditions on the number of devices of a node, and of nodes
    npus: Specifier | None = None
    nodes: Specifier | None = None
    # other values of the recipe; `take` is its `npus`
    take: int | None = None
    model: Line | None = None
    data: Line | None = None
    prepare: Preparation | None = None
    program: tuple[Line, ...] = ()
    settings: Mapping[Line, Line] = NOTHING
    without: tuple[Line, ...] = ()
    variables: Mapping[Variable, Line] = NOTHING
    unset: tuple[Variable, ...] = ()
    where: Annotated[Where, INJECTED]


class Recipe(Record):
    """Values may name `${model} ${data} ${output} ${source} ${engine}`, and `${npus} ${nodes} ${devices}`."""

    framework: Name
    recipe: Name
    title: Line
    source: Line
    sources: Mapping[Name, Line] = NOTHING
    # any where there are none
    engines: tuple[Name, ...] = ()
    model: Line
    data: Line
    output: Line
    # takes `output`, where somebody names one and the document does not
    output_setting: Line | None = None
    # the devices of a node that the document takes
    npus: int
    max_nodes: int | None = None
    # whether Ray is started first on a single node as well, and how it is handed the training
    always_ray: bool = False
    submit: tuple[Line, ...] = ()
    prepare: Preparation | None = None
    program: tuple[Line, ...]
    style: Literal["assignment", "option"]
    settings: Mapping[Line, Line]
    variables: Mapping[Variable, Line] = NOTHING
    notes: tuple[Prose, ...] = ()
    parts: tuple[RecipePart, ...] = ()
    rules: tuple[SizeRule, ...] = ()
    name: Annotated[str, INJECTED]
    where: Annotated[Where, INJECTED]
