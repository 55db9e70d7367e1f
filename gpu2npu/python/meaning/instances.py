"""The qualified names of the classes that an object is of, those outside the project too: by what it is made from, by
conditions around it, by what its class inherits."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Set
from typing import TypeGuard

from gpu2npu.python.meaning.inheritance import Wanted, gives
from gpu2npu.python.meaning.live_names import is_declaration, live_bindings
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.meaning.types import UNKNOWN, Own, Types, ValueTypes
from gpu2npu.python.tree.scopes import Assigned, Binding, Defined, Parameter, Scope, value_of
from gpu2npu.python.tree.syntax import (
    COMPREHENSIONS,
    FORS,
    FUNCTIONS,
    blocks,
    defaults,
    dotted_name,
    elements,
    is_none,
    last_name,
    string_value,
)
from gpu2npu.python.tree.syntax_tree import alternatives, parse_expression

_MAX_STEPS = 10  # of names and attributes that are given each other's values
INTEGER = "int"  # the class of whole numbers, which are written out and computed as well as made
_COUNTING = frozenset({"int", "len", "round", "ord", "hash"})  # builtins that give one
WHOLE = (ast.Add, ast.Sub, ast.Mult, ast.Mod, ast.FloorDiv)


class Instances:
    """Judges for the expressions of one file whether they are objects of a class or of its subclasses."""

    def __init__(self, names: Names, depth: int = 0) -> None:
        self.names = names
        self.types = ValueTypes(names)
        self._depth = depth
        self._known: dict[tuple[ast.expr, Scope, Wanted], bool | None] = {}

    def is_one(self, node: ast.expr, scope: Scope, wanted: Wanted) -> bool | None:
        """Return whether the value of an expression is an object of the wanted class, or of a class of the project that
        derives from it and leaves the member to it; None where that is not known, or not for all values of it."""
        if self._depth >= _MAX_STEPS:
            return None
        key = (node, scope, wanted)
        if key not in self._known:
            self._known[key] = None  # p = p
            self._depth += 1
            try:
                self._known[key] = self._judge(node, scope, wanted)
            finally:
                self._depth -= 1
        return self._known[key]

    def _judge(self, node: ast.expr, scope: Scope, wanted: Wanted) -> bool | None:
        if wanted.cls == INTEGER and (answer := self._is_integer(node, scope, wanted)) is not None:
            return answer
        if isinstance(node, ast.Call):
            return self._made(node, scope, wanted)
        bindings = [*self._bindings(node, scope)]
        if not bindings:
            return self._of_types(self.types.of(node, scope), wanted)
        answers = {instances._bound(binding, where, wanted) for instances, binding, where in bindings}
        if isinstance(node, ast.Name) and None in answers:
            answers = (answers - {None}) | {self._declared(node, scope, wanted)}
        return _agreed(answers)

    def _is_integer(self, node: ast.expr, scope: Scope, wanted: Wanted) -> bool | None:
        """The same for whole numbers, of what has no class by its name: numbers, sums and what functions give."""
        if isinstance(node, ast.Constant):
            return type(node.value) is int
        if isinstance(node, ast.BinOp) and isinstance(node.op, WHOLE):
            sides = {self.is_one(node.left, scope, wanted), self.is_one(node.right, scope, wanted)}
            return True if sides == {True} else None
        if isinstance(node, (ast.IfExp, ast.BoolOp)):
            values = node.values if isinstance(node, ast.BoolOp) else (node.body, node.orelse)
            return _agreed({self.is_one(each, scope, wanted) for each in values})
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id in _COUNTING:
                return True if scope.lookup(node.func.id) is None else None
            integers = self.names.project.library.integers
            called = self.names.qualified(node.func, scope)
            if called is None and isinstance(node.func, ast.Attribute) and f"*.{node.func.attr}" in integers:
                return None if any(isinstance(each, Own) for each in self.types.of(node.func.value, scope)) else True
            return True if called in integers else None
        return None

    def _made(self, call: ast.Call, scope: Scope, wanted: Wanted) -> bool | None:
        """The same, of the result of a call."""
        callee = self.names.qualified(call.func, scope)
        found = self.names.definition(call.func, scope)
        if callee == wanted.cls or (found is None and callee and callee.rpartition(".")[2][:1].isupper()):
            return callee == wanted.cls
        function = found.bound.node if found is not None else None
        if found is not None and isinstance(function, FUNCTIONS) and function.returns is not None:
            return self._within(found.names)._annotated(function.returns, found.bound.scope.parent or scope, wanted)
        return self._of_types(self.types.of(call, scope), wanted)

    def _of_types(self, types: Types, wanted: Wanted) -> bool | None:
        """The same, of a value of these types."""
        return _agreed(
            {
                gives(each.names, each.cls, wanted)
                if isinstance(each, Own)
                else None
                if each == UNKNOWN
                else each == wanted.cls
                for each in types
            }
        )

    def _bindings(self, node: ast.expr, scope: Scope) -> Iterator[tuple[Instances, Binding, Scope]]:
        """The bindings that may reach a name, here or in the file it is imported from, or those of an attribute of an
        object of the project, each with the scope in which it is; none of None, which takes the place of a value."""
        if isinstance(node, ast.Attribute):
            found = self._attributes(node, scope)
        else:
            found = self._named(node, scope) if isinstance(node, ast.Name) else iter(())
        for instances, binding, where in found:
            if not isinstance(binding, Assigned) or binding.annotation is not None or not is_none(binding.value):
                yield instances, binding, where

    def _attributes(self, node: ast.Attribute, scope: Scope) -> Iterator[tuple[Instances, Binding, Scope]]:
        types = self.types.of(node.value, scope)
        own = [each for each in types if isinstance(each, Own)]
        for each in own if len(own) == len(types) else ():
            within = self._within(each.names)
            yield from ((within, assigned, where) for assigned, where in each.cls.attributes.get(node.attr, ()))
            yield from ((within, binding, each.cls) for binding in each.cls.bindings.get(node.attr, ()))

    def _named(self, node: ast.Name, scope: Scope) -> Iterator[tuple[Instances, Binding, Scope]]:
        bound = self.names.binding(node, scope)
        if bound is not None and bound.names is not self.names:
            yield self._within(bound.names), bound.bound, bound.names.file.module
            return
        found = scope.lookup(node.id)
        if found is None:
            return
        owner, bindings = found
        use: ast.AST = node
        while scope is not owner and scope.parent is not None and isinstance(scope.node, COMPREHENSIONS):
            use, scope = scope.node, scope.parent
        given = [binding for binding in bindings if not _is_without_value(binding)]
        reaching = live_bindings(self.names.file, given, owner, use) if scope is owner else given
        yield from ((self, binding, owner) for binding in reaching or bindings)

    def _within(self, names: Names) -> Instances:
        return self if names is self.names else Instances(names, self._depth)

    def _bound(self, binding: Binding, scope: Scope, wanted: Wanted) -> bool | None:
        """Return whether what a binding gives a name or an attribute is an object of the wanted class."""
        if isinstance(binding, Parameter) and binding.position < 0:
            return False  # a tuple or dictionary
        annotation = binding.annotation if isinstance(binding, (Parameter, Assigned)) else None
        if annotation is not None:
            return self._annotated(annotation, scope, wanted)
        is_class = isinstance(binding, Defined) or (isinstance(binding, Parameter) and binding.node.arg == "cls")
        value = value_of(binding) or (binding.entered if isinstance(binding, Assigned) else None)
        if value is not None:
            return self.is_one(value, scope, wanted)
        loop = binding.statement if isinstance(binding, Assigned) else None
        if isinstance(loop, (*FORS, ast.comprehension)) and isinstance(loop.target, ast.Name):
            return _agreed({self.is_one(each, scope, wanted) for each in elements(loop.iter)})
        answer = self._of_types(self.types.bound(binding, scope), wanted)
        return None if is_class and answer and not wanted.with_overrides else answer

    def _declared(self, node: ast.Name, scope: Scope, wanted: Wanted) -> bool | None:
        """The same, by `name: Class` alone, which says what all values of the name are."""
        found = scope.lookup(node.id)
        given = [each for each in found[1] if isinstance(each, Assigned) and is_declaration(each)] if found else []
        return _agreed({self._annotated(each.annotation, found[0], wanted) for each in given}) if found else None

    def _annotated(self, annotation: ast.expr | None, scope: Scope, wanted: Wanted) -> bool | None:
        """The same, of a value with an annotation."""
        allowed = [each for each in alternatives(annotation) if not is_none(each)]
        return _agreed({self._names(each, scope, wanted) for each in allowed})

    def _names(self, node: ast.expr, scope: Scope, wanted: Wanted) -> bool | None:
        """Return whether an expression names the class, or one of the project that derives from it; None where what it
        names is not known."""
        qualified = self.names.qualified(node, scope)
        if qualified == wanted.cls:
            return True
        if isinstance(node, ast.Name) and node.id == wanted.cls == INTEGER:
            return scope.lookup(INTEGER) is None
        found = self.names.definition(node, scope)
        if found is not None:
            return gives(found.names, found.bound.scope, wanted)
        return self._of_types(self.types.annotated(node, scope), wanted) if qualified is None else False

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


def _agreed(answers: Set[bool | None]) -> bool | None:
    """Return the answer that all give; None where they differ or there is none."""
    return next(iter(answers)) if len(answers) == 1 else None


def _is_without_value(binding: Binding) -> bool:
    """`name: Class`, `del name` and `name += 1`, which say nothing new about the class of the name."""
    statement = binding.statement if isinstance(binding, Assigned) else None
    return isinstance(statement, (ast.AugAssign, ast.Name)) or is_declaration(binding)


_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)


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
    is_tested = any(dotted_name(test) == name or _compares_with_none(test, name, ast.IsNot) for test in tests)
    return not (is_tested or guarded_classes(node, names) or _is_narrowed_before(names, node, name))


def _may_give_none(binding: Binding, scope: Scope) -> bool:
    if isinstance(binding, Parameter):
        found = scope.lookup(binding.node.arg)
        function = found[0].node if found is not None else None
        given = defaults(function) if isinstance(function, (*FUNCTIONS, ast.Lambda)) else ()
        is_default = any(parameter is binding.node and is_none(value) for parameter, value in given)
        return is_default or _allows_none(binding.annotation)
    if not isinstance(binding, Assigned):
        return False
    value = value_of(binding)
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


def _is_narrowed_before(names: Names, node: ast.expr, name: str | None) -> bool:
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
    """The classes of `isinstance(name, ...)`; none where another call is there, or a class is not known by name."""
    if not isinstance(call, ast.Call) or dotted_name(call.func) != "isinstance" or len(call.args) != 2:
        return frozenset()
    value, classes = call.args
    if dotted_name(value) != name:
        return frozenset()
    scope = names.file.scope_of(call)
    found = [names.qualified(each, scope) for each in (elements(classes) or [classes])]
    return frozenset(each for each in found if each) if all(found) else frozenset()
