"""The plan of an install script, which has no archives beside it."""

from __future__ import annotations

from envbuilder.environment import Environment
from envbuilder.errors import UsageError
from envbuilder.language import tr
from envbuilder.plan import Plan, host_plan


def script_plan(environment: Environment) -> Plan:
    """Return the plan of a script; one of a project with own sources cannot be a single file."""
    own = environment.additions.sources if environment.additions else {}
    if own:
        raise UsageError(
            tr("a script has no sources of the project beside it: {names}", names=", ".join(own)),
            hint=tr("`envbuilder install` takes them from the folder"),
        )
    return host_plan(environment)
