"""The environments and all their values: the cascade, packages, placeholders, locks and image names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from envbuilder.environment.catalog import Catalog
    from envbuilder.environment.coordinates import Coordinates, Filters
    from envbuilder.environment.environment import Environment, resolve

__all__ = ["Catalog", "Coordinates", "Environment", "Filters", "resolve"]
_MODULES = {"Catalog": "catalog", "Environment": "environment", "resolve": "environment"}


def __getattr__(name: str) -> Any:
    """Import a name on first use: `list` needs only coordinates, and must answer immediately."""
    import importlib

    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES.get(name, 'coordinates')}"), name)
