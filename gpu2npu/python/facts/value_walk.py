"""The walk that finds the edges of values in the tree of a file: each statement and expression once.

The body of a function comes after the scope that holds it, since it may read what is bound behind it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpu2npu.python.facts.value_expressions import WHOLE, Expressions
from gpu2npu.python.facts.value_names import Loop, NameScope, Now, field_of
from gpu2npu.python.facts.values import ARGUMENT, ASSIGN, INHERIT, NOTHING, STORE, TEXT, ClassValue, Taken, ValueFacts
from gpu2npu.python.tree.file import PythonFile
from gpu2npu.python.tree.syntax import FUNCTIONS, import_module, last_name

_PROPERTIES = frozenset({"property", "cached_property", "functools.cached_property"})
_ACCESSORS = frozenset({"setter", "deleter"})


def value_facts(file: PythonFile) -> ValueFacts | None:
    """The edges of values in a file; None for one that is nested too deeply."""
    try:
        return _Walk(file).facts()
    except RecursionError:
        return None


def placed_values(file: PythonFile) -> tuple[ValueFacts | None, Mapping[ast.AST, int]]:
    """The same, and the node of each expression, function and class."""
    try:
        walk = _Places(file)
    except RecursionError:
        return None, {}
    return walk.facts(), walk.places


class _Walk(Expressions):
    def __init__(self, file: PythonFile) -> None:
        super().__init__(name for scope in file.scopes.values() for name in scope.declared)
        self.block(file.tree.body)
        self.close(self.top)
        for scope, body in self.later:  # grows while it is read: a function in a function comes last
            self.scope = scope
            self.block(body)
        for scope, annotation, parameter, function in self.annotated:
            self.scope = scope
            self.edge(self.annotate(annotation, parameter), STORE, function, "()")

    # Statements

    def block(self, statements: Sequence[ast.stmt]) -> None:
        for node in statements:
            if self.scope.now is None:  # nothing arrives here
                self.scope.now = {}
            self.line = node.lineno
            self.value(node)

    def value(self, node: ast.AST | None) -> int:
        """The node of an expression; of a statement, nothing."""
        if node is None:
            return NOTHING
        handler = _HANDLERS.get(node.__class__)
        if handler is not None:
            return handler(self, node) or NOTHING
        for child in ast.iter_child_nodes(node):
            self.value(child)
        return NOTHING

    def branches(self, before: Now | None, *bodies: Callable[[], object]) -> None:
        """Walk bodies of which one runs; afterwards a name is what it is at the end of any of them."""
        ends = []
        for body in bodies:
            self.scope.now = dict(before or {})
            body()
            ends.append(self.scope.now)
        self.scope.now = self.merged(ends)

    def merged(self, ends: Sequence[Now | None]) -> Now | None:
        arriving = [end for end in ends if end is not None]
        if len(arriving) < 2:
            return arriving[0] if arriving else None
        result: Now = {}
        first = arriving[0]
        for name in {name: None for end in arriving for name in end}:
            same = first.get(name)
            if same is not None and all(end.get(name) == same for end in arriving):
                result[name] = same
                continue
            values = (self.current(name, end, self.scope.loops) for end in arriving)
            result[name] = self.join(value for value in values if value is not None)
        return result

    def loop(self, body: Sequence[ast.stmt], orelse: Sequence[ast.stmt], head: Callable[[], object]) -> None:
        scope, loop = self.scope, Loop(self.scope.now or {})
        scope.loops.append(loop)
        scope.now = {}
        head()
        self.block(body)
        ends = [end for end in (*loop.ends, scope.now) if end is not None]
        for name, join in loop.joins.items():
            for end in ends:
                self.edge(end.get(name, NOTHING), ASSIGN, join)
        scope.loops.pop()
        scope.now = self.merged([loop.before, *({**loop.before, **end} for end in ends)])
        self.block(orelse)

    def for_(self, node: ast.For | ast.AsyncFor) -> None:
        each = self.load(self.value(node.iter), "[each]")
        self.loop(node.body, node.orelse, lambda: self.target(node.target, each))

    def while_(self, node: ast.While) -> None:
        self.loop(node.body, node.orelse, lambda: self.value(node.test))

    def end_round(self, node: ast.AST) -> None:
        if self.scope.loops:
            self.scope.loops[-1].ends.append(self.scope.now)
        self.scope.now = None

    def if_(self, node: ast.If) -> None:
        self.value(node.test)
        self.branches(self.scope.now, lambda: self.block(node.body), lambda: self.block(node.orelse))

    def try_(self, node: ast.Try) -> None:
        before = self.scope.now
        self.scope.now = dict(before or {})
        outer, self.raised = self.raised, []
        self.block(node.body)
        raised, self.raised = self.raised, outer
        after = self.scope.now
        handled = None
        if node.handlers:
            caught = self.join(raised) if raised else NOTHING
            handlers = (lambda one=one: self.except_(one, caught) for one in node.handlers)
            self.branches(self.merged([before, after]), *handlers)
            handled = self.scope.now
        self.scope.now = after
        if after is not None:
            self.block(node.orelse)
        self.scope.now = self.merged([self.scope.now, handled])
        self.block(node.finalbody)

    def except_(self, node: ast.ExceptHandler, caught: int) -> None:
        self.value(node.type)
        if node.name is not None:
            self.bind(node.name, caught)
        self.block(node.body)

    def match(self, node: ast.Match) -> None:
        subject = self.value(node.subject)

        def case(each: ast.match_case) -> None:
            self.pattern(each.pattern, subject)
            self.value(each.guard)
            self.block(each.body)

        self.branches(self.scope.now, *(lambda each=each: case(each) for each in node.cases), lambda: None)

    def pattern(self, node: ast.pattern | None, subject: int) -> None:
        """Compare and bind what a pattern takes out of a value."""
        if isinstance(node, ast.MatchValue):
            self.compare(subject, self.value(node.value))
        elif isinstance(node, ast.MatchOr):
            for each in node.patterns:
                self.pattern(each, subject)
        elif isinstance(node, ast.MatchAs):
            self.pattern(node.pattern, subject)
            if node.name is not None:
                self.bind(node.name, subject)
        elif isinstance(node, ast.MatchStar):
            if node.name is not None:
                self.bind(node.name, self.container([("[*]", subject)]))
        elif isinstance(node, ast.MatchSequence):
            for index, each in enumerate(node.patterns):
                self.pattern(each, self.load(subject, "[each]" if isinstance(each, ast.MatchStar) else f"[{index}]"))
        elif isinstance(node, ast.MatchMapping):
            for key, each in zip(node.keys, node.patterns, strict=True):
                self.compare(self.value(key), self.load(subject, "[key]"))
                self.pattern(each, self.load(subject, field_of(key)))
        elif isinstance(node, ast.MatchClass):
            self.value(node.cls)
            for index, each in enumerate(node.patterns):
                is_whole = last_name(node.cls) in WHOLE  # of str and its like, what is matched itself
                self.pattern(each, subject if is_whole else self.load(subject, f"[{index}]"))
            for name, each in zip(node.kwd_attrs, node.kwd_patterns, strict=True):
                self.pattern(each, self.load(subject, f".{name}"))

    def withitem(self, node: ast.withitem) -> None:
        value = self.value(node.context_expr)
        if node.optional_vars is not None:  # an object that is its own context, or what a generator yields
            self.target(node.optional_vars, self.join([value, self.load(value, "[each]")]))

    def assign(self, node: ast.Assign) -> None:
        value = self.value(node.value)
        for each in node.targets:
            self.target(each, value)

    def assign_one(self, node: ast.AnnAssign | ast.NamedExpr) -> int:
        value = self.value(node.value)
        if isinstance(node, ast.AnnAssign):
            value = self.annotate(node.annotation, value)
        if value or node.value is not None:
            self.target(node.target, value)
        return value

    def augment(self, node: ast.AugAssign) -> None:
        self.target(node.target, self.operated(node, self.value(node.target), self.value(node.value), TEXT))

    def delete(self, node: ast.Delete) -> None:
        for each in node.targets:
            if isinstance(each, ast.Name) and self.scope.now is not None:
                self.scope.now[each.id] = NOTHING

    def return_(self, node: ast.Return) -> None:
        self.edge(self.value(node.value), STORE, self.scope.function, "()")
        self.scope.now = None

    def raise_(self, node: ast.Raise) -> None:
        value = self.value(node.exc)
        if self.raised is not None and value:
            self.raised.append(value)
            given = [(one, key) for one, kind, of, key in self.edges if kind == ARGUMENT and of == value]
            labels = list(self.labels) if given else []
            self.edge(self.container((f"[{labels[key]}]", one) for one, key in given), STORE, value, ".args")
        self.scope.now = None

    def yield_(self, node: ast.Yield | ast.YieldFrom) -> int:
        scope = self.scope
        if not scope.generator:
            scope.generator = self.container()
            self.edge(scope.generator, STORE, scope.function, "()")
        is_one = isinstance(node, ast.Yield)
        self.edge(self.value(node.value), STORE if is_one else INHERIT, scope.generator, "[*]" if is_one else "")
        return self.load(scope.generator, ".send()")

    def import_(self, node: ast.Import) -> None:
        for alias in node.names:
            top = alias.name.partition(".")[0]
            self.imported(alias.asname or top, alias.name if alias.asname else top, "")

    def import_from(self, node: ast.ImportFrom) -> None:
        module = import_module(node)
        for alias in node.names:
            if alias.name == "*":
                self.stars.append(module)
            else:
                self.imported(alias.asname or alias.name, module, alias.name)

    def imported(self, bound: str, module: str, name: str) -> None:
        self.imports.append(Taken(self.new(), module, name))
        self.bind(bound, self.imports[-1].node)

    def declare_global(self, node: ast.Global) -> None:
        self.scope.declared.update(dict.fromkeys(node.names, self.top))

    def declare_nonlocal(self, node: ast.Nonlocal) -> None:
        for name in node.names:
            scope = self.scope.parent
            while scope is not None and (scope.instance or name not in scope.ever):
                scope = scope.parent
            if scope is not None:
                self.scope.declared[name] = scope

    def expression(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self.value(node.value)

    # Definitions

    def define(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        decorators = {last_name(one) for one in node.decorator_list}
        made = tuple(self.value(one) for one in node.decorator_list)
        is_static = "staticmethod" in decorators
        is_class = node.name == "__new__" or "classmethod" in decorators
        function = self.function(node.args, node.body, is_static, is_class, made)
        if node.returns is not None:
            self.annotated.append((NameScope(self.scope), node.returns, NOTHING, function))
        for decorator, one in zip(made, node.decorator_list, strict=True):
            self.decorate(decorator, last_name(one) or "", function)
        if decorators & _PROPERTIES:
            self.bind(node.name, self.load(function, "()"))
        elif not decorators & _ACCESSORS:
            self.bind(node.name, function)

    def class_(self, node: ast.ClassDef) -> None:
        bases, owner, instance = tuple(map(self.value, node.bases)), self.new(), self.new()
        for one in node.decorator_list:
            self.decorate(self.value(one), last_name(one) or "", owner)
        for base in bases:
            self.edge(base, INHERIT, owner)
        self.edge(owner, INHERIT, instance)
        self.edge(instance, STORE, owner, "()")
        fields = [
            one.target.id for one in node.body if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
        ]
        self.bind(node.name, owner)
        outer, self.scope = self.scope, NameScope(self.scope, owner)
        self.scope.instance, self.scope.bases = instance, bases
        self.block(node.body)
        self.close(self.scope)
        self.classes.append(ClassValue(owner, instance, bases, tuple(fields), tuple(self.scope.selves)))
        self.scope = outer


class _Places(_Walk):
    def __init__(self, file: PythonFile) -> None:
        self.places: dict[ast.AST, int] = {}
        super().__init__(file)

    def value(self, node: ast.AST | None) -> int:
        found = super().value(node)
        if isinstance(node, ast.Call):
            self.places[node.func] = self.calls[-1].callee
        elif isinstance(node, FUNCTIONS):
            found = self.functions[-1].node
        elif isinstance(node, ast.ClassDef):
            found = self.classes[-1].node
        if node is not None:
            self.places[node] = found
        return found


_HANDLERS: dict[type[ast.AST], Callable[[_Walk, Any], int | None]] = {
    ast.AnnAssign: _Walk.assign_one,
    ast.Assign: _Walk.assign,
    ast.AsyncFor: _Walk.for_,
    ast.AsyncFunctionDef: _Walk.define,
    ast.Attribute: _Walk.attribute,
    ast.AugAssign: _Walk.augment,
    ast.Await: _Walk.inner,
    ast.BinOp: _Walk.operation,
    ast.BoolOp: _Walk.either,
    ast.Break: _Walk.end_round,
    ast.Call: _Walk.call,
    ast.ClassDef: _Walk.class_,
    ast.Compare: _Walk.comparison,
    ast.Constant: _Walk.constant,
    ast.Continue: _Walk.end_round,
    ast.Delete: _Walk.delete,
    ast.Dict: _Walk.dictionary,
    ast.DictComp: _Walk.comprehension,
    ast.Expr: _Walk.expression,
    ast.For: _Walk.for_,
    ast.FunctionDef: _Walk.define,
    ast.GeneratorExp: _Walk.comprehension,
    ast.Global: _Walk.declare_global,
    ast.If: _Walk.if_,
    ast.IfExp: _Walk.conditional,
    ast.Import: _Walk.import_,
    ast.ImportFrom: _Walk.import_from,
    ast.JoinedStr: _Walk.formatted,
    ast.Lambda: _Walk.lambda_,
    ast.List: _Walk.display,
    ast.ListComp: _Walk.comprehension,
    ast.Match: _Walk.match,
    ast.Name: _Walk.name,
    ast.NamedExpr: _Walk.assign_one,
    ast.Nonlocal: _Walk.declare_nonlocal,
    ast.Raise: _Walk.raise_,
    ast.Return: _Walk.return_,
    ast.Set: _Walk.display,
    ast.SetComp: _Walk.comprehension,
    ast.Starred: _Walk.inner,
    ast.Subscript: _Walk.subscript,
    ast.Try: _Walk.try_,
    ast.Tuple: _Walk.display,
    ast.UnaryOp: _Walk.unary,
    ast.While: _Walk.while_,
    ast.Yield: _Walk.yield_,
    ast.YieldFrom: _Walk.yield_,
    ast.withitem: _Walk.withitem,
}
if hasattr(ast, "TryStar"):
    _HANDLERS[ast.TryStar] = _Walk.try_
