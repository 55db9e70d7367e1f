"""Which scope binds which name to what: one walk over a module, before any name is looked up.

Python decides a name's scope by all its bindings, wherever they stand, so look-ups can start only after this walk.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import libcst as cst

from gpu2npu.engine.tree import children, dotted_name


@dataclass(frozen=True)
class Imported:
    """A name bound by an import. `qualified` starts with dots when the import is relative; `local` has no `as`."""

    qualified: str
    statement: cst.Import | cst.ImportFrom
    alias: cst.ImportAlias
    renamed: bool


@dataclass(frozen=True)
class Assigned:
    """A name bound by an assignment; `value` is None where the value cannot be told (loops, unpacking, `except`)."""

    value: cst.BaseExpression | None
    annotation: cst.BaseExpression | None = None


@dataclass(frozen=True)
class Parameter:
    """A name bound by a function's signature."""

    annotation: cst.BaseExpression | None


@dataclass(frozen=True)
class Defined:
    """A name bound by `def` or `class`."""

    node: cst.FunctionDef | cst.ClassDef
    scope: Scope


Binding = Imported | Assigned | Parameter | Defined


@dataclass(eq=False)
class Scope:
    """One Python scope. `attributes` are what a class's methods assign to `self`."""

    kind: str  # "module", "class", "function"
    parent: Scope | None
    node: cst.CSTNode
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    outer_names: dict[str, str] = field(default_factory=dict)  # name -> "global" or "nonlocal"
    attributes: dict[str, list[Assigned]] = field(default_factory=dict)

    def bind(self, name: str, binding: Binding) -> None:
        target = self._owner(name)
        target.bindings.setdefault(name, []).append(binding)

    def _owner(self, name: str) -> Scope:
        declared = self.outer_names.get(name)
        if declared == "global":
            return self.module
        if declared == "nonlocal":
            return next((scope for scope in self._enclosing() if name in scope.bindings), self)
        return self

    @property
    def module(self) -> Scope:
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope

    def _enclosing(self) -> Iterator[Scope]:
        """The scopes outside this one in which a name is looked up: classes do not count."""
        scope = self.parent
        while scope is not None:
            if scope.kind != "class":
                yield scope
            scope = scope.parent

    def lookup(self, name: str) -> tuple[Scope, list[Binding]] | None:
        """The scope that a use of `name` here refers to, with all its bindings there; None for a free name."""
        if name in self.outer_names:
            scope = self._owner(name)
            return (scope, scope.bindings[name]) if name in scope.bindings else None
        if name in self.bindings:
            return self, self.bindings[name]
        for scope in self._enclosing():
            if name in scope.bindings:
                return scope, scope.bindings[name]
        return None

    def enclosing_class(self) -> Scope | None:
        """The class whose method (or nested function of a method) this scope is in."""
        scope: Scope | None = self
        while scope is not None and scope.kind != "class":
            scope = scope.parent
        return scope


@dataclass(frozen=True)
class Scopes:
    """The scopes of a module. `by_node` finds the scope that a function, class, lambda or comprehension opens."""

    module: Scope
    by_node: dict[int, Scope]
    star_imports: tuple[str, ...]
    imports: tuple[tuple[cst.Import | cst.ImportFrom, Scope], ...]


def collect_scopes(module: cst.Module) -> Scopes:
    """Every scope and binding of a parsed module."""
    collector = _Collector(module)
    collector.visit_all(module, collector.root)
    return Scopes(collector.root, collector.by_node, tuple(collector.stars), tuple(collector.imports))


