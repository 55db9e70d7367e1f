"""The project's own functions that calls run."""

from __future__ import annotations

import ast

from gpu2npu.python.meaning.names import Definition, Names
from gpu2npu.python.tree.scopes import Defined, Scope
from gpu2npu.python.tree.syntax import FUNCTIONS, Function, is_classmethod, is_static, is_super

_MAX_STEPS = 10


def called_function(names: Names, func: ast.expr, scope: Scope) -> tuple[Names, Function, bool] | None:
    """The project's own function that a call runs, perhaps an `__init__`, with the names of its file; True where
    its first parameter is given without being written."""
    made = names.definition(func, scope)
    if made is not None:
        return _own_function(made)
    if not isinstance(func, ast.Attribute):
        return None
    if is_super(func.value):
        cls = scope.enclosing_class()
        for base in cls.node.bases if cls is not None and isinstance(cls.node, ast.ClassDef) else ():
            above = names.definition(base, cls.parent or cls) if cls is not None else None
            found = _method(above, func.attr) if above is not None else None
            if found is not None:
                return found
        return None
    is_made = isinstance(func.value, ast.Call)
    of_class = names.definition(func.value.func if isinstance(func.value, ast.Call) else func.value, scope)
    found = _method(of_class, func.attr) if of_class is not None else None
    return found and (found[0], found[1], found[2] and (is_made or is_classmethod(found[1])))


def _own_function(made: Definition) -> tuple[Names, Function, bool] | None:
    node = made.bound.node
    return _method(made, "__init__") if isinstance(node, ast.ClassDef) else (made.names, node, False)


def _method(cls: Definition, name: str, depth: int = _MAX_STEPS) -> tuple[Names, Function, bool] | None:
    """The method that a class of the project defines or inherits from another one; None where several may be meant."""
    node, scope = cls.bound.node, cls.bound.scope
    if not isinstance(node, ast.ClassDef):
        return None
    bound = scope.bindings.get(name, ())
    if bound:
        method = bound[0].node if len(bound) == 1 and isinstance(bound[0], Defined) else None
        return (cls.names, method, not is_static(method)) if isinstance(method, FUNCTIONS) else None
    for base in node.bases if depth else ():
        above = cls.names.definition(base, scope.parent or scope)
        found = _method(above, name, depth - 1) if above is not None else None
        if found is not None:
            return found
    return None
