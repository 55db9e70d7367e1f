"""The kinds of matches, a module for each with all that is to know about one: a new kind is a new module here."""

from importlib import import_module
from pkgutil import iter_modules


def import_all() -> None:
    """Import every kind, so that it is known by its key."""
    for module in iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")
