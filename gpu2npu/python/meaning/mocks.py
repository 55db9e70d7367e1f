"""Names that stand for what a test replaces by `unittest.mock.patch`, or pytest-mock's `mocker.patch`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpu2npu.python.tree.scopes import Assigned, Binding, Parameter, Scope
from gpu2npu.python.tree.syntax import FUNCTIONS, last_name, parameters, string_value

_PATCH = "patch"
_BOUND = frozenset({"self", "cls"})


def replaced_by_mock(binding: Binding, scope: Scope) -> str | None:
    """The dotted name that a mock replaces, `package.module.torch`, where a name of this scope is bound to the mock:
    by a decorator, a `with` statement or a call."""
    if isinstance(binding, Assigned):
        return _target(binding.whole or binding.entered)
    if not isinstance(binding, Parameter) or not isinstance(scope.node, FUNCTIONS) or not scope.node.decorator_list:
        return None
    names = [each.arg for each in parameters(scope.node)]
    given = names[1:] if names and names[0] in _BOUND else names
    return next(
        (target for name, target in zip(given, _mocks(scope.node), strict=False) if name == binding.node.arg), None
    )


def _mocks(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str | None]:
    """Yield what the mocks replace that decorators give to a function, in the order of its parameters."""
    for decorator in reversed(function.decorator_list):
        if isinstance(decorator, ast.Call) and _makes_mock(decorator):
            yield _target(decorator)


def _makes_mock(call: ast.Call) -> bool:
    """Return whether `patch` or `patch.object` makes the mock itself: it is given nothing to put there."""
    func = call.func
    is_object = isinstance(func, ast.Attribute) and func.attr == "object" and last_name(func.value) == _PATCH
    if not is_object and last_name(func) != _PATCH:
        return False
    return len(call.args) == (2 if is_object else 1) and all(keyword.arg != "new" for keyword in call.keywords)


def _target(value: ast.expr | None) -> str | None:
    if not isinstance(value, ast.Call) or last_name(value.func) != _PATCH or not _makes_mock(value):
        return None
    return string_value(value.args[0])
