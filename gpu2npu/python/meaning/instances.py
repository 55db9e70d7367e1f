"""The qualified names of the classes that an object is of, those outside the project too: by what it is made from, by
conditions around it, by what its class inherits."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple, TypeGuard

from gpu2npu.python.meaning.names import Names
from gpu2npu.python.meaning.types import OTHER, UNKNOWN, Own, ValueTypes
from gpu2npu.python.tree.scopes import Assigned, Defined, Parameter, Scope
from gpu2npu.python.tree.syntax import FUNCTIONS, dotted_name, elements, is_super
from gpu2npu.python.tree.syntax_tree import alternatives

_MAX_BASES = 10  # of classes that derive from each other


class Instances:
    """Judges for the expressions of one file whether they are objects of a class or of its subclasses."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.types = ValueTypes(names)

    def is_one(self, node: ast.expr, scope: Scope, wanted: str) -> bool | None:
        """Return whether the value of an expression is an object of the class with a qualified name, or of a class of
        the project that derives from it; None where nothing tells."""
        classes = set(self.classes(node, scope))
        if wanted in classes:
            return True
        types = self.types.of(node, scope)
        own = [each for each in types if isinstance(each, Own)]
        if any(derives(each.names, each.cls, wanted) for each in own):
            return True
        is_known = bool(own or classes) or (bool(types) and UNKNOWN not in types and OTHER not in types)
        return False if is_known or types == {OTHER} else None

    def classes(self, node: ast.expr, scope: Scope) -> Iterator[str]:
        """The qualified names of the classes that a call, an assignment or an annotation gives."""
        for call in self.names.calls(node, scope):
            callee = self.names.qualified(call.func, scope)
            if callee is not None and callee.rpartition(".")[2][:1].isupper():
                yield callee
            yield from self._returned(call, scope)
        found = scope.lookup(node.id) if isinstance(node, ast.Name) else None
        for binding in found[1] if found is not None else ():
            if isinstance(binding, (Parameter, Assigned)) and binding.annotation is not None:
                for each in alternatives(binding.annotation):
                    name = self.names.qualified(each, found[0] if found is not None else scope)
                    if name is not None:
                        yield name

    def _returned(self, call: ast.Call, scope: Scope) -> Iterator[str]:
        """The classes that a function of the project says it returns."""
        found = self.names.definition(call.func, scope)
        if found is None or not isinstance(found.bound.node, FUNCTIONS) or found.bound.node.returns is None:
            return
        outer = found.bound.scope.parent or found.bound.scope
        for each in alternatives(found.bound.node.returns):
            name = found.names.qualified(each, outer)
            if name is not None:
                yield name


def derives(names: Names, cls: Scope, wanted: str, depth: int = _MAX_BASES) -> bool:
    """Return whether a class of a file has the class of a qualified name among its bases, or theirs."""
    if not isinstance(cls.node, ast.ClassDef) or not depth:
        return False
    outer = cls.parent or cls
    for written in cls.node.bases:
        base = written.value if isinstance(written, ast.Subscript) else written  # Base[T]
        if names.qualified(base, outer) == wanted:
            return True
        found = names.definition(base, outer)
        if (
            found is not None
            and found.bound.scope is not cls
            and derives(found.names, found.bound.scope, wanted, depth - 1)
        ):
            return True
    return False


# Bases whose `__init__` takes nothing and hands everything on.
_PLAIN = frozenset({"object", "builtins.object", "abc.ABC", "typing.Generic", "typing.Protocol"})


class Constructed(NamedTuple):
    """Qualified names: the class whose `__init__` is called, and those to which its arguments may be handed on."""

    first: str | None = None
    further: tuple[str, ...] = ()


