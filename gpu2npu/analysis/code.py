"""One Python file as the analyses look at it."""

from __future__ import annotations

import ast
from collections.abc import Set

from msgspec import Struct

from gpu2npu.python.meaning.names import Names
from gpu2npu.python.meaning.types import ValueTypes
from gpu2npu.python.tree.file import PythonFile
from gpu2npu.python.tree.scopes import Assigned, Imported, Scope
from gpu2npu.python.tree.syntax import DEFINITIONS, Definition, chain, is_annotation, last_name, local_name

# Calls that ask about what is named in them and do not use it.
_TESTS = frozenset({"isinstance", "issubclass", "hasattr"})


class Code(Struct, frozen=True, eq=False):
    """A file's names and types, and what it does in the order of the source, each with the scope it is done in.

    `mentions` are imported names, and dotted names that may lead to others, that are read and not called: values,
    decorators, base classes.
    `products` are the uses of `*` and `@`, `stores` the assignments to one subscript. A definition is given with the
    scope that it opens.
    """

    names: Names
    types: ValueTypes
    calls: tuple[tuple[ast.Call, Scope], ...]
    mentions: tuple[tuple[ast.expr, Scope], ...]
    products: tuple[tuple[ast.BinOp, Scope], ...]
    stores: tuple[tuple[ast.Assign, Scope], ...]
    definitions: tuple[tuple[Definition, Scope], ...]

    @classmethod
    def of(cls, names: Names) -> Code:
        """The code of a file."""
        file = names.file
        imported = frozenset(local_name(alias, each) for each, _ in file.imports for alias in each.names)
        calls: list[tuple[ast.Call, Scope]] = []
        mentions: list[tuple[ast.expr, Scope]] = []
        products: list[tuple[ast.BinOp, Scope]] = []
        stores: list[tuple[ast.Assign, Scope]] = []
        definitions: list[tuple[Definition, Scope]] = []
        for node, scope in file.uses:
            if isinstance(node, (ast.Constant, ast.keyword)):
                continue
            if isinstance(node, ast.Name):
                if node.id in imported and _is_mention(node, scope, file):
                    mentions.append((node, scope))
            elif isinstance(node, ast.Call):
                calls.append((node, scope))
            elif isinstance(node, ast.Attribute):
                if names.may_lead_on(node) and _is_mention(node, scope, file):
                    mentions.append((node, scope))
            elif isinstance(node, ast.BinOp):
                products.append((node, scope))
            elif isinstance(node, ast.Assign):
                stores.append((node, scope))
            elif isinstance(node, DEFINITIONS):
                definitions.append((node, file.scopes[node]))
        return cls(
            names, ValueTypes(names), tuple(calls), tuple(mentions), tuple(products), tuple(stores), tuple(definitions)
        )

    @property
    def file(self) -> PythonFile:
        return self.names.file

    @property
    def text(self) -> str:
        return self.names.file.text

    def qualified(self, node: ast.AST, scope: Scope) -> str | None:
        """The qualified name that an expression means; see `Names.qualified`."""
        return self.names.qualified(node, scope)


def _is_mention(node: ast.Attribute | ast.Name, scope: Scope, file: PythonFile) -> bool:
    if file.call_of(node) is not None:
        return False
    if isinstance(node, ast.Attribute):
        return isinstance(chain(node)[0], ast.Name)
    found = scope.lookup(node.id)
    return found is not None and any(isinstance(binding, Imported) for binding in found[1])


def is_decorator(node: ast.expr, file: PythonFile) -> bool:
    """Return whether an expression decorates a function or class, which calls it."""
    parent = file.parents[node]
    return isinstance(parent, DEFINITIONS) and node in parent.decorator_list


def is_annotated(node: ast.expr, file: PythonFile) -> bool:
    """Return whether an expression is, or is a part of, an annotation."""
    return any(is_annotation(above, child) for above, child in file.steps(node))


def is_type_tested(node: ast.expr, file: PythonFile) -> bool:
    """Return whether an expression is the type in `isinstance` and the like, or what `type(x)` is compared with."""
    for above, child in file.steps(node):
        if isinstance(above, ast.Compare) and child is not above.left and _calls(above.left, {"type"}):
            return True
        if isinstance(above, ast.Call) and _calls(above, _TESTS) and (child is node or child is not above.args[0]):
            return True
        if isinstance(above, ast.stmt):
            return False
    return False


def _calls(node: ast.expr, functions: Set[str]) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in functions


Calls = dict[str, list[ast.Call]]


class DoneCalls:
    """The calls of each function and class of a code, those in what it defines included."""

    def __init__(self, code: Code) -> None:
        self._by_scope: dict[Scope, Calls] = {}
        for call, scope in code.calls:
            name = last_name(call.func) or ""
            inner: Scope | None = scope
            while inner is not None and inner.parent is not None:
                self._by_scope.setdefault(inner, {}).setdefault(name, []).append(call)
                inner = inner.parent

    def of(self, scope: Scope) -> Calls:
        return self._by_scope.get(scope, {})


def number(node: ast.AST) -> int | None:
    """The value of an integer, also a negative one."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = number(node.operand)
        return -inner if inner is not None else None
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    return None


def values_of(node: ast.expr, scope: Scope) -> list[Assigned]:
    """The assignments of a variable of this function."""
    found = scope.lookup(node.id) if isinstance(node, ast.Name) else None
    return [binding for binding in found[1] if isinstance(binding, Assigned)] if found is not None else []
