"""Values that a program compares with "npu" and with "cuda": what it does for CUDA is not what it does for the NPU."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence, Set
from typing import NamedTuple

from gpu2npu.python.meaning.live_names import live_bindings
from gpu2npu.python.tree.file import PythonFile
from gpu2npu.python.tree.nodes import ByKind
from gpu2npu.python.tree.scopes import Assigned, Parameter, Scope
from gpu2npu.python.tree.syntax import FUNCTIONS, dotted_name, elements, is_self, last_name, string_value
from gpu2npu.records import Bounds

_Path = tuple[ast.expr, ...]
_NPU, _CUDA, _GPU = "npu", "cuda", "gpu"
_REPLACED: dict[str | None, str] = {_CUDA: _NPU, _GPU: _NPU, "nccl": "hccl"}
_SAME = frozenset({"lower", "strip", "casefold"})  # methods that leave a device the same
_HOLDS = {ast.Eq: True, ast.In: True, ast.NotEq: False, ast.NotIn: False}


class _Value(NamedTuple):
    """A name, or a chain of attributes on it, and the scope that binds it; for `self`, the class."""

    scope: Scope | None
    name: str


class _Comparison(NamedTuple):
    """`device == "cuda"` or `device.startswith("cuda")`, which holds for its text, or `device != "cuda"`"""

    node: ast.Compare | ast.Call
    side: ast.expr
    value: _Value
    texts: frozenset[str]
    holds: bool


def compared_with_cuda(file: PythonFile, kinds: ByKind) -> Iterator[Bounds]:
    """The comparisons with "cuda" of values that are compared with "npu" as well, and the code that then runs."""
    comparisons = [found for node in kinds.get(ast.Compare, ()) for found in _read(node, file)]
    comparisons += [found for node in kinds.get(ast.Call, ()) for found in _read_start(node, file)]
    apart: dict[_Value, list[ast.expr]] = {}
    for each in comparisons:
        if _NPU in each.texts:
            apart.setdefault(each.value, []).append(each.side)
    for each in comparisons if apart else ():
        if each.texts not in ({_CUDA}, {_GPU}):
            continue
        is_apart = any(_is_same(each, other, file) for other in apart.get(each.value, ()))
        if is_apart or _is_given(each.value, apart.keys(), file, kinds):
            guarded = _guarded(each.node, each.holds, file, kinds)
            if guarded is not None:
                yield file.bounds(each.node)
                yield from guarded


def _read(node: ast.Compare, file: PythonFile) -> Iterator[_Comparison]:
    """`device == "cuda"`, `"cuda" in device`, `device in ("cuda", "npu")`"""
    if len(node.ops) != 1 or type(node.ops[0]) not in _HOLDS:
        return
    for given, other in ((node.left, node.comparators[0]), (node.comparators[0], node.left)):
        side = _named(given)
        name = dotted_name(side)
        texts = {string_value(part) for part in (other, *elements(other))} - {None}
        if name is not None and texts:
            holds = _HOLDS[type(node.ops[0])]
            yield _Comparison(node, side, _value(side, name, file), frozenset(filter(None, texts)), holds)


def _read_start(node: ast.Call, file: PythonFile) -> Iterator[_Comparison]:
    """`device.startswith("cuda")`, `device.startswith(("cuda", "npu"))`"""
    if not isinstance(node.func, ast.Attribute) or node.func.attr != "startswith" or len(node.args) != 1:
        return
    side = _named(node.func.value)
    name = dotted_name(side)
    texts = {string_value(part) for part in (node.args[0], *elements(node.args[0]))} - {None}
    if name is not None and texts:
        known = frozenset(text.removesuffix(":") for text in texts if text)
        yield _Comparison(node, side, _value(side, name, file), known, holds=True)


def _named(side: ast.expr) -> ast.expr:
    """The device whose text or type is compared: `device` of `str(device)`, `device.type` and `device.lower()`."""
    while True:
        if isinstance(side, ast.Call) and last_name(side.func) in _SAME and isinstance(side.func, ast.Attribute):
            side = side.func.value
        elif isinstance(side, ast.Call) and dotted_name(side.func) == "str" and len(side.args) == 1:
            side = side.args[0]
        elif isinstance(side, ast.Attribute) and side.attr == "type" and not is_self(side.value):
            side = side.value
        else:
            return side


def _is_same(comparison: _Comparison, other: ast.expr, file: PythonFile) -> bool:
    """Return whether a name may have one value where it is compared and at another use in the same scope."""
    roots = [_root(each) for each in (comparison.side, other)]
    owner, name = comparison.value.scope, comparison.value.name.partition(".")[0]
    bindings = owner.bindings.get(name, []) if owner is not None and name != "self" else []
    if owner is None or not bindings or any(file.scope_of(root) is not owner for root in roots):
        return True
    here, there = (live_bindings(file, bindings, owner, root) for root in roots)
    return any(each in there for each in here)


def _root(node: ast.expr) -> ast.expr:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node


def _value(node: ast.expr, name: str, file: PythonFile) -> _Value:
    scope, root = file.scope_of(node), name.partition(".")[0]
    if root == "self":
        return _Value(scope.enclosing_class(), name)
    found = scope.lookup(root)
    return _Value(None if found is None else found[0], name)


def _is_given(value: _Value, apart: Set[_Value], file: PythonFile, kinds: ByKind) -> bool:
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


def _guarded(node: ast.expr, holds: bool, file: PythonFile, kinds: ByKind, path: _Path = ()) -> list[Bounds] | None:
    """The code that runs only where a test is true, or with `holds` false where it is false: what is asked after it,
    bodies, and those of the names that it is bound to. None where such a name has other values. `path` are the tests on
    the way."""
    if node in path:
        return []
    path = (*path, node)
    above = file.parents[node]
    if isinstance(above, ast.UnaryOp) and isinstance(above.op, ast.Not):
        return _guarded(above, not holds, file, kinds, path)
    if isinstance(above, ast.BoolOp):
        if isinstance(above.op, ast.And) is not holds:
            return []
        after = [file.bounds(value) for value in above.values[above.values.index(node) + 1 :]]
        further = _guarded(above, holds, file, kinds, path)
        return None if further is None else after + further
    if isinstance(above, (ast.If, ast.IfExp)) and above.test is node:
        return list(_bounds(above.body if holds else above.orelse, file))
    if isinstance(above, ast.NamedExpr) or (
        isinstance(above, ast.Tuple) and isinstance(file.parents[above], ast.Assign)
    ):
        return None
    target = _target(above)
    return [] if target is None else _guarded_by_name(target, holds, file, kinds, path)


def _guarded_by_name(
    target: ast.expr, holds: bool, file: PythonFile, kinds: ByKind, path: _Path
) -> list[Bounds] | None:
    """The same for a name, or an attribute of `self`, that is bound to a test: where all else it is bound to is a
    constant that is no more true than the test."""
    bound = file.scope_of(target).bound(target)
    values = [each.whole if isinstance(each, Assigned) else None for each in bound]
    others = [value for value in values if value is not path[-1]]
    if not bound or not all(isinstance(value, ast.Constant) and bool(value.value) is not holds for value in others):
        return None
    found: list[Bounds] = []
    for use in kinds.get(type(target), ()):
        is_read = isinstance(use.ctx, ast.Load) and last_name(use) == last_name(target)
        if is_read and file.scope_of(use).bound(use) == bound:
            guarded = _guarded(use, holds, file, kinds, path)
            if guarded is None:
                return None
            found += guarded
    return found


def _target(statement: ast.AST) -> ast.expr | None:
    """Return the name or attribute that a statement binds; None where it binds several or none."""
    if isinstance(statement, ast.Assign):
        return statement.targets[0] if len(statement.targets) == 1 else None
    return statement.target if isinstance(statement, ast.AnnAssign) else None


def _bounds(body: Sequence[ast.stmt] | ast.expr, file: PythonFile) -> Iterator[Bounds]:
    if isinstance(body, ast.expr):
        yield file.bounds(body)
    elif body:
        yield file.bounds(body[0])[0], file.bounds(body[-1])[1]
