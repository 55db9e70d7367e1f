"""Places that a program reaches only where PyTorch has what they need: it asks first, or catches the error."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

_MISSING = ("ImportError", "ModuleNotFoundError", "AttributeError", "Exception", "BaseException")
# `torch.__version__`, `TORCH_VERSION`, `TORCH_2_4`, `is_torch_greater_or_equal`, `torch_version_ge`
_VERSION = re.compile(
    r"torch\.__version__|torch\w*version|torch_?\d|torch_(ge|gt|le|lt|greater|less|at_least|min)", re.IGNORECASE
)


def guarded(tree: ast.AST, use: ast.expr, name: str) -> bool:
    """Tell whether an expression of `tree`, which uses `name`, the last part of an API, is guarded: by a `hasattr` of
    it, a comparison of versions, or a `try` that goes on without it."""
    place = (use.lineno, use.col_offset)
    return any(
        (node.lineno, node.col_offset) <= place < (node.end_lineno or 0, node.end_col_offset or 0)
        for node in _guarded(tree, name)
    )


def _guarded(tree: ast.AST, name: str) -> Iterator[ast.stmt | ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Try):
            if any(map(_goes_on, node.handlers)):
                yield from node.body
        elif isinstance(node, (ast.If, ast.IfExp)):
            if _asks(node.test, name):
                yield from _parts(node.body)
                yield from _parts(node.orelse)
        elif isinstance(node, ast.BoolOp):
            asked = [_asks(value, name) for value in node.values]
            if True in asked:
                yield from node.values[asked.index(True) + 1 :]


def _parts(body: ast.expr | Sequence[ast.stmt]) -> Sequence[ast.stmt | ast.expr]:
    return [body] if isinstance(body, ast.expr) else body


def _goes_on(handler: ast.ExceptHandler) -> bool:
    """Tell whether a handler catches what a missing name raises, and raises nothing itself."""
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    names = [getattr(each, "id", "") for each in caught]
    catches = handler.type is None or any(each in _MISSING for each in names)
    return catches and not any(isinstance(node, ast.Raise) for each in handler.body for node in ast.walk(each))


def _asks(test: ast.expr, name: str) -> bool:
    """Tell whether a condition is about `name` or about the release of PyTorch."""
    for node in ast.walk(test):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "hasattr":
            if len(node.args) > 1 and isinstance(node.args[1], ast.Constant) and node.args[1].value == name:
                return True
        elif isinstance(node, (ast.Name, ast.Attribute)) and _VERSION.search(ast.unparse(node)):
            return True
    return False
