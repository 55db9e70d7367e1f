"""Values that a program compares with "npu" and with "cuda": what it does for CUDA is not what it does for the NPU."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import NamedTuple, cast

from gpu2npu.python.tree.file import PythonFile
from gpu2npu.python.tree.nodes import ByKind
from gpu2npu.python.tree.scopes import Parameter, Scope
from gpu2npu.python.tree.syntax import FUNCTIONS, dotted_name, elements, string_value
from gpu2npu.records import Bounds

_NPU, _CUDA = "npu", "cuda"
_HOLDS = {ast.Eq: True, ast.In: True, ast.NotEq: False, ast.NotIn: False}


class _Value(NamedTuple):
    """A name, or a chain of attributes on it, and the scope that binds it; for `self`, the class."""

    scope: Scope | None
    name: str


class _Comparison(NamedTuple):
    """`device == "cuda"` or `device.startswith("cuda")`, which holds for its text, or `device != "cuda"`"""

    node: ast.Compare | ast.Call
    value: _Value
    texts: frozenset[str]
    holds: bool


def compared_with_cuda(file: PythonFile, kinds: ByKind) -> Iterator[Bounds]:
    """The comparisons with "cuda" of values that are compared with "npu" as well, and the code that then runs."""
    comparisons = [found for node in kinds.get(ast.Compare, ()) for found in _read(node, file)]
    comparisons += [found for node in kinds.get(ast.Call, ()) for found in _read_start(node, file)]
    apart = {each.value for each in comparisons if _NPU in each.texts}
    if not apart:
        return
    for each in comparisons:
        if each.texts == {_CUDA} and (each.value in apart or _is_given(each.value, apart, file, kinds)):
            yield file.bounds(each.node)
            yield from _guarded(each, file)


def _read(node: ast.Compare, file: PythonFile) -> Iterator[_Comparison]:
    """`device == "cuda"`, `"cuda" in device`, `device in ("cuda", "npu")`"""
    if len(node.ops) != 1 or type(node.ops[0]) not in _HOLDS:
        return
    for side, other in ((node.left, node.comparators[0]), (node.comparators[0], node.left)):
        name = dotted_name(side)
        texts = {string_value(part) for part in (other, *elements(other))} - {None}
        if name is not None and texts:
            holds = _HOLDS[type(node.ops[0])]
            yield _Comparison(node, _value(side, name, file), frozenset(text for text in texts if text), holds)


def _read_start(node: ast.Call, file: PythonFile) -> Iterator[_Comparison]:
    """`device.startswith("cuda")`, `device.startswith(("cuda", "npu"))`"""
    if not isinstance(node.func, ast.Attribute) or node.func.attr != "startswith" or len(node.args) != 1:
        return
    side = node.func.value
    name = dotted_name(side)
    texts = {string_value(part) for part in (node.args[0], *elements(node.args[0]))} - {None}
    if name is not None and texts:
        known = frozenset(text.removesuffix(":") for text in texts if text)
        yield _Comparison(node, _value(side, name, file), known, holds=True)


def _value(node: ast.expr, name: str, file: PythonFile) -> _Value:
    scope, root = file.scope_of(node), name.partition(".")[0]
    if root == "self":
        return _Value(scope.enclosing_class(), name)
    found = scope.lookup(root)
    return _Value(None if found is None else found[0], name)


def _is_given(value: _Value, apart: set[_Value], file: PythonFile, kinds: ByKind) -> bool:
    """Return whether every call in the file gives a parameter one of these values."""
    function = value.scope.node if value.scope is not None else None
    if value.scope is None or not isinstance(function, FUNCTIONS):
        return False
    bindings = value.scope.bindings.get(value.name, [])
    if len(bindings) != 1 or not isinstance(bindings[0], Parameter):
        return False
    position = bindings[0].position
    calls = [
        node for node in kinds.get(ast.Call, ()) if isinstance(node.func, ast.Name) and node.func.id == function.name
    ]
    given = [_argument(call, position, value.name) for call in calls]
    names = [(each, dotted_name(each)) for each in given if each is not None]
    return bool(calls) and len(names) == len(calls) and all(n and _value(each, n, file) in apart for each, n in names)


def _argument(call: ast.Call, position: int, name: str) -> ast.expr | None:
    by_name = next((keyword.value for keyword in call.keywords if keyword.arg == name), None)
    return call.args[position] if by_name is None and 0 <= position < len(call.args) else by_name


def _guarded(comparison: _Comparison, file: PythonFile) -> Iterator[Bounds]:
    """The code that runs where a comparison finds CUDA: alone, or with more conditions, which are asked after it."""
    test: ast.AST = comparison.node
    while isinstance(above := file.parents[test], ast.BoolOp) and isinstance(above.op, ast.And):
        if comparison.holds:
            yield from (file.bounds(value) for value in above.values[above.values.index(cast(ast.expr, test)) + 1 :])
        test = above
    if isinstance(above, (ast.If, ast.IfExp)) and above.test is test and (comparison.holds or test is comparison.node):
        body = above.body if comparison.holds else above.orelse
        yield from _bounds(body, file)


def _bounds(body: Sequence[ast.stmt] | ast.expr, file: PythonFile) -> Iterator[Bounds]:
    if isinstance(body, ast.expr):
        yield file.bounds(body)
    elif body:
        yield file.bounds(body[0])[0], file.bounds(body[-1])[1]
