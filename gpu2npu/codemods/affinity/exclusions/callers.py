"""Calls of a function of the program, found by its name."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Set

from gpu2npu.codemods.program.files import ParsedFile, TrainingProgram
from gpu2npu.python.tree.scopes import Defined, Imported
from gpu2npu.python.tree.syntax import DEFINITIONS, Definition, Function, last_name

# Nodes that give a function or class on as a value, and functions that only look at one.
_COLLECTIONS = (ast.Dict, ast.List, ast.Tuple, ast.Set, ast.Starred)
_CARRIERS = (*_COLLECTIONS, ast.Call, ast.keyword, ast.Assign, ast.Return, ast.IfExp, ast.BoolOp, ast.NamedExpr)
_LOOKS = frozenset({"isinstance", "issubclass", "super"})
# Methods that are called by the name of an object.
OF_OBJECTS = frozenset({"__call__", "forward"})

# A call, or a definition that the function decorates without a call of its own.
Caller = tuple[ParsedFile, ast.Call | Definition]


def callers_of(program: TrainingProgram, file: ParsedFile, function: Function) -> list[Caller] | None:
    """The callers of a function, or of the class whose `__init__` it is; None where it is also called by another name,
    or as a value."""
    names = {function.name}
    cls = file.parents[function]
    if isinstance(cls, ast.ClassDef):
        if function.name in OF_OBJECTS:
            return None
        if function.name == "__init__":
            names = _subclasses(program, cls.name)
    found: list[Caller] = []
    for other in _spelling(program, names):
        if any(each.asname and each.name.rpartition(".")[2] in names for each in other.nodes(ast.alias)):
            return None
        for node in _named(other, names):
            parent = other.parents[node]
            if (isinstance(parent, ast.Call) and parent.func is node) or (
                isinstance(parent, DEFINITIONS) and node in parent.decorator_list
            ):
                found.append((other, parent))
            elif _is_value(other, node, parent, isinstance(cls, ast.ClassDef)):
                return None
    return found


def _subclasses(program: TrainingProgram, name: str) -> set[str]:
    """The names of a class and of the classes that inherit from it."""
    found: set[str] = set()
    pending = {name}
    while pending:
        found |= pending
        pending = {
            each.name
            for file in _spelling(program, pending)
            for each in file.nodes(ast.ClassDef)
            if any(last_name(base) in pending for base in each.bases)
        } - found
    return found


def _spelling(program: TrainingProgram, names: Set[str]) -> Iterator[ParsedFile]:
    return program.with_word(rb"\b(?:" + b"|".join(sorted(each.encode() for each in names)) + rb")\b")


def _named(file: ParsedFile, names: Set[str]) -> Iterator[ast.Name | ast.Attribute]:
    yield from (each for each in file.nodes(ast.Name) if each.id in names and isinstance(each.ctx, ast.Load))
    yield from (each for each in file.nodes(ast.Attribute) if each.attr in names and isinstance(each.ctx, ast.Load))


def _is_value(file: ParsedFile, node: ast.Name | ast.Attribute, parent: ast.AST, is_method: bool) -> bool:
    """Return whether a name that means a function may be given on, to be called elsewhere."""
    if not isinstance(parent, _CARRIERS) or (isinstance(parent, ast.Call) and last_name(parent.func) in _LOOKS):
        return False
    if isinstance(node, ast.Attribute):
        return is_method or file.qualified(node) is not None
    return any(isinstance(each, (Defined, Imported)) for each in file.scope_of(node).bound(node))
