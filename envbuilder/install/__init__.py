"""Installs environments on this host, without a container."""

from envbuilder.install.installation import PREFIX, Work, check_same, install, installation_here, states

__all__ = ["PREFIX", "Work", "check_same", "install", "installation_here", "states"]
