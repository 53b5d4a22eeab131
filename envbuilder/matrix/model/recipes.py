"""The documented training commands: how data is prepared, the settings of the trainer, and the sizes it accepts."""

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
    # the file that exists when it is done
    makes: Line
    options: Mapping[Line, Line] = NOTHING


class SizeRule(Record):
    """A condition on sums of products, `a * b + c`, of settings and `${...}` values; an unset one counts as 1."""

    of: Line
    when: When | None = None
    # `by` must divide `of` (with `either_way`, or be a multiple of it); `of` must be no less than `at_least`
    by: Line | None = None
    either_way: bool = False
    at_least: Line | None = None
    because: Prose
    source: Line
    where: Annotated[Where, INJECTED]


class RecipePart(Record):
    """Changes to a command where the conditions hold. With `because` it departs from the document."""

    source: Line
    because: Prose | None = None
    # whether it is only for runs that are compared, and how the samples of those are drawn
    reproducible: bool = False
    draws: Prose | None = None
    when: When | None = None
    # conditions on the number of devices per node, and of nodes
    npus: Specifier | None = None
    nodes: Specifier | None = None
    # replacements for values of the recipe; `take` replaces `npus`
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
    """A documented training command.

    Values may use `${model} ${data} ${output} ${source} ${engine}` and `${npus} ${nodes} ${devices} ${device_numbers}`.
    """

    framework: Name
    recipe: Name
    # whether it is the default
    usual: bool = False
    # what trains the model, if not the first backend of the framework
    backend: Name | None = None
    title: Line
    source: Line
    sources: Mapping[Name, Line] = NOTHING
    # empty: any engine
    engines: tuple[Name, ...] = ()
    # the releases that it is for, if not all
    when: When | None = None
    model: Line
    data: Line
    output: Line
    # the setting for `output`, if the document does not set one; used when the user gives a folder
    output_setting: Line | None = None
    # the setting for the steps between checkpoints; -1 saves none
    save_setting: Line | None = None
    # devices per node in the document
    npus: int
    max_nodes: int | None = None
    # whether a single node also starts Ray, and the command that submits the training to it
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
    # another recipe of the framework, whose rules also hold here
    rules_of: Name | None = None
    name: Annotated[str, INJECTED]
    where: Annotated[Where, INJECTED]
