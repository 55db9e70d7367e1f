"""The nodes of values in a file, and what its names are bound to, in the order of the code."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Sequence

from gpu2npu.python.facts.values import (
    ASSIGN,
    COMPARE,
    LOAD,
    MODULE,
    NOTHING,
    STORE,
    Arithmetic,
    Called,
    ClassValue,
    Edge,
    Parameters,
    Taken,
    Text,
    ValueFacts,
)

Now = dict[str, int]


class Loop:
    """Names before a loop, the joins of those that are read in it, and names where a round ends."""

    def __init__(self, before: Now) -> None:
        self.before = before
        self.joins: Now = {}
        self.ends: list[Now | None] = []


class NameScope:
    """The values of names: `now` for code that runs in order, None where nothing arrives; `ever` for code that
    runs later, with one join for each name in `joined`."""

    def __init__(self, parent: NameScope | None, owner: int = NOTHING, function: int = NOTHING) -> None:
        self.parent = parent
        self.owner = owner
        self.function = function
        self.instance = NOTHING
        self.bases: tuple[int, ...] = ()
        self.selves: list[int] = []
        self.now: Now | None = {}
        self.ever: dict[str, list[int]] = defaultdict(list)
        self.joined: Now = {}
        self.loops: list[Loop] = []
        self.declared: dict[str, NameScope] = {}
        self.generator = NOTHING


class Nodes:
    """Makes nodes and edges, and binds names. `value` gives the node of an expression."""

    def __init__(self, shared: Iterable[str]) -> None:
        self.line = 0
        self.lines: list[int] = [0, 0]
        self.labels: dict[str, int] = {"": 0}
        self.edges: list[Edge] = []
        self.loads: dict[tuple[int, str], int] = {}
        self.texts: list[Text] = []
        self.functions: list[Parameters] = []
        self.classes: list[ClassValue] = []
        self.imports: list[Taken] = []
        self.outside: Now = {}
        self.stars: list[str] = []
        self.containers: list[int] = []
        self.calls: list[Called] = []
        self.operations: list[Arithmetic] = []
        self.numbers: dict[int, int | float | bool] = {}
        self.later: list[tuple[NameScope, Sequence[ast.stmt]]] = []
        # Annotations of parameters, and of what functions give back, which may name what is bound later.
        self.annotated: list[tuple[NameScope, ast.expr | None, int, int]] = []
        self.raised: list[int] | None = None  # what the body of a `try` raises that gives it a name
        # Names that a function binds outside itself: where they are read, any of their values may be there.
        self.shared = frozenset(shared)
        self.scope = self.top = NameScope(None, MODULE)

    def value(self, node: ast.AST | None) -> int:
        """The node of an expression; of a statement, nothing."""
        raise NotImplementedError

    def facts(self) -> ValueFacts:
        """The values that were made so far."""
        return ValueFacts(
            tuple(self.labels),
            tuple(self.edges),
            tuple(self.lines),
            tuple(self.texts),
            tuple(self.functions),
            tuple(self.classes),
            tuple(self.imports),
            tuple((node, name) for name, node in self.outside.items()),
            tuple(self.stars),
            tuple(self.containers),
            tuple(self.calls),
            tuple(self.operations),
            tuple(self.numbers.items()),
        )

    # Nodes and edges

    def new(self) -> int:
        self.lines.append(self.line)
        return len(self.lines) - 1

    def edge(self, source: int, kind: int, target: int, label: str = "") -> None:
        if source and target and source != target:
            self.edges.append((source, kind, target, self.labels.setdefault(label, len(self.labels))))

    def load(self, base: int, label: str) -> int:
        """A field of a value: one node however often it is read."""
        if not base:
            return NOTHING
        found = self.loads.get((base, label))
        if found is None:
            found = self.loads[base, label] = self.new()
            self.edge(base, LOAD, found, label)
        return found

    def join(self, values: Iterable[int], kind: int = ASSIGN) -> int:
        """A node that any of some values comes to; with another kind than ASSIGN always a new one."""
        several = dict.fromkeys(value for value in values if value)
        if not several or (len(several) == 1 and kind == ASSIGN):
            return next(iter(several), NOTHING)
        target = self.new()
        for value in several:
            self.edge(value, kind, target)
        return target

    def container(self, stores: Iterable[tuple[str, int]] = ()) -> int:
        node = self.new()
        self.containers.append(node)
        for label, value in stores:
            self.edge(value, STORE, node, label)
        return node

    def compare(self, one: int, other: int) -> None:
        if one not in self.numbers and other not in self.numbers:
            self.edge(one, COMPARE, other)
            self.edge(other, COMPARE, one)

    # Names

    def bind(self, name: str, value: int) -> None:
        scope = self.scope.declared.get(name, self.scope)
        scope.ever[name].append(value)
        joined = scope.joined.get(name)
        if joined is not None:
            self.edge(value, ASSIGN, joined)
        if scope is self.scope and name not in self.shared and scope.now is not None:
            scope.now[name] = value

    def everything(self, scope: NameScope, name: str) -> int:
        """The join of all that a name is ever bound to."""
        found = scope.joined.get(name)
        if found is None:
            found = scope.joined[name] = self.new()
            for value in dict.fromkeys(scope.ever[name]):
                self.edge(value, ASSIGN, found)
        return found

    def close(self, scope: NameScope) -> None:
        """Make attributes of all that a module or a class binds."""
        for name in list(scope.ever):
            self.edge(self.everything(scope, name), STORE, scope.owner, f".{name}")

    def current(self, name: str, now: Now, loops: Sequence[Loop]) -> int | None:
        """The value of a name now; in a loop, a join that a later round adds to."""
        if name in now or not loops:
            return now.get(name)
        loop = loops[-1]
        if name not in loop.joins:
            value = self.current(name, loop.before, loops[:-1])
            if not value:
                return value
            loop.joins[name] = self.new()
            self.edge(value, ASSIGN, loop.joins[name])
        return loop.joins[name]

    def name(self, node: ast.Name) -> int:
        name = node.id
        scope: NameScope | None = self.scope.declared.get(name, self.scope)
        if scope is self.scope and scope.now is not None:
            found = self.current(name, scope.now, scope.loops)
            if found is not None:
                return found
            if name not in self.shared or name not in scope.ever:
                scope = scope.parent
        elif scope is not self.scope and scope is not None:
            return self.everything(scope, name)
        while scope is not None and (scope.instance or name not in scope.ever):
            scope = scope.parent
        if scope is not None:
            return self.everything(scope, name)
        if name not in self.outside:
            self.outside[name] = self.new()
        return self.outside[name]

    def target(self, node: ast.expr | None, value: int) -> None:
        """Bind what is left of `=`, after `for` or after `as`."""
        if isinstance(node, ast.Name):
            self.bind(node.id, value)
        elif isinstance(node, (ast.Tuple, ast.List)):
            has_star = False
            for index, element in enumerate(node.elts):
                if isinstance(element, ast.Starred):
                    has_star = True
                    self.target(element.value, self.container([("[*]", self.load(value, "[each]"))]))
                else:
                    self.target(element, self.load(value, "[*]" if has_star else f"[{index}]"))
        elif isinstance(node, ast.Attribute):
            self.edge(value, STORE, self.value(node.value), f".{node.attr}")
        elif isinstance(node, ast.Subscript):
            base = self.value(node.value)
            self.edge(value, STORE, base, field_of(node.slice))
            self.edge(self.value(node.slice), STORE, base, "[key]")


def field_of(node: ast.expr) -> str:
    """The field that an index is: `['w']`, `[0]`, or any of them."""
    return f"[{node.value!r}]" if isinstance(node, ast.Constant) else "[*]"
