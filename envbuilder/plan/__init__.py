"""From an environment to the steps that make it. Every condition is decided here; what follows is text.

A plan is a list of stages. What is built from source becomes a wheel in a stage of its own, which depends on nothing
but what the build needs; the environment installs those wheels.
"""

from envbuilder.plan.make import make_plan
from envbuilder.plan.plan import Layer, LeftOut, Plan, Source, Stage, Step, Value, lock_part

__all__ = ["Layer", "LeftOut", "Plan", "Source", "Stage", "Step", "Value", "lock_part", "make_plan"]
