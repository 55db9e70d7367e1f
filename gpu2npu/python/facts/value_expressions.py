"""The values of expressions: a node for each, with the edges that lead to it."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from gpu2npu.python.facts.value_names import NameScope, Nodes, field_of
from gpu2npu.python.facts.values import (
    ARGUMENT,
    ASSIGN,
    INHERIT,
    LOAD,
    NOTHING,
    STORE,
    SUBSCRIPT,
    TEXT,
    TYPE,
    Arithmetic,
    Called,
    Parameters,
    Text,
)
from gpu2npu.python.tree.syntax import last_name
from gpu2npu.python.tree.syntax_tree import alternatives

_MOST = 2**53  # a larger number is not followed
# Annotations that are no class of a project.
_PLAIN = frozenset({"Any", "Tensor", "bool", "bytes", "dict", "float", "int", "list", "object", "set", "str", "tuple"})
# Classes whose pattern with one part takes the whole value: PEP 634.
WHOLE = frozenset({"bool", "bytearray", "bytes", "dict", "float", "frozenset", "int", "list", "set", "str", "tuple"})
_RESULTS = {ast.Add: TEXT, ast.Mod: TEXT, ast.BitOr: INHERIT}  # of operators that keep what their operands hold


class Expressions(Nodes):
    """Makes the nodes of expressions."""

    def constant(self, node: ast.Constant) -> int:
        value = node.value
        if isinstance(value, (int, float)) and -_MOST <= value <= _MOST:
            found = self.new()
            self.numbers[found] = value
            return found
        if not isinstance(value, str):
            return NOTHING
        self.texts.append(Text(self.new(), value, node.lineno, node.col_offset))
        return self.texts[-1].node

    def attribute(self, node: ast.Attribute) -> int:
        return self.load(self.value(node.value), f".{node.attr}")

    def subscript(self, node: ast.Subscript) -> int:
        base, index = self.value(node.value), self.value(node.slice)
        if isinstance(node.slice, ast.Slice):
            return self.join([base], TEXT)
        if index and index not in self.numbers:
            self.compare(index, self.load(base, "[key]"))
        if base and isinstance(node.slice, ast.Tuple) and (axes := _axes(node.slice.elts)):
            view = self.new()
            self.edge(base, LOAD, view, "[*]")
            self.operations.append(Arithmetic(view, axes, (base, NOTHING), False, _place(node)))
            return view
        element = self.load(base, field_of(node.slice))
        if index and element and not isinstance(node.slice, ast.Constant):
            self.operations.append(Arithmetic(element, SUBSCRIPT, (base, index), False, _place(node)))
        return element

    def conditional(self, node: ast.IfExp) -> int:
        self.value(node.test)
        return self.join([self.value(node.body), self.value(node.orelse)])

    def either(self, node: ast.BoolOp) -> int:
        return self.join([self.value(each) for each in node.values])

    def operation(self, node: ast.BinOp) -> int:
        left, right = self.value(node.left), self.value(node.right)
        result = self.operated(node, left, right, _RESULTS.get(type(node.op)))
        if isinstance(node.op, ast.Mult) and isinstance(node.left, (ast.List, ast.Tuple)):
            self.edge(self.load(left, "[each]"), STORE, result, "[*]")
        elif isinstance(node.op, (ast.Sub, ast.BitAnd)) and ast.Set in (type(node.left), type(node.right)):
            self.compare(self.load(left, "[each]"), self.load(right, "[each]"))
        if right and isinstance(node.op, ast.Mod):
            self.edge(self.load(right, "[*]"), TEXT, result)
        return result

    def operated(self, node: ast.BinOp | ast.AugAssign, left: int, right: int, kind: int | None) -> int:
        """A node for the result of arithmetic, to which edges of a kind lead from both operands."""
        if not left and not right:
            return NOTHING
        result = self.new() if kind is None else self.join([left, right], kind)
        is_in_place = isinstance(node, ast.AugAssign)
        self.operations.append(Arithmetic(result, type(node.op).__name__, (left, right), is_in_place, _place(node)))
        return result

    def unary(self, node: ast.UnaryOp) -> int:
        value = self.value(node.operand)
        if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant) and value in self.numbers:
            self.numbers[value] = -self.numbers[value]
        if not isinstance(node.op, ast.Not):
            return value
        result = self.new()
        self.operations.append(Arithmetic(result, "Not", (value, NOTHING), False, _place(node)))
        return result

    def comparison(self, node: ast.Compare) -> int:
        sides = (node.left, *node.comparators)
        values = [self.value(one) for one in sides]
        for left, operator, right in zip(values, node.ops, values[1:], strict=False):
            if isinstance(operator, (ast.In, ast.NotIn)):
                self.compare(left, self.load(right, "[each]"))
            elif any(isinstance(one, (ast.Set, ast.List, ast.Tuple)) for one in sides):
                self.compare(self.load(left, "[each]"), self.load(right, "[each]"))
            self.compare(left, right)
        if not values[0] or len(values) > 2:
            return NOTHING
        result, name = self.new(), type(node.ops[0]).__name__
        self.operations.append(Arithmetic(result, name, (values[0], values[1]), False, _place(node)))
        return result

    def dictionary(self, node: ast.Dict) -> int:
        result = self.container()
        for key, each in zip(node.keys, node.values, strict=True):
            value = self.value(each)
            if key is None:
                self.edge(value, INHERIT, result)
            else:
                self.edge(self.value(key), STORE, result, "[key]")
                self.edge(value, STORE, result, field_of(key))
        return result

    def display(self, node: ast.List | ast.Tuple | ast.Set) -> int:
        result = self.container()
        has_star = isinstance(node, ast.Set)
        for index, one in enumerate(node.elts):
            if isinstance(one, ast.Starred):
                has_star = True
                self.edge(self.value(one.value), INHERIT, result)
            else:
                self.edge(self.value(one), STORE, result, "[*]" if has_star else f"[{index}]")
        return result

    def comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> int:
        before = self.scope.now
        self.scope.now = dict(before or {})
        for part in node.generators:
            self.target(part.target, self.load(self.value(part.iter), "[each]"))
            for test in part.ifs:
                self.value(test)
        is_dict = isinstance(node, ast.DictComp)
        parts = [("[key]", node.key), ("[*]", node.value)] if is_dict else [("[*]", node.elt)]  # type: ignore[union-attr]
        result = self.container([(label, self.value(one)) for label, one in parts])
        self.scope.now = before
        return result

    def inner(self, node: Any) -> int:
        return self.value(node.value)

    def formatted(self, node: ast.JoinedStr) -> int:
        result = self.new()
        self.texts.append(Text(result, None, node.lineno, node.col_offset))
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                self.edge(self.value(part.value), TEXT, result)
        return result

    def call(self, node: ast.Call) -> int:
        self.line = node.lineno
        function = node.func
        base = NOTHING
        if isinstance(function, ast.Attribute):
            base = self.value(function.value)
            callee, name = self.load(base, f".{function.attr}"), function.attr
        else:
            callee = self.value(function)
            name = function.id if isinstance(function, ast.Name) else ""
        given = [
            ("*" if isinstance(one, ast.Starred) else str(index), self.value(one))
            for index, one in enumerate(node.args)
        ]
        given += [(one.arg or "**", self.value(one.value)) for one in node.keywords]
        self.line = node.lineno
        result = self.new()
        for keyword in node.keywords if name == "dict" and not base else ():
            if keyword.arg is not None:
                self.texts.append(Text(self.new(), keyword.arg, keyword.lineno, keyword.col_offset))
                self.edge(self.texts[-1].node, STORE, result, "[key]")
        self.calls.append(
            Called(result, callee, base, name, node.lineno, node.end_lineno or 0, node.end_col_offset or 0)
        )
        self.edge(callee, LOAD, result, "()")
        for key, value in given:
            self.edge(value, ARGUMENT, result, key)
        if name == "super" and not base and self.scope.parent is not None:
            for one in self.scope.parent.bases:
                self.edge(one, INHERIT, result)
            self.edge(self.scope.parent.instance, STORE, result, ".__self__")
        return result

    def decorate(self, decorator: int, name: str, function: int) -> None:
        """Call a decorator with a function; what it gives in its place is called as the function is."""
        if not decorator:
            return
        result = self.new()
        self.calls.append(Called(result, decorator, NOTHING, name, self.line, 0, 0))
        self.edge(decorator, LOAD, result, "()")
        self.edge(function, ARGUMENT, result, "0")

    # Functions

    def annotate(self, annotation: ast.expr | None, value: int) -> int:
        """A value with an edge from the class that its annotation names: `C`, `"C"`, `C | None` or `Optional[C]`."""
        for each in alternatives(annotation):
            if isinstance(each, (ast.Name, ast.Attribute)) and last_name(each) not in _PLAIN:
                value = value or self.new()
                self.edge(self.value(each), TYPE, value)
        return value

    def function(
        self,
        arguments: ast.arguments,
        body: Sequence[ast.stmt],
        is_static: bool,
        is_class: bool,
        decorators: tuple[int, ...] = (),
    ) -> int:
        node = self.new()
        scope, outer = NameScope(self.scope, function=node), self.scope

        def parameter(one: ast.arg) -> tuple[str, int]:
            found = self.new()
            if one.annotation is not None:
                self.annotated.append((NameScope(outer), one.annotation, found, NOTHING))
            scope.ever[one.arg].append(found)
            if one.arg not in self.shared:
                scope.now[one.arg] = found  # type: ignore[index]  # it is a dict at first
            return one.arg, found

        positional = tuple(map(parameter, (*arguments.posonlyargs, *arguments.args)))
        named = tuple(map(parameter, arguments.kwonlyargs))
        star, stars = (parameter(one)[1] if one else NOTHING for one in (arguments.vararg, arguments.kwarg))
        last = positional[len(positional) - len(arguments.defaults) :]
        defaults = (*zip(last, arguments.defaults, strict=True), *zip(named, arguments.kw_defaults, strict=True))
        for (_, target), default in defaults:
            self.edge(self.value(default), ASSIGN, target)
        takes_self = bool(outer.instance and positional and not is_static)
        if takes_self:
            self.edge(outer.owner if is_class else outer.instance, ASSIGN, positional[0][1])
            if not is_class:
                outer.selves.append(positional[0][1])
        takes_class = takes_self and is_class
        self.functions.append(Parameters(node, positional, named, star, stars, takes_self, takes_class, decorators))
        self.later.append((scope, body))
        return node

    def lambda_(self, node: ast.Lambda) -> int:
        body = ast.Return(node.body)
        body.lineno = node.body.lineno
        return self.function(node.args, [body], True, False)


def _place(node: ast.expr | ast.AugAssign) -> tuple[int, int, int, int]:
    """The line and column where a piece of code begins, and where it ends."""
    return node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0


def _axes(indices: Sequence[ast.expr]) -> str:
    """`[:,None,0]` for indices that are whole slices, None or numbers, and give a view; empty for others."""
    texts = [ast.unparse(each) for each in indices]
    return f"[{','.join(texts)}]" if all(each in (":", "None") or each.isdigit() for each in texts) else ""
