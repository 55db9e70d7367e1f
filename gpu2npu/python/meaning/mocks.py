"""Names that stand for what a test replaces by `unittest.mock.patch`, or pytest-mock's `mocker.patch`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpu2npu.python.tree.scopes import Assigned, Binding, Parameter, Scope, value_of
from gpu2npu.python.tree.syntax import FUNCTIONS, last_name, parameters, string_value

_PATCH = "patch"
# What a mock has of its own: behind a name, `x.cuda.return_value`, it says that the name is one of a mock.
# https://docs.python.org/3/library/unittest.mock.html#the-mock-class
MOCK_MEMBERS = frozenset(
    {
        "assert_any_call", "assert_called", "assert_called_once", "assert_called_once_with", "assert_called_with",
        "assert_has_calls", "assert_not_called", "call_args", "call_args_list", "call_count", "called", "mock_calls",
        "reset_mock", "return_value", "side_effect",
    }
)  # fmt: skip
_CLASS_NAMES = frozenset({"AsyncMock", "MagicMock", "Mock", "NonCallableMagicMock", "NonCallableMock"})
_MAKERS = frozenset(f"unittest.mock.{name}" for name in (*_CLASS_NAMES, "create_autospec"))
_PATCHES = frozenset({"unittest.mock.patch", "unittest.mock.patch.object"})
# The fixtures of pytest-mock, which have what unittest.mock has: https://pytest-mock.readthedocs.io/en/latest/usage.html
_FIXTURES = frozenset({"class_mocker", "mocker", "module_mocker", "package_mocker", "session_mocker"})
CONFIGURE = "configure_mock"
ATTACH = "attach_mock"  # parent.attach_mock(child, "name")
SET_UP = frozenset({ATTACH, CONFIGURE})
SPECS = frozenset({"spec", "spec_set"})  # arguments that say what a mock has: a list of names, or an object
_BOUND = frozenset({"self", "cls"})


def replaced_by_mock(binding: Binding, scope: Scope) -> str | None:
    """The dotted name that a mock replaces, `package.module.torch`, where a name of this scope is bound to the mock:
    by a decorator, a `with` statement or a call."""
    if isinstance(binding, Assigned):
        return _target(value_of(binding) or binding.entered)
    if not isinstance(binding, Parameter) or not isinstance(scope.node, FUNCTIONS) or not scope.node.decorator_list:
        return None
    names = [each.arg for each in parameters(scope.node)]
    given = names[1:] if names and names[0] in _BOUND else names
    return next(
        (target for name, target in zip(given, _mocks(scope.node), strict=False) if name == binding.node.arg), None
    )


def makes_mock(call: ast.Call, qualified: str | None) -> bool:
    """Return whether a call makes a mock, and is given what the mock has: `Mock(is_cuda=True)`,
    `patch("a.b", is_cuda=True)`; `qualified` is the name of what is called."""
    if qualified in _MAKERS:
        return True
    if qualified in _PATCHES:
        return _makes_mock(call)
    func = call.func
    if qualified is not None or not isinstance(func, ast.Attribute):
        return False
    name, owner = func.attr, func.value
    if name == "object" and isinstance(owner, ast.Attribute) and owner.attr == _PATCH:
        name, owner = _PATCH, owner.value
    if not isinstance(owner, ast.Name) or owner.id not in _FIXTURES:
        return False
    return name in _CLASS_NAMES or name == "create_autospec" or (name == _PATCH and _makes_mock(call))


def spec(call: ast.Call) -> ast.expr | None:
    """The object or class that the call of a class of mocks, or of `create_autospec`, says that the mock is like."""
    given = next((each.value for each in call.keywords if each.arg in SPECS), None)
    has_first = last_name(call.func) in _CLASS_NAMES or last_name(call.func) == "create_autospec"
    return given or (call.args[0] if call.args and has_first else None)


def sets_by_string(func: ast.expr) -> bool:
    """Return whether a callee replaces an attribute for a test: `mock.patch.object`, pytest's `monkeypatch.setattr`."""
    if not isinstance(func, ast.Attribute):
        return False
    return func.attr in ("setattr", "delattr") or (func.attr == "object" and last_name(func.value) == _PATCH)


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
