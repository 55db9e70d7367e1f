"""The qualified names of the classes that an object is of, those outside the project too: by what it is made from, by
conditions around it, by what its class inherits."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple, TypeGuard

from gpu2npu.python.meaning.names import Names
from gpu2npu.python.meaning.types import OTHER, UNKNOWN, Own, ValueTypes
from gpu2npu.python.tree.scopes import Assigned, Binding, Defined, Parameter, Scope
from gpu2npu.python.tree.syntax import (
    FUNCTIONS,
    blocks,
    defaults,
    dotted_name,
    elements,
    is_none,
    is_self,
    is_super,
    last_name,
    string_value,
)
from gpu2npu.python.tree.syntax_tree import alternatives, parse_expression

_MAX_BASES = 10  # of classes that derive from each other
_MAX_STEPS = 10  # of names and attributes that are given each other's values


class Instances:
    """Judges for the expressions of one file whether they are objects of a class or of its subclasses."""

    def __init__(self, names: Names, depth: int = 0) -> None:
        self.names = names
        self.types = ValueTypes(names)
        self._depth = depth

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
        if is_known or types == {OTHER}:
            return False
        return self._by_bindings(node, scope, wanted)

    def _by_bindings(self, node: ast.expr, scope: Scope, wanted: str) -> bool | None:
        """The same, by all that a name or an attribute is given; None where not all of it says so."""
        if self._depth >= _MAX_STEPS:
            return None
        self._depth += 1
        try:
            answers = {
                instances._bound(binding, where, wanted)
                for instances, binding, where in self._bindings(node, scope)
                if not (isinstance(binding, Assigned) and is_none(binding.value))
            }
        finally:
            self._depth -= 1
        return answers.pop() if len(answers) == 1 else None

    def _bindings(self, node: ast.expr, scope: Scope) -> Iterator[tuple[Instances, Binding, Scope]]:
        """The bindings of a name, here or in the file it is imported from, or of an attribute of an object of the
        project, each with the scope in which it stands."""
        if isinstance(node, ast.Attribute):
            own = scope.enclosing_class() if is_self(node.value) else None
            types = {Own(self.names, own)} if own is not None else self.types.of(node.value, scope)
            for each in types if all(isinstance(each, Own) for each in types) else ():
                if isinstance(each, Own):
                    within = self._within(each.names)
                    yield from ((within, assigned, where) for assigned, where in each.cls.attributes.get(node.attr, ()))
                    yield from ((within, binding, each.cls) for binding in each.cls.bindings.get(node.attr, ()))
            return
        found = scope.lookup(node.id) if isinstance(node, ast.Name) else None
        bound = self.names.binding(node, scope)
        if bound is not None and bound.names is not self.names:
            yield self._within(bound.names), bound.bound, bound.names.file.module
        elif found is not None:
            yield from ((self, binding, found[0]) for binding in found[1])

    def _within(self, names: Names) -> Instances:
        return self if names is self.names else Instances(names, self._depth)

    def _bound(self, binding: Binding, scope: Scope, wanted: str) -> bool | None:
        """Return whether what a binding gives a name or an attribute is an object of a class."""
        annotation = binding.annotation if isinstance(binding, (Parameter, Assigned)) else None
        if annotation is not None:
            named = {self._names(each, scope, wanted) for each in alternatives(annotation) if not is_none(each)}
            return named.pop() if len(named) == 1 else None
        if not isinstance(binding, Assigned) or binding.value is None:
            return None
        if binding.whole is not None:
            return self.is_one(binding.whole, scope, wanted)
        loop = binding.statement if isinstance(binding.statement, (ast.For, ast.comprehension)) else None
        given = elements(binding.value) if loop is not None and isinstance(loop.target, ast.Name) else ()
        answers = {self.is_one(each, scope, wanted) for each in given}
        return answers.pop() if len(answers) == 1 else None

    def _names(self, node: ast.expr, scope: Scope, wanted: str) -> bool | None:
        """Return whether an expression names the class, or one of the project that derives from it; None where what it
        names is not known."""
        qualified = self.names.qualified(node, scope)
        if qualified == wanted:
            return True
        found = self.names.definition(node, scope)
        if found is not None:
            return derives(found.names, found.bound.scope, wanted)
        return None if qualified is None else False

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
    """Return whether a class of a file is the class of a qualified name, or has it among its bases, or theirs."""
    if not isinstance(cls.node, ast.ClassDef) or not depth:
        return False
    if _is_named(names, cls, wanted):
        return True
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


def _is_named(names: Names, cls: Scope, wanted: str) -> bool:
    """Return whether a class at the top level of a file is the one of a qualified name: of a library whose files stand
    in the project, also by the name that its package gives it."""
    module, _, name = wanted.rpartition(".")
    if cls.parent is not names.file.module or getattr(cls.node, "name", None) != name:
        return False
    if names.project.module_path(module, names.path) == names.path:
        return True
    found = names.exported(wanted)
    return found is not None and found.names.path == names.path


# Bases whose `__init__` takes nothing and hands everything on.
_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)
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


def may_be_none(names: Names, node: ast.expr, scope: Scope) -> bool:
    """Return whether annotations, defaults or assignments say that the value of an expression may be None, and no
    condition around it or before it says that it is not."""
    if isinstance(node, ast.IfExp):
        return may_be_none(names, node.body, scope) or may_be_none(names, node.orelse, scope)
    if isinstance(node, ast.Call):
        found = names.definition(node.func, scope)
        function = found.bound.node if found is not None else None
        return isinstance(function, FUNCTIONS) and _allows_none(function.returns)
    given = [*scope.bound(node)]
    if not any(_may_give_none(each, scope) for each in given):
        return is_none(node)
    name = dotted_name(node)
    tests = [part for test in _conditions(node, names) for part in _certain(test)]
    said = any(dotted_name(test) == name or _compares_with_none(test, name, ast.IsNot) for test in tests)
    return not (said or guarded_classes(node, names) or _is_settled_before(names, node, name))


def _may_give_none(binding: Binding, scope: Scope) -> bool:
    if isinstance(binding, Parameter):
        found = scope.lookup(binding.node.arg)
        function = found[0].node if found is not None else None
        given = defaults(function) if isinstance(function, (*FUNCTIONS, ast.Lambda)) else ()
        is_default = any(parameter is binding.node and is_none(value) for parameter, value in given)
        return is_default or _allows_none(binding.annotation)
    if not isinstance(binding, Assigned):
        return False
    value = binding.whole
    parts = (value.body, value.orelse) if isinstance(value, ast.IfExp) else (value,)
    return any(map(is_none, parts)) or (value is None and _allows_none(binding.annotation))


def _allows_none(annotation: ast.expr | None) -> bool:
    text = string_value(annotation)
    node = annotation if text is None else parse_expression(text)
    is_optional = isinstance(node, ast.Subscript) and last_name(node.value) == "Optional"
    return is_optional or any(map(is_none, alternatives(annotation)))


def _compares_with_none(test: ast.expr, name: str | None, operator: type[ast.cmpop]) -> bool:
    """Return whether a condition is `name is None`, or with another operator."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or dotted_name(test.left) != name:
        return False
    return isinstance(test.ops[0], operator) and is_none(test.comparators[0])


def _is_settled_before(names: Names, node: ast.expr, name: str | None) -> bool:
    """Return whether a statement before, in a block around, goes on only where a name is not None: it leaves the block
    or gives the name a value."""
    for above in names.file.above(node):
        for block in blocks(above):
            for statement in block:
                if statement.lineno >= node.lineno:
                    break
                if isinstance(statement, ast.Assert) and _compares_with_none(statement.test, name, ast.IsNot):
                    return True
                if isinstance(statement, ast.If) and _compares_with_none(statement.test, name, ast.Is):
                    last = statement.body[-1]
                    targets = last.targets if isinstance(last, ast.Assign) else []
                    if isinstance(last, _LEAVES) or name in map(dotted_name, targets):
                        return True
        if isinstance(above, (*FUNCTIONS, ast.Lambda)):
            return False
    return False


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
