"""The texts of click, such as usage errors, in the language of the user."""

from __future__ import annotations

import sys

from envbuilder.language import tr


def translate_click() -> None:
    """Make click read our catalogue; by default it uses gettext, which cannot read a catalogue that is text."""
    ours = {"_": tr, "ngettext": lambda one, several, number: tr(one if number == 1 else several)}
    for name, module in sys.modules.items():
        if name.startswith("click."):
            vars(module).update({key: ours[key] for key in ours.keys() & vars(module).keys()})
