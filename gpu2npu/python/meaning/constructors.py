"""The classes outside the project whose `__init__` a call reaches: by `super()`, or through a subclass."""

from __future__ import annotations

import ast
from typing import NamedTuple

from gpu2npu.python.meaning.names import Names
from gpu2npu.python.tree.scopes import Defined, Scope

_DEPTH = 10  # of classes that derive from each other
# Bases whose `__init__` takes nothing and hands everything on.
_PLAIN = frozenset({"object", "builtins.object", "abc.ABC", "typing.Generic", "typing.Protocol"})


class Constructed(NamedTuple):
    """Qualified names: the class whose `__init__` is called, and those to which its arguments may be handed on."""

    first: str | None = None
    further: tuple[str, ...] = ()


def constructed(names: Names, call: ast.Call, scope: Scope) -> Constructed:
    """Return the classes that the arguments of `super().__init__(...)`, of `Base.__init__(self, ...)` or of a call of a
    class of the project are for."""
    func = call.func
    if isinstance(func, ast.Attribute) and func.attr == "__init__":
        if _is_super(func.value):
            cls = scope.enclosing_class()
            return _ordered(_inherited(names, cls)) if cls is not None else Constructed()
        return Constructed(names.qualified(func.value, scope))
    found = names.definition(func, scope)
    if found is None or not isinstance(found.bound.node, ast.ClassDef):
        return Constructed()
    cls = found.bound.scope
    own = [each for each in cls.bindings.get("__init__", ()) if isinstance(each, Defined)]
    if not own and {"__init__", "__new__"}.isdisjoint(cls.bindings):
        return _ordered(_inherited(found.names, cls))
    if len(own) == 1 and _hands_on(own[0].node):
        return Constructed(None, tuple(_inherited(found.names, cls)))
    return Constructed()


def _ordered(classes: list[str]) -> Constructed:
    return Constructed(classes[0], tuple(classes[1:])) if classes else Constructed()


def _is_super(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"


def _inherited(names: Names, cls: Scope, depth: int = _DEPTH) -> list[str]:
    """The classes outside the project that a class inherits `__init__` from, in their order: up to one of the project
    that defines it."""
    reached: list[str] = []
    outer = cls.parent or cls
    for written in cls.node.bases if isinstance(cls.node, ast.ClassDef) and depth else ():
        base = written.value if isinstance(written, ast.Subscript) else written  # Base[T]
        found = names.definition(base, outer)
        if found is None:
            qualified = names.qualified(base, outer)
            reached += [qualified] if qualified is not None and qualified not in _PLAIN else []
        elif "__init__" in found.bound.scope.bindings or found.bound.scope is cls:
            break
        else:
            reached += _inherited(found.names, found.bound.scope, depth - 1)
    return reached


def _hands_on(function: ast.AST) -> bool:
    """Return whether an `__init__` gives any other keyword to the one it overrides."""
    rest = function.args.kwarg if isinstance(function, ast.FunctionDef) else None
    return rest is not None and any(
        keyword.arg is None and isinstance(keyword.value, ast.Name) and keyword.value.id == rest.arg
        for call in ast.walk(function)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "__init__"
        for keyword in call.keywords
    )
