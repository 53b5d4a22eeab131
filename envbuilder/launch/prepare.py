"""Determines what a container needs: on this host if it has NPUs, otherwise on a standard host of its hardware."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

from envbuilder import platforms
from envbuilder.environment import Environment
from envbuilder.errors import HostError
from envbuilder.language import tr
from envbuilder.launch import CLUSTER
from envbuilder.launch.container import (
    ContainerOptions,
    Launch,
    Needs,
    interface_note,
    needs_elsewhere,
    needs_in_cluster,
)


def needs_for(
    environment: Environment, form: str | None, options: ContainerOptions, without_npus: str | None = None
) -> tuple[Needs, tuple[str, ...]]:
    """Return what the container needs, and notes for the user. A printed form (not None) may be for another host.

    `without_npus` is the hint of the error on a host without NPUs.
    """
    hardware = environment.hardware
    named = {"environment": environment.id, "hardware": hardware.title}
    more = (interface_note(environment.run, None),) if options.multi_node else ()
    if form == CLUSTER:
        note = tr("this host was not checked: the container is for a cluster")
        return needs_in_cluster(environment, options), (note, *more)
    if not hardware.devices:
        return needs_elsewhere(environment, options), ()
    if environment.on_stand_in:
        raise HostError(
            tr("the image is a rehearsal on {provider}, and cannot use NPUs", provider=environment.provider),
            hint=tr("envbuilder build {environment} builds the image for NPUs; validate proves a rehearsal", **named),
        )
    if not (platforms.gpus() if hardware.has_gpus else platforms.npus()):
        chips = tr("GPUs") if hardware.has_gpus else tr("NPUs")
        if form is None:
            message = tr("this host has no {chips}, and {environment} is for {hardware}", chips=chips, **named)
            raise HostError(message, hint=without_npus)
        note = tr(
            "this host was not checked: it has no {chips}, and the container is for {hardware}", chips=chips, **named
        )
        return needs_elsewhere(environment, options), (note, *more)
    from envbuilder.launch.on_this_host import misfit, needs_here
    from envbuilder.machine.machine import look

    machine = look()
    if form is not None and (changes := misfit(environment, machine)):
        note = tr("this host was not checked further: {changes}", changes=changes)
        return needs_elsewhere(environment, options), (note, *more)
    return needs_here(environment, machine, options, free=form is None)


def start_container(launch: Launch) -> NoReturn:
    """Start a container in place of this process, after checking that its mounted paths exist."""
    from envbuilder.launch.docker import start

    for mount in launch.volumes:
        if not mount.is_named and not Path(mount.source).exists():
            raise HostError(
                tr("this host has no {paths}", paths=mount.source),
                hint=tr("mkdir -p {path}, or another --volume", path=mount.source),
            )
    start(launch)
