"""Functions of the project that capture graphs, where the chosen release of torch_npu cannot: what stands beside them
under a condition on the device does the same without."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from gpu2npu.engine.table import RuleTable
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.tree.nodes import walk
from gpu2npu.python.tree.scopes import Scope
from gpu2npu.python.tree.syntax import FUNCTIONS, Function
from gpu2npu.records import FindingKind

_DEPTH = 3


def is_capture(body: Sequence[ast.stmt], other: Sequence[ast.stmt], names: Names, table: RuleTable) -> bool:
    """Return whether a statement calls what captures a graph that the release lacks, and `other` gives the same
    without: both return, or both assign the same names."""
    if len(body) != 1 or not other or not _gives_the_same(body[0], other[-1]):
        return False
    value = getattr(body[0], "value", None)
    return isinstance(value, ast.Call) and _captures(value, names.file.scope_of(value), names, table, _DEPTH)


def _gives_the_same(one: ast.stmt, other: ast.stmt) -> bool:
    if isinstance(one, ast.Assign) and isinstance(other, ast.Assign):
        return [ast.dump(target) for target in one.targets] == [ast.dump(target) for target in other.targets]
    return isinstance(one, ast.Return) and isinstance(other, ast.Return)


def _captures(call: ast.Call, scope: Scope, names: Names, table: RuleTable, depth: int) -> bool:
    found = _function(call, scope, names)
    if found is None or not depth:
        return False
    function, home = found
    for node in walk(function):
        if isinstance(node, ast.Attribute) and _is_lacking(node, home, table):
            return True
        if isinstance(node, ast.Call) and _captures(node, home.file.scope_of(node), home, table, depth - 1):
            return True
    return False


def _is_lacking(node: ast.Attribute, names: Names, table: RuleTable) -> bool:
    """`torch.cuda.CUDAGraph` in a release without graphs"""
    return _lacks(names.qualified(node, names.file.scope_of(node)) or "", table)


def _lacks(qualified: str, table: RuleTable) -> bool:
    found = table.rule_for(qualified)
    report = found[0].then.report if found is not None and found[0].lacks is not None else None
    return report is not None and report.kind is FindingKind.UNSUPPORTED


def _function(call: ast.Call, scope: Scope, names: Names) -> tuple[Function, Names] | None:
    """The function or method of the project that is called, and the names of its file."""
    if isinstance(call.func, ast.Attribute):
        method = names.method(call.func, scope)
        if method is not None:
            return method.function, names
    found = names.definition(call.func, scope)
    function = found.bound.node if found is not None else None
    return (function, found.names) if found is not None and isinstance(function, FUNCTIONS) else None
