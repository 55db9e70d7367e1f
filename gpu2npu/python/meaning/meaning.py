"""The meanings that an expression may have when a program runs, in words that hold no nodes of a syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import NamedTuple

from gpu2npu.python.tree.scopes import Scope

_MOST = 8  # meanings of one expression that are followed


class MeaningKind(Enum):
    """The kinds of what an expression means."""

    MODULE = "module"
    FUNCTION = "function"
    CLASS = "class"
    OBJECT = "object"  # of a class of the project
    NAME = "name"  # a qualified name that is not the project's
    INSTANCE = "instance"  # an object of a class that is not the project's; TENSOR for the library's tensors
    MEMBER = "member"  # an attribute of such an object, or one that a class of the project has from such a class


class Meaning(NamedTuple):
    """One thing that an expression may mean.

    With a `path`, `name` is what the file there defines, with the classes around it (the class of an object; "" for the
    module itself); without, a qualified name.
    """

    kind: MeaningKind
    name: str
    path: str = ""


Found = tuple[Meaning, ...]


def defined_name(scope: Scope) -> str | None:
    """The name of the function or class that opens a scope, with those of the classes around it; None within a
    function."""
    parts: list[str] = []
    inner: Scope | None = scope
    while inner is not None and inner.kind != "module":
        if inner.kind != "types":
            if not isinstance(inner.node, ast.ClassDef) and inner is not scope:
                return None
            parts.append(getattr(inner.node, "name", ""))
        inner = inner.parent
    return ".".join(reversed(parts))


def joined(several: Iterable[Iterable[Meaning]]) -> Iterator[Meaning]:
    """All of several findings."""
    for found in several:
        yield from found


def few(found: Iterable[Meaning]) -> Found:
    """The first meanings, each once."""
    retained: dict[Meaning, None] = {}
    for each in found:
        retained[each] = None
        if len(retained) == _MOST:
            break
    return tuple(retained)


def without_modules(found: Iterable[Meaning]) -> Found:
    """Return what an element of a value with these meanings may mean: all of them but modules."""
    return tuple(each for each in found if each.kind is not MeaningKind.MODULE)
