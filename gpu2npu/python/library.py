"""Facts about a library that the model cannot read from a project: it is not part of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


def _same(name: str) -> str:
    return name


def _nothing(module: str, name: str) -> str | None:
    return None


def _never(name: str) -> bool:
    return False


@dataclass(frozen=True)
class Library:
    """The library that a project is written for, as far as names and kinds of objects need it. Picklable.

    `packages` are its top-level packages, by which a name may be used that nothing binds (in a cell of a notebook).
    `canonical` gives the usual spelling of one of its qualified names, `starred` the qualified name that a star import
    of one of its modules gives a name (None: it does not bring the name in). `tensors` and `modules` are the classes
    of its tensors and layers; `is_module_class` and `is_tensor_factory` judge other qualified names. `fluent` are
    methods of tensors and layers that give back the same kind of object.
    """

    packages: frozenset[str] = frozenset()
    canonical: Callable[[str], str] = _same
    starred: Callable[[str, str], str | None] = _nothing
    tensors: frozenset[str] = frozenset()
    modules: frozenset[str] = frozenset()
    is_module_class: Callable[[str], bool] = _never
    is_tensor_factory: Callable[[str], bool] = _never
    fluent: frozenset[str] = frozenset()

    def has(self, qualified: str) -> bool:
        """Whether a qualified name is one of the library's, below one of its packages."""
        package, dot, _ = qualified.partition(".")
        return bool(dot) and package in self.packages
