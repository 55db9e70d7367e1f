"""Places that a program reaches only where PyTorch has what they need: it asks first, or catches the error."""

from __future__ import annotations

import ast
import re

from gpu2npu.python.tree.file import PythonFile
from gpu2npu.python.tree.scopes import Imported
from gpu2npu.python.tree.syntax import string_value

_MISSING = ("ImportError", "ModuleNotFoundError", "AttributeError", "Exception", "BaseException")
# `torch.__version__`, `TORCH_VERSION`, `TORCH_2_4`, `is_torch_greater_or_equal`, `torch_version_ge`
_VERSION = re.compile(
    r"torch\.__version__|torch\w*version|torch_?\d|torch_(ge|gt|le|lt|greater|less|at_least|min)", re.IGNORECASE
)


def guarded(file: PythonFile, use: ast.expr, name: str, release: str) -> bool:
    """Return whether an expression of a file is guarded, which uses `name`, the last part of an API that came with a
    release of PyTorch: by a `hasattr` of it, a comparison of versions, a call that asks for that release, or a `try`
    that goes on without it; around the use, or around the import of the name."""
    found = file.scope_of(use).lookup(use.id) if isinstance(use, ast.Name) else None
    imports = [each.statement for each in found[1] if isinstance(each, Imported)] if found is not None else []
    return any(_is_under_guard(file, each, name, release) for each in (use, *imports))


def _is_under_guard(file: PythonFile, use: ast.expr | ast.stmt, name: str, release: str) -> bool:
    below: ast.AST = use
    for node in file.above(use):
        if _guards(node, below, name, release):
            return True
        below = node
    return False


def _guards(node: ast.AST, below: ast.AST, name: str, release: str) -> bool:
    """Return whether the part `below` of a node runs only where the node has made sure of `name`."""
    if isinstance(node, ast.Try):
        return below in node.body and any(map(_goes_on, node.handlers))
    if isinstance(node, (ast.If, ast.IfExp)):
        return below is not node.test and _tests(node.test, name, release)
    if isinstance(node, ast.BoolOp):
        return any(_tests(value, name, release) for value in node.values[: node.values.index(below)])  # type: ignore[arg-type]
    return False


def _goes_on(handler: ast.ExceptHandler) -> bool:
    """Return whether a handler catches what a missing name raises, and raises nothing itself."""
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    names = [getattr(each, "id", "") for each in caught]
    catches = handler.type is None or any(each in _MISSING for each in names)
    return catches and not any(isinstance(node, ast.Raise) for each in handler.body for node in ast.walk(each))


def _tests(test: ast.expr, name: str, release: str) -> bool:
    """Return whether a condition is about `name` or about the release of PyTorch."""
    for node in ast.walk(test):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "hasattr":
            if len(node.args) > 1 and isinstance(node.args[1], ast.Constant) and node.args[1].value == name:
                return True
        elif isinstance(node, (ast.Name, ast.Attribute)) and _VERSION.search(ast.unparse(node)):
            return True
        if isinstance(node, ast.Call) and any(_is_number_of(string_value(each), release) for each in node.args):
            return True
    return False


def _is_number_of(text: str | None, release: str) -> bool:
    """Return whether a text is the number of a release, with or without its last part: "2.9" of "2.9.0"."""
    return text is not None and text in (release, release.rpartition(".")[0])
