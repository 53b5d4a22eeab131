"""The chooser: one page without a network, on which a user picks an environment and copies its commands."""

from envbuilder.chooser.page import chooser

__all__ = ["chooser"]
