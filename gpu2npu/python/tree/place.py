"""Expressions and statements together with the file they are in, and what is around and inside them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Generic, TypeGuard, TypeVar

from msgspec import Struct

from gpu2npu.python.project.program import ParsedFile
from gpu2npu.python.tree.syntax import (
    FORS,
    FUNCTIONS,
    Function,
    argument_keyword,
    argument_value,
    arguments,
    is_static,
    is_unpacked,
    last_name,
    shallow_nodes,
)

_Node = TypeVar("_Node", bound=ast.AST, covariant=True)


class Place(Struct, Generic[_Node], frozen=True, eq=False):
    """An expression or a statement, and the file it is in."""

    file: ParsedFile
    node: _Node

    @property
    def code(self) -> str:
        """The text of the node."""
        return self.file.code(self.node)

    def at(self, node: _Other) -> Place[_Other]:
        """Another node of the same file."""
        return Place(self.file, node)

    def above(self) -> Iterator[ast.AST]:
        """The nodes above, the nearest first."""
        return self.file.above(self.node)


_Other = TypeVar("_Other", bound=ast.AST)
AnyPlace = Place[ast.AST]
FunctionPlace = Place[Function]
CallPlace = Place[ast.Call]


def argument(call: CallPlace, function: FunctionPlace, parameter: str) -> AnyPlace | None:
    """The expression that a call gives to a parameter; None where it gives none, or in a starred argument."""
    params = function.node.args
    names = [param.arg for param in (*params.posonlyargs, *params.args)]
    if enclosing_class(function) is not None and not is_static(function.node):
        if names[:1] == [parameter] and isinstance(call.node.func, ast.Attribute):
            return call.at(call.node.func.value)
        names = names[1:]
    for index, given in enumerate(arguments(call.node)):
        if is_unpacked(given):
            return None
        keyword = argument_keyword(given)
        if keyword == parameter or (keyword is None and index < len(names) and names[index] == parameter):
            return call.at(argument_value(given))
    return None


def returned(function: FunctionPlace) -> list[AnyPlace]:
    """The expressions that a function returns, and what a generator yields of another iterable."""
    found: list[ast.AST] = []
    yielded: list[ast.expr] = []
    loops: list[ast.For | ast.AsyncFor] = []
    for node in shallow_nodes(function.node.body):
        if isinstance(node, (ast.Return, ast.YieldFrom)):
            found += [node.value] if node.value is not None else []
        elif isinstance(node, ast.Yield) and node.value is not None:
            yielded.append(node.value)
        elif isinstance(node, FORS):
            loops.append(node)
    names = {value.id for value in yielded if isinstance(value, ast.Name)}
    found += [loop.iter for loop in loops if any(last_name(part) in names for part in ast.walk(loop.target))]
    return [function.at(value) for value in found]


def enclosing_function(place: AnyPlace) -> FunctionPlace | None:
    """The function that a place is in."""
    node = function_above(place.file, place.node)
    return place.at(node) if node is not None else None


def function_above(file: ParsedFile, node: ast.AST) -> Function | None:
    """The function that a node is in."""
    return next((above for above in file.above(node) if isinstance(above, FUNCTIONS)), None)


def enclosing_class(place: AnyPlace) -> ast.ClassDef | None:
    """The class of the method that a place is in, or is."""
    for node in place.above():
        if isinstance(node, ast.ClassDef):
            return node
        if isinstance(node, FUNCTIONS) and isinstance(place.node, FUNCTIONS):
            return None  # a function within a function
    return None


def is_integer(node: ast.AST | None) -> TypeGuard[_Integer]:
    """Return whether a node is an integer that is written out."""
    return isinstance(node, ast.Constant) and type(node.value) is int


class _Integer(ast.Constant):
    value: int


def same_name(name: Place[ast.Name], other: ast.expr) -> bool:
    """Return whether an expression of the same file is a name with the same meaning."""
    if not isinstance(other, ast.Name) or other.id != name.node.id:
        return False
    own, others = (name.file.scope_of(node).lookup(other.id) for node in (name.node, other))
    return own is not None and others is not None and own[0] is others[0]
