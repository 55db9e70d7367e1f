"""Facts about a library that the model cannot read from a project: it is not part of it."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from gpu2npu.python.meaning.names import Names


def _same(name: str) -> str:
    return name


def _nothing(module: str, name: str) -> str | None:
    return None


def _never(name: str) -> bool:
    return False


def _unknown(names: Names, call: ast.Call) -> str | None:
    return None


def _no_types(name: str) -> frozenset[str]:
    return frozenset()


class Library(Struct, frozen=True):
    """The library that a project is written for, as far as names and kinds of objects need it. Picklable.

    `packages` are its top-level packages, by which a name may be used that nothing binds (in a cell of a notebook).
    `canonical` gives the usual spelling of one of its qualified names, `starred` the qualified name that a star import
    of one of its modules gives a name (None: it does not bring the name in). `tensors` and `modules` are the classes
    of its tensors and layers; `is_module_class` judges other qualified names. `fluent` are methods of tensors and
    layers that give back the same kind of object, `foreign` packages whose objects are never the library's.

    The rest give types (see `types`), none where nothing is known: `result` of what calling a function of the library
    gives, by its qualified name; `layer_result` of what calling an object of one of its classes gives;
    `tensor_method` and `tensor_attribute` of what a member of a tensor gives. `tensor_fields` are the names of the
    tensors in what functions give that have several. `class_calls` are methods by which a class is called without
    making an object, `object_calls` those that calling an object runs. `integers` are functions that give a whole
    number, "*.name" methods.
    `assumed_result` is what `result` does, and what a function that is not known probably gives. `called` is the
    qualified name of what a call calls, by the flow of values, where it is the library's; it is asked for members of
    `parts`, modules of a package that is itself a value.
    """

    packages: frozenset[str] = frozenset()
    canonical: Callable[[str], str] = _same
    starred: Callable[[str, str], str | None] = _nothing
    tensors: frozenset[str] = frozenset()
    modules: frozenset[str] = frozenset()
    is_module_class: Callable[[str], bool] = _never
    fluent: frozenset[str] = frozenset()
    foreign: frozenset[str] = frozenset()
    result: Callable[[str], frozenset[str]] = _no_types
    layer_result: Callable[[str], frozenset[str]] = _no_types
    tensor_method: Callable[[str], frozenset[str]] = _no_types
    tensor_attribute: Callable[[str], frozenset[str]] = _no_types
    tensor_fields: frozenset[str] = frozenset()
    assumed_result: Callable[[str], frozenset[str]] = _no_types
    class_calls: frozenset[str] = frozenset()
    object_calls: tuple[str, ...] = ("__call__",)
    integers: frozenset[str] = frozenset()
    parts: frozenset[str] = frozenset()
    called: Callable[[Names, ast.Call], str | None] = _unknown

    def has(self, qualified: str) -> bool:
        """Return whether a qualified name is one of the library's, below one of its packages."""
        package, dot, _ = qualified.partition(".")
        return bool(dot) and package in self.packages