class _Collector:
    def __init__(self, module: cst.Module) -> None:
        self.root = Scope("module", None, module)
        self.by_node: dict[int, Scope] = {id(module): self.root}
        self.stars: list[str] = []
        self.imports: list[tuple[cst.Import | cst.ImportFrom, Scope]] = []
        self.handlers = {
            cst.Import: self.import_,
            cst.ImportFrom: self.import_from,
            cst.FunctionDef: self.function,
            cst.Lambda: self.lambda_,
            cst.ClassDef: self.class_,
            cst.Assign: self.assign,
            cst.AnnAssign: self.annotated,
            cst.AugAssign: self.augmented,
            cst.NamedExpr: self.named,
            cst.For: self.loop,
            cst.CompFor: self.loop,
            cst.AsName: self.as_name,
            cst.Global: self.outer,
            cst.Nonlocal: self.outer,
            cst.MatchAs: self.capture,
            cst.MatchStar: self.capture,
            cst.WithItem: self.with_item,
            cst.ListComp: self.comprehension,
            cst.SetComp: self.comprehension,
            cst.DictComp: self.comprehension,
            cst.GeneratorExp: self.comprehension,
        }

    def visit(self, node: cst.CSTNode, scope: Scope) -> None:
        handler = self.handlers.get(type(node))
        if handler is not None:
            handler(node, scope)  # type: ignore[operator]
        else:
            self.visit_all(node, scope)

    def visit_all(self, node: cst.CSTNode, scope: Scope) -> None:
        for child in children(node):
            self.visit(child, scope)

    def open(self, kind: str, node: cst.CSTNode, parent: Scope) -> Scope:
        scope = self.by_node[id(node)] = Scope(kind, parent, node)
        return scope

    def import_(self, node: cst.Import, scope: Scope) -> None:
        self.imports.append((node, scope))
        for alias in node.names:
            qualified = dotted_name(alias.name) or ""
            if alias.asname is not None:
                local = dotted_name(alias.asname.name) or ""
                scope.bind(local, Imported(qualified, node, alias, renamed=True))
            else:
                root = qualified.partition(".")[0]
                scope.bind(root, Imported(root, node, alias, renamed=False))

    def import_from(self, node: cst.ImportFrom, scope: Scope) -> None:
        self.imports.append((node, scope))
        module = import_module(node)
        if isinstance(node.names, cst.ImportStar):
            self.stars.append(module)
            return
        for alias in node.names:
            name = dotted_name(alias.name) or ""
            local = name if alias.asname is None else dotted_name(alias.asname.name) or ""
            separator = "" if module.endswith(".") else "."
            scope.bind(local, Imported(f"{module}{separator}{name}", node, alias, renamed=alias.asname is not None))

    def function(self, node: cst.FunctionDef, scope: Scope) -> None:
        inner = self.open("function", node, scope)
        scope.bind(node.name.value, Defined(node, inner))
        for decorator in node.decorators:
            self.visit(decorator, scope)
        self.parameters(node.params, scope, inner)
        if node.returns is not None:
            self.visit(node.returns, scope)
        self.visit(node.body, inner)

    def lambda_(self, node: cst.Lambda, scope: Scope) -> None:
        inner = self.open("function", node, scope)
        self.parameters(node.params, scope, inner)
        self.visit(node.body, inner)

    def parameters(self, node: cst.Parameters, outer: Scope, inner: Scope) -> None:
        for param in every_param(node):
            annotation = param.annotation.annotation if param.annotation is not None else None
            inner.bind(param.name.value, Parameter(annotation))
            for part in (annotation, param.default):
                if part is not None:
                    self.visit(part, outer)

    def class_(self, node: cst.ClassDef, scope: Scope) -> None:
        inner = self.open("class", node, scope)
        scope.bind(node.name.value, Defined(node, inner))
        for part in (*node.decorators, *node.bases, *node.keywords):
            self.visit(part, scope)
        self.visit(node.body, inner)

    def assign(self, node: cst.Assign, scope: Scope) -> None:
        self.visit(node.value, scope)
        for target in node.targets:
            self.target(target.target, node.value, scope)

    def annotated(self, node: cst.AnnAssign, scope: Scope) -> None:
        self.visit(node.annotation, scope)
        if node.value is not None:
            self.visit(node.value, scope)
        self.target(node.target, node.value, scope, node.annotation.annotation)

    def augmented(self, node: cst.AugAssign, scope: Scope) -> None:
        self.visit(node.value, scope)
        self.target(node.target, None, scope)

    def named(self, node: cst.NamedExpr, scope: Scope) -> None:
        self.visit(node.value, scope)
        self.target(node.target, node.value, scope)

    def loop(self, node: cst.For | cst.CompFor, scope: Scope) -> None:
        self.target(node.target, None, scope)
        for child in children(node):
            if child is not node.target:
                self.visit(child, scope)

    def comprehension(self, node: cst.BaseComp, scope: Scope) -> None:
        self.visit_all(node, self.open("function", node, scope))

    def with_item(self, node: cst.WithItem, scope: Scope) -> None:
        self.visit(node.item, scope)
        if node.asname is not None:
            self.target(node.asname.name, None, scope)

    def as_name(self, node: cst.AsName, scope: Scope) -> None:
        self.target(node.name, None, scope)

    def capture(self, node: cst.MatchAs | cst.MatchStar, scope: Scope) -> None:
        if node.name is not None:
            scope.bind(node.name.value, Assigned(None))
        if isinstance(node, cst.MatchAs) and node.pattern is not None:
            self.visit(node.pattern, scope)

    def outer(self, node: cst.Global | cst.Nonlocal, scope: Scope) -> None:
        word = "global" if isinstance(node, cst.Global) else "nonlocal"
        for item in node.names:
            scope.outer_names[item.name.value] = word

    def target(
        self,
        node: cst.CSTNode,
        value: cst.BaseExpression | None,
        scope: Scope,
        annotation: cst.BaseExpression | None = None,
    ) -> None:
        if isinstance(node, cst.Name):
            scope.bind(node.value, Assigned(value, annotation))
        elif isinstance(node, (cst.Tuple, cst.List)):
            self.unpack(node, value, scope)
        elif isinstance(node, cst.StarredElement):
            self.target(node.value, None, scope)
        else:
            if isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name) and node.value.value == "self":
                owner = scope.enclosing_class()
                if owner is not None:
                    owner.attributes.setdefault(node.attr.value, []).append(Assigned(value, annotation))
            self.visit(node, scope)

    def unpack(self, node: cst.Tuple | cst.List, value: cst.BaseExpression | None, scope: Scope) -> None:
        values: list[cst.BaseExpression | None] = [None] * len(node.elements)
        if isinstance(value, (cst.Tuple, cst.List)) and len(value.elements) == len(values):
            plain = all(isinstance(part, cst.Element) for part in (*node.elements, *value.elements))
            values = [part.value for part in value.elements] if plain else values
        for part, part_value in zip(node.elements, values, strict=True):
            inner = part.value if isinstance(part, cst.Element) else part
            self.target(inner, part_value, scope)


def import_module(node: cst.ImportFrom) -> str:
    """The module of a from-import, with its leading dots."""
    return "." * len(node.relative) + (dotted_name(node.module) or "" if node.module is not None else "")


def every_param(node: cst.Parameters) -> Iterator[cst.Param]:
    """The parameters of a signature in the order of the call, starred ones last."""
    yield from node.posonly_params
    yield from node.params
    yield from node.kwonly_params
    for star in (node.star_arg, node.star_kwarg):
        if isinstance(star, cst.Param):
            yield star
