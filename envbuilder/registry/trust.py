"""Who must have signed an image: public keys, each for the images whose names begin with a prefix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from envbuilder.errors import ValidationError
from envbuilder.language import tr
from envbuilder.registry.reference import Reference
from envbuilder.signing.keys import PublicKey


class TrustedKey(NamedTuple):
    """A key, and the prefix of the names that it is for, as `prefix_of` returns it."""

    prefix: str
    key: PublicKey


@dataclass(frozen=True)
class Trust:
    """The keys of the user, and those that a project demands besides: it cannot replace the user's."""

    own: tuple[TrustedKey, ...] = ()
    project: tuple[TrustedKey, ...] = ()
    # take an image that no key is for
    allow_unsigned: bool = False

    def demands(self, name: Reference) -> list[list[PublicKey]]:
        """Return groups of keys for an image of this name: one key of each group must have signed it."""
        groups = [group for group in (self.own, self.project) if group]
        found = [[item.key for item in group if name.is_below(item.prefix)] for group in groups]
        if groups and not found[0] and not self.allow_unsigned:
            prefixes = ", ".join(sorted({item.prefix for item in groups[0]}))
            raise ValidationError(
                tr(
                    "no key that verify-key gives is for {name}; they are for: {prefixes}", name=name, prefixes=prefixes
                ),
                hint=tr("--verify-key PREFIX=FILE gives one, and --allow-unsigned does without a signature"),
            )
        return [keys for keys in found if keys]

    def accepting(self, name: Reference) -> Sequence[PublicKey]:
        """Return all keys for images of this name, without a demand."""
        return [item.key for item in (*self.own, *self.project) if name.is_below(item.prefix)]