def constructed(names: Names, call: ast.Call, scope: Scope) -> Constructed:
    """Return the classes that the arguments of `super().__init__(...)`, of `Base.__init__(self, ...)` or of a call of a
    class of the project are for."""
    func = call.func
    if isinstance(func, ast.Attribute) and func.attr == "__init__":
        if is_super(func.value):
            cls = scope.enclosing_class()
            return _ordered(_inherited(names, cls)) if cls is not None else Constructed()
        return Constructed(names.qualified(func.value, scope))
    found = names.definition(func, scope)
    if found is None or not isinstance(found.bound.node, ast.ClassDef):
        return Constructed()
    cls = found.bound.scope
    own = [each for each in cls.bindings.get("__init__", ()) if isinstance(each, Defined)]
    if not own and {"__init__", "__new__"}.isdisjoint(cls.bindings):
        return _ordered(_inherited(found.names, cls))
    if len(own) == 1 and _hands_on(own[0].node):
        return Constructed(None, tuple(_inherited(found.names, cls)))
    return Constructed()


def _ordered(classes: list[str]) -> Constructed:
    return Constructed(classes[0], tuple(classes[1:])) if classes else Constructed()


def _inherited(names: Names, cls: Scope, depth: int = _MAX_BASES) -> list[str]:
    """The classes outside the project that a class inherits `__init__` from, in their order: up to one of the project
    that defines it."""
    reached: list[str] = []
    outer = cls.parent or cls
    for written in cls.node.bases if isinstance(cls.node, ast.ClassDef) and depth else ():
        base = written.value if isinstance(written, ast.Subscript) else written  # Base[T]
        found = names.definition(base, outer)
        if found is None:
            qualified = names.qualified(base, outer)
            reached += [qualified] if qualified is not None and qualified not in _PLAIN else []
        elif "__init__" in found.bound.scope.bindings or found.bound.scope is cls:
            break
        else:
            reached += _inherited(found.names, found.bound.scope, depth - 1)
    return reached


def _hands_on(function: ast.AST) -> bool:
    """Return whether an `__init__` gives any other keyword to the one it overrides."""
    rest = function.args.kwarg if isinstance(function, ast.FunctionDef) else None
    return rest is not None and any(
        keyword.arg is None and isinstance(keyword.value, ast.Name) and keyword.value.id == rest.arg
        for call in ast.walk(function)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "__init__"
        for keyword in call.keywords
    )


def guarded_classes(node: ast.AST, names: Names) -> frozenset[str]:
    """Return the qualified names of the classes of which a condition around a name, or a chain of attributes, says that
    it is one; empty where none does."""
    name = dotted_name(node)
    answers = (
        (_answered(call, name, names) for test in _conditions(node, names) for call in _certain(test)) if name else ()
    )
    return next((classes for classes in answers if classes), frozenset())


def _conditions(node: ast.AST, names: Names) -> Iterator[ast.expr]:
    """The conditions that hold where a node is evaluated, the nearest first."""
    below = node
    for above in names.file.above(node):
        if isinstance(above, ast.BoolOp) and isinstance(above.op, ast.And):
            yield from above.values[: above.values.index(below)] if isinstance(below, ast.expr) else ()
        elif _runs_if_true(above, below):
            yield above.test
        elif isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            return
        below = above


def _runs_if_true(node: ast.AST, part: ast.AST) -> TypeGuard[ast.IfExp | ast.If | ast.While]:
    """Return whether a part of a node is evaluated only where its condition holds."""
    if isinstance(node, ast.IfExp):
        return part is node.body
    return isinstance(node, (ast.If, ast.While)) and part in node.body


def _certain(test: ast.expr) -> Iterator[ast.expr]:
    """The parts of a condition that all hold where it does."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        for value in test.values:
            yield from _certain(value)
    else:
        yield test


def _answered(call: ast.expr, name: str, names: Names) -> frozenset[str]:
    """The classes of `isinstance(name, ...)`; none where another call stands there, or a class is not known by name."""
    if not isinstance(call, ast.Call) or dotted_name(call.func) != "isinstance" or len(call.args) != 2:
        return frozenset()
    value, classes = call.args
    if dotted_name(value) != name:
        return frozenset()
    scope = names.file.scope_of(call)
    found = [names.qualified(each, scope) for each in (elements(classes) or [classes])]
    return frozenset(each for each in found if each) if all(found) else frozenset()
