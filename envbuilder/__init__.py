"""envbuilder turns compatibility matrices into proven RL training environments for Ascend NPUs."""

__version__ = "0.1.0"
