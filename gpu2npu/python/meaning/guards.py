"""The classes that the code around a value says it is of: `isinstance(value, Tensor) and value.is_cuda`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeGuard

from gpu2npu.python.meaning.names import Names
from gpu2npu.python.tree.syntax import dotted_name, elements


def guarded_classes(node: ast.AST, names: Names) -> frozenset[str]:
    """Return the qualified names of the classes of which a condition around a name, or a chain of attributes, says that
    it is one; empty where none does."""
    name = dotted_name(node)
    asked = (_asked(call, name, names) for test in _conditions(node, names) for call in _certain(test)) if name else ()
    return next((classes for classes in asked if classes), frozenset())


def _conditions(node: ast.AST, names: Names) -> Iterator[ast.expr]:
    """The conditions that hold where a node is evaluated, the nearest first."""
    below = node
    for above in names.file.above(node):
        if isinstance(above, ast.BoolOp) and isinstance(above.op, ast.And):
            yield from above.values[: above.values.index(below)] if isinstance(below, ast.expr) else ()
        elif _runs_if_true(above, below):
            yield above.test
        elif isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            return
        below = above


def _runs_if_true(node: ast.AST, part: ast.AST) -> TypeGuard[ast.IfExp | ast.If | ast.While]:
    """Return whether a part of a node is evaluated only where its condition holds."""
    if isinstance(node, ast.IfExp):
        return part is node.body
    return isinstance(node, (ast.If, ast.While)) and part in node.body


def _certain(test: ast.expr) -> Iterator[ast.expr]:
    """The parts of a condition that all hold where it does."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        for value in test.values:
            yield from _certain(value)
    else:
        yield test


def _asked(call: ast.expr, name: str, names: Names) -> frozenset[str]:
    """The classes of `isinstance(name, ...)`; none where another call stands there, or a class is not known by name."""
    if not isinstance(call, ast.Call) or dotted_name(call.func) != "isinstance" or len(call.args) != 2:
        return frozenset()
    value, classes = call.args
    if dotted_name(value) != name:
        return frozenset()
    scope = names.file.scope_of(call)
    found = [names.qualified(each, scope) for each in (elements(classes) or [classes])]
    return frozenset(each for each in found if each) if all(found) else frozenset()
