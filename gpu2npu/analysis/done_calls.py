"""The calls in a function or class, by the last name of what is called: one pass, for all matchers."""

from __future__ import annotations

import ast

from gpu2npu.analysis.code import Code
from gpu2npu.python.tree.scopes import Assigned, Scope
from gpu2npu.python.tree.syntax import last_name

Calls = dict[str, list[ast.Call]]


class DoneCalls:
    """The calls of each function and class of a code, those in what it defines included."""

    def __init__(self, code: Code) -> None:
        self._by_scope: dict[Scope, Calls] = {}
        for call, scope in code.calls:
            name = last_name(call.func) or ""
            inner: Scope | None = scope
            while inner is not None and inner.parent is not None:
                self._by_scope.setdefault(inner, {}).setdefault(name, []).append(call)
                inner = inner.parent

    def of(self, scope: Scope) -> Calls:
        return self._by_scope.get(scope, {})


def number(node: ast.AST) -> int | None:
    """The value of an integer, also a negative one."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = number(node.operand)
        return -inner if inner is not None else None
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    return None


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    """The value of a keyword argument."""
    return next((each.value for each in call.keywords if each.arg == name), None)


def same(one: ast.expr, other: ast.expr) -> bool:
    """Return whether two expressions are spelled alike."""
    return type(one) is type(other) and ast.dump(one) == ast.dump(other)


def values_of(node: ast.expr, scope: Scope) -> list[Assigned]:
    """The assignments of a variable of this function."""
    found = scope.lookup(node.id) if isinstance(node, ast.Name) else None
    return [binding for binding in found[1] if isinstance(binding, Assigned)] if found is not None else []
