"""Turns an environment into a plan: the steps that build it. All conditions are decided here, none while rendering.

A plan is a list of stages. Each source build makes a wheel in a separate stage, which depends only on the packages of
that build; the stage of the environment installs those wheels.
"""

from envbuilder.plan.make import host_plan, make_plan
from envbuilder.plan.plan import Inputs, Layer, Plan, SourceArchive, Stage, Step, Value

__all__ = ["Inputs", "Layer", "Plan", "SourceArchive", "Stage", "Step", "Value", "host_plan", "make_plan"]
