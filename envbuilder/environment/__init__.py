"""Which environments exist, and every value of one: the cascade, its packages, placeholders, locks and image names."""

from envbuilder.environment.catalog import Catalog
from envbuilder.environment.environment import Environment, resolve
from envbuilder.environment.select import Coordinates, Filters

__all__ = ["Catalog", "Coordinates", "Environment", "Filters", "resolve"]
