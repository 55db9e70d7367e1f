"""Uses of a name: as a type alone, as another name for something, for the answer of its call."""

from __future__ import annotations

import ast

from gpu2npu.python.tree.file import PythonFile
from gpu2npu.python.tree.scopes import Assigned, Binding, Imported, Scope, value_of
from gpu2npu.python.tree.syntax import dotted_name, is_annotation, last_name

# What may be between a type and the place that asks for it.
OF_TYPES = (ast.Attribute, ast.Tuple, ast.List, ast.BinOp, ast.Subscript)


def is_in_annotation(file: PythonFile, node: ast.expr) -> bool:
    """Return whether a string is a type, somewhere inside an annotation: `Optional["torch.cuda.Stream"]`."""
    for above, below in file.steps(node):
        if is_annotation(above, below):
            return True
        if isinstance(above, ast.Subscript) and last_name(above.value) == "Literal":  # its strings are values
            return False
        if not isinstance(above, (ast.Subscript, ast.Tuple, ast.BinOp)):
            return False
    return False


def stands_for(binding: Binding, interesting: set[str]) -> bool:
    """Return whether a name is bound to something with one of the interesting names in its own."""
    if isinstance(binding, Imported):
        return not interesting.isdisjoint(binding.qualified.split("."))
    dotted = dotted_name(value) if (value := value_of(binding)) is not None else None
    return dotted is not None and not interesting.isdisjoint(dotted.split("."))


def is_alias(name: str, scope: Scope) -> bool:
    """Return whether a name is bound by an assignment: what it stands for was judged there."""
    found = scope.lookup(name)
    return found is not None and all(isinstance(binding, Assigned) for binding in found[1])


def has_answer(node: ast.Call) -> bool:
    """Return whether the program goes on if a name does not exist: `hasattr`, `getattr` with a default."""
    return isinstance(node.func, ast.Name) and (node.func.id == "hasattr" or len(node.args) > 2)


def is_type_checking(test: ast.AST) -> bool:
    return (dotted_name(test) or "").rpartition(".")[2] == "TYPE_CHECKING"
