"""From an environment to the steps that make it. Every condition is decided here; what follows is text.

A plan is a list of stages. What is built from source becomes a wheel in a stage of its own, which depends on nothing
but the packages of its build; the environment installs those wheels.
"""

from envbuilder.plan.make import make_plan
from envbuilder.plan.plan import Layer, LeftOut, Plan, SourceArchive, Stage, Step, Value

__all__ = ["Layer", "LeftOut", "Plan", "SourceArchive", "Stage", "Step", "Value", "make_plan"]
