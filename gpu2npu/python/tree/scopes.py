"""Scopes and bindings: which scope binds which name to what, as the interpreter's own `symtable` has it.

Python decides a name's scope by all its bindings, wherever they are, so look-ups start only after a walk over the
whole module.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gpu2npu.python.tree.syntax import Definition, Import, is_self


class Imported(NamedTuple):
    """A name bound by an import. `qualified` starts with dots when the import is relative; `renamed` means that the
    statement gives it another name with `as`."""

    qualified: str
    statement: Import
    alias: ast.alias
    renamed: bool


class Assigned(NamedTuple):
    """A name bound to `value` by `statement`, or with `is_part` to a part of it: `a` in `a, b = value` or `for a in
    value`. `value` is None where it is not known (`with`, `except`, `del`, `x += 1`)."""

    value: ast.expr | None
    statement: ast.AST
    annotation: ast.expr | None = None
    is_part: bool = False

    @property
    def entered(self) -> ast.expr | None:
        """The context manager of `with manager as name`, which is what most of them give the name."""
        item = self.statement
        return (
            item.context_expr if isinstance(item, ast.withitem) and isinstance(item.optional_vars, ast.Name) else None
        )


class Parameter(NamedTuple):
    """A name bound by a function's signature, at `position` from 0; -1 for those with stars."""

    node: ast.arg
    position: int

    @property
    def annotation(self) -> ast.expr | None:
        return self.node.annotation


class Defined(NamedTuple):
    """A name bound by `def` or `class`, and the scope that opens."""

    node: Definition
    scope: Scope


Binding = Imported | Assigned | Parameter | Defined


def value_of(binding: Binding | None) -> ast.expr | None:
    """The expression whose value a binding gives a name; None where it gives a part of one or assigns none."""
    return binding.value if isinstance(binding, Assigned) and not binding.is_part else None


class Scope:
    """One Python scope of the kind "module", "class", "function" (lambdas and comprehensions too) or "types" (the
    parameters in the brackets of a generic definition). `attributes` are what the methods of a class assign to `self`,
    each with the method's scope. `declared` are names with a `global` or `nonlocal` statement."""

    __slots__ = ("attributes", "bindings", "declared", "kind", "node", "parent")

    def __init__(self, kind: str, parent: Scope | None, node: ast.AST) -> None:
        self.kind = kind
        self.parent = parent
        self.node = node
        self.bindings: dict[str, list[Binding]] = {}
        self.declared: dict[str, str] = {}
        self.attributes: dict[str, list[tuple[Assigned, Scope]]] = {}

    @property
    def module(self) -> Scope:
        """The scope of the module."""
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope

    @property
    def bases(self) -> list[ast.expr]:
        """The bases that a class names, without their type arguments."""
        written = self.node.bases if isinstance(self.node, ast.ClassDef) else []
        return [base.value if isinstance(base, ast.Subscript) else base for base in written]  # Base[T]

    def enclosing(self) -> Iterator[Scope]:
        """The outer scopes in which a name is looked up; of classes only the type parameters for their own methods."""
        below, scope = self, self.parent
        while scope is not None:
            if scope.kind != "class" or below.kind == "types":
                yield scope
            below, scope = scope, scope.parent

    def owner(self, name: str) -> Scope:
        """The scope in which a statement here that binds `name` binds it."""
        declared = self.declared.get(name)
        if declared == "global":
            return self.module
        if declared == "nonlocal":
            outer = (scope for scope in self.enclosing() if scope.kind != "module" and name in scope.bindings)
            return next(outer, self)
        return self

    def lookup(self, name: str) -> tuple[Scope, list[Binding]] | None:
        """The scope that a use of `name` here refers to, with all its bindings there; None for a free name."""
        if name in self.declared:
            owner = self.owner(name)
            return (owner, owner.bindings[name]) if name in owner.bindings else None
        if name in self.bindings:
            return self, self.bindings[name]
        below, scope = self, self.parent
        while scope is not None:  # as in `enclosing`, which takes longer
            if scope.kind != "class" or below.kind == "types":
                if name in scope.declared and scope.kind != "module":
                    return scope.lookup(name)
                if name in scope.bindings:
                    return scope, scope.bindings[name]
            below, scope = scope, scope.parent
        return None

    def bound(self, node: ast.AST) -> Sequence[Binding]:
        """The bindings of what a name, or an attribute of `self`, refers to here; none of any other expression."""
        if isinstance(node, ast.Name):
            found = self.lookup(node.id)
            return found[1] if found is not None else ()
        if not isinstance(node, ast.Attribute) or not is_self(node.value):
            return ()
        cls = self.enclosing_class()
        return [assigned for assigned, _ in cls.attributes.get(node.attr, ())] if cls is not None else ()

    def values(self, node: ast.AST) -> list[ast.expr | None]:
        """The expressions whose values a name, or an attribute of `self`, is given here: one for each binding."""
        return [value_of(each) for each in self.bound(node)]

    def only_value(self, name: str) -> ast.expr | None:
        """The expression that a name refers to here, where one assignment binds the name and nothing else does."""
        found = self.lookup(name)
        return value_of(found[1][0]) if found is not None and len(found[1]) == 1 else None

    def enclosing_class(self) -> Scope | None:
        """The class whose method, or function within a method, this scope is in."""
        scope: Scope | None = self
        while scope is not None and scope.kind != "class":
            scope = scope.parent
        return scope

    def function(self) -> Scope:
        """The scope in which `:=` binds from here: comprehensions hand it on."""
        scope = self
        while isinstance(scope.node, _COMPREHENSIONS) and scope.parent is not None:
            scope = scope.parent
        return scope


class Scopes(dict[ast.AST, Scope]):
    """The scopes of a file, by the nodes that open them. A scope knows the one around it and those within, in circles
    that would keep the whole tree in memory until the garbage collector comes: they end with this table, which all
    that look at the file hold."""

    def __del__(self) -> None:
        for scope in self.values():
            scope.parent = None


_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
