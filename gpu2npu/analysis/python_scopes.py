"""The scopes of a Python module and what is done in them, in one quick walk over Python's own syntax tree.

The migration edits and needs LibCST's tree of every character. An analysis only reads, and reads every file: the tree
of `ast` is made eight times faster, and this walk costs half of making it. It takes no recursion, however deep a file
nests.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple


class Imported(NamedTuple):
    """A name bound by an import. `qualified` starts with dots when the import is relative."""

    qualified: str


class Assigned(NamedTuple):
    """A name bound to `value`, or to a part of it (`a` in `a, b = value`, `for a in value`). `value` is None where it
    cannot be told. `statement` is what binds it."""

    value: ast.expr | None
    statement: ast.AST
    annotation: ast.expr | None = None
    part: bool = False


class Parameter(NamedTuple):
    """A name bound by a function's signature."""

    annotation: ast.expr | None
    place: int


class Defined(NamedTuple):
    """A name bound by `def` or `class`."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    scope: Scope


Binding = Imported | Assigned | Parameter | Defined


class Scope:
    """One scope. `attributes` are what the methods of a class assign to `self`, each with the method's scope."""

    __slots__ = ("attributes", "bindings", "kind", "node", "outer", "parent")

    def __init__(self, kind: str, parent: Scope | None, node: ast.AST) -> None:
        self.kind = kind  # "module", "class", "function"
        self.parent = parent
        self.node = node
        self.bindings: dict[str, list[Binding]] = {}
        self.outer: dict[str, str] = {}  # name -> "global" or "nonlocal"
        self.attributes: dict[str, list[tuple[Assigned, Scope]]] = {}

    def bind(self, name: str, binding: Binding) -> None:
        scope = self if name not in self.outer else self._outer_scope(name)
        scope.bindings.setdefault(name, []).append(binding)

    def _outer_scope(self, name: str) -> Scope:
        enclosing = list(self.enclosing())
        if self.outer[name] == "global":
            return enclosing[-1] if enclosing else self  # at the top of a module the statement says nothing new
        return next((scope for scope in enclosing if name in scope.bindings), self)

    def enclosing(self) -> Iterator[Scope]:
        """The scopes outside this one in which a name is looked up: classes do not count."""
        scope = self.parent
        while scope is not None:
            if scope.kind != "class":
                yield scope
            scope = scope.parent

    def lookup(self, name: str) -> tuple[Scope, list[Binding]] | None:
        """The scope that a use of `name` refers to, with all its bindings there; None for a free name."""
        if name in self.bindings and name not in self.outer:
            return self, self.bindings[name]
        for scope in self.enclosing():
            if name in scope.bindings:
                return scope, scope.bindings[name]
        return None

    def enclosing_class(self) -> Scope | None:
        """The class whose method, or function within a method, this scope is in."""
        scope: Scope | None = self
        while scope is not None and scope.kind != "class":
            scope = scope.parent
        return scope


class Code(NamedTuple):
    """What a module does, each with the scope it is done in.

    `calls` are all calls. `mentions` are names and dotted names that are read and not called: decorators, base classes,
    values. `products` are the uses of `*` and `@`, `stores` the assignments to a subscript.
    """

    module: Scope
    calls: list[tuple[ast.Call, Scope]]
    mentions: list[tuple[ast.expr, Scope]]
    definitions: list[Defined]
    products: list[tuple[ast.BinOp, Scope]]
    stores: list[tuple[ast.Assign, Scope]]
    stars: list[str]


def collect(tree: ast.Module) -> Code:
    """Every scope, binding and call of a parsed module."""
    walker = _Walker(tree)
    walker.run()
    return walker.code


# Fields that hold no code: names, operators, and annotations, whose names are types and do nothing.
_NO_CODE = frozenset(
    {"ctx", "op", "ops", "type_comment", "kind", "id", "attr", "arg", "name", "names", "module", "level", "simple",
     "type_ignores", "conversion", "is_async", "rest", "kwd_attrs", "type_params", "annotation", "returns"}
)  # fmt: skip
_LEAVES = (ast.Constant, ast.Name, ast.Pass, ast.Break, ast.Continue)
# What is named in these calls is asked about and not used.
_TESTS = frozenset({"isinstance", "issubclass", "hasattr"})


class _CodeFields(dict[type[ast.AST], tuple[str, ...]]):
    """For each kind of node, its fields that may hold code, last first, as a stack takes them; worked out when first
    asked."""

    def __missing__(self, kind: type[ast.AST]) -> tuple[str, ...]:
        known = () if issubclass(kind, _LEAVES) else getattr(kind, "_fields", ())  # {**x} has None for a key
        fields = self[kind] = tuple(name for name in reversed(known) if name not in _NO_CODE)
        return fields


_CODE_FIELDS = _CodeFields()


class _Walker:
    def __init__(self, tree: ast.Module) -> None:
        self.code = Code(Scope("module", None, tree), [], [], [], [], [], [])
        self.later: list[tuple[list[ast.AST], Scope]] = [(list(tree.body), self.code.module)]
        self.stack: list[ast.AST] = []

    def run(self) -> None:
        handlers = _HANDLERS
        while self.later:
            nodes, scope = self.later.pop()
            nodes.reverse()
            self.stack = stack = nodes
            while stack:
                node = stack.pop()
                kind = node.__class__
                handler = handlers.get(kind)
                if handler is not None:
                    handler(self, node, scope)
                    continue
                for field in _CODE_FIELDS[kind]:
                    value = getattr(node, field, None)
                    if value.__class__ is list:
                        stack.extend(reversed(value))
                    elif value is not None:
                        stack.append(value)

    def call(self, node: ast.Call, scope: Scope) -> None:
        self.code.calls.append((node, scope))
        function = node.func
        while isinstance(function, ast.Attribute):
            function = function.value
        stack = self.stack
        stack.extend(keyword.value for keyword in node.keywords)
        if not isinstance(function, ast.Name):
            stack.append(function)
            stack.extend(node.args)
        elif function is node.func and function.id in _TESTS:
            stack.extend(argument for argument in node.args[:1] if not isinstance(argument, ast.Attribute))
        else:
            stack.extend(node.args)

    def attribute(self, node: ast.Attribute, scope: Scope) -> None:
        root: ast.expr = node.value
        while isinstance(root, ast.Attribute):
            root = root.value
        if isinstance(root, ast.Name):
            self.code.mentions.append((node, scope))
        else:
            self.stack.append(root)

    def product(self, node: ast.BinOp, scope: Scope) -> None:
        if node.op.__class__ is ast.Mult or node.op.__class__ is ast.MatMult:
            self.code.products.append((node, scope))
        self.stack.append(node.left)
        self.stack.append(node.right)

    def import_(self, node: ast.Import, scope: Scope) -> None:
        for alias in node.names:
            if alias.asname is not None:
                scope.bind(alias.asname, Imported(alias.name))
            else:
                root = alias.name.partition(".")[0]
                scope.bind(root, Imported(root))

    def import_from(self, node: ast.ImportFrom, scope: Scope) -> None:
        module = "." * node.level + (node.module or "")
        dot = "" if module.endswith(".") else "."
        for alias in node.names:
            if alias.name == "*":
                self.code.stars.append(module)
            else:
                scope.bind(alias.asname or alias.name, Imported(f"{module}{dot}{alias.name}"))

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope) -> None:
        inner = Scope("function", scope, node)
        defined = Defined(node, inner)
        scope.bind(node.name, defined)
        self.code.definitions.append(defined)
        self.decorators(node.decorator_list, scope)
        self.parameters(node.args, inner)
        self.later.append((list(node.body), inner))

    def lambda_(self, node: ast.Lambda, scope: Scope) -> None:
        inner = Scope("function", scope, node)
        self.parameters(node.args, inner)
        self.later.append(([node.body], inner))

    def parameters(self, arguments: ast.arguments, inner: Scope) -> None:
        self.stack.extend(arguments.defaults)
        self.stack.extend(default for default in arguments.kw_defaults if default is not None)
        named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        for index, parameter in enumerate(named):
            inner.bindings[parameter.arg] = [Parameter(parameter.annotation, index)]
        for star in (arguments.vararg, arguments.kwarg):
            if star is not None:
                inner.bindings[star.arg] = [Parameter(None, -1)]

    def class_(self, node: ast.ClassDef, scope: Scope) -> None:
        inner = Scope("class", scope, node)
        defined = Defined(node, inner)
        scope.bind(node.name, defined)
        self.code.definitions.append(defined)
        self.decorators([*node.decorator_list, *node.bases], scope)
        self.stack.extend(keyword.value for keyword in node.keywords)
        self.later.append((list(node.body), inner))

    def decorators(self, nodes: list[ast.expr], scope: Scope) -> None:
        for node in nodes:
            if isinstance(node, ast.Name):
                self.code.mentions.append((node, scope))
            else:
                self.stack.append(node)

    def assign(self, node: ast.Assign, scope: Scope) -> None:
        self.stack.append(node.value)
        if len(node.targets) == 1 and isinstance(node.targets[0], ast.Subscript):
            self.code.stores.append((node, scope))
        for target in node.targets:
            self.target(target, node.value, node, scope)

    def annotated(self, node: ast.AnnAssign, scope: Scope) -> None:
        if node.value is not None:
            self.stack.append(node.value)
        self.target(node.target, node.value, node, scope, node.annotation)

    def augmented(self, node: ast.AugAssign, scope: Scope) -> None:
        self.stack.append(node.value)
        if not isinstance(node.target, ast.Name):  # x += 1 says nothing new about x
            self.stack.append(node.target)

    def named(self, node: ast.NamedExpr, scope: Scope) -> None:
        self.stack.append(node.value)
        owner = scope
        while isinstance(owner.node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)) and owner.parent:
            owner = owner.parent
        self.target(node.target, node.value, node, owner)

    def loop(self, node: ast.For | ast.AsyncFor, scope: Scope) -> None:
        self.target(node.target, node.iter, node, scope, part=True)
        self.stack.extend(reversed(node.orelse))
        self.stack.extend(reversed(node.body))
        self.stack.append(node.iter)

    def comprehension(self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp, scope: Scope) -> None:
        inner = Scope("function", scope, node)
        parts: list[ast.AST] = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        for generator in node.generators:
            self.target(generator.target, generator.iter, node, inner, part=True)
            parts += generator.ifs
            parts.append(generator.iter)
        self.later.append((parts, inner))

    def with_(self, node: ast.With | ast.AsyncWith, scope: Scope) -> None:
        self.stack.extend(reversed(node.body))
        for item in node.items:
            self.stack.append(item.context_expr)
            if item.optional_vars is not None:
                self.target(item.optional_vars, None, node, scope)

    def handler(self, node: ast.ExceptHandler, scope: Scope) -> None:
        if node.name is not None:
            scope.bind(node.name, Assigned(None, node))
        self.stack.extend(reversed(node.body))
        if node.type is not None:
            self.stack.append(node.type)

    def captured(self, node: ast.MatchAs | ast.MatchStar, scope: Scope) -> None:
        if node.name is not None:
            scope.bind(node.name, Assigned(None, node))
        if isinstance(node, ast.MatchAs) and node.pattern is not None:
            self.stack.append(node.pattern)

    def global_(self, node: ast.Global, scope: Scope) -> None:
        scope.outer.update(dict.fromkeys(node.names, "global"))

    def nonlocal_(self, node: ast.Nonlocal, scope: Scope) -> None:
        scope.outer.update(dict.fromkeys(node.names, "nonlocal"))

    def target(
        self,
        node: ast.expr,
        value: ast.expr | None,
        statement: ast.AST,
        scope: Scope,
        annotation: ast.expr | None = None,
        part: bool = False,
    ) -> None:
        if isinstance(node, ast.Name):
            scope.bind(node.id, Assigned(value, statement, annotation, part))
        elif isinstance(node, ast.Attribute):
            if isinstance(node.value, ast.Name):
                owner = scope.enclosing_class() if node.value.id == "self" else None
                if owner is not None:
                    assigned = Assigned(value, statement, annotation, part)
                    owner.attributes.setdefault(node.attr, []).append((assigned, scope))
            else:
                self.stack.append(node.value)
        elif isinstance(node, (ast.Tuple, ast.List)):
            self.unpack(node.elts, value, statement, scope, part)
        elif isinstance(node, ast.Starred):
            self.target(node.value, None, statement, scope)
        else:
            self.stack.append(node)

    def unpack(
        self, targets: list[ast.expr], value: ast.expr | None, statement: ast.AST, scope: Scope, part: bool
    ) -> None:
        values: list[ast.expr | None]
        if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(targets) and not part:
            starred = any(isinstance(each, ast.Starred) for each in (*targets, *value.elts))
            inner = False
            values = [None] * len(targets) if starred else [*value.elts]
        elif part:
            values, inner = [None for _ in targets], False
        else:
            values, inner = [value for _ in targets], True
        for target, each in zip(targets, values, strict=True):
            self.target(target, each, statement, scope, part=inner)


_HANDLERS: dict[type[ast.AST], Callable[[_Walker, Any, Scope], None]] = {
    ast.Call: _Walker.call,
    ast.Attribute: _Walker.attribute,
    ast.BinOp: _Walker.product,
    ast.Import: _Walker.import_,
    ast.ImportFrom: _Walker.import_from,
    ast.FunctionDef: _Walker.function,
    ast.AsyncFunctionDef: _Walker.function,
    ast.Lambda: _Walker.lambda_,
    ast.ClassDef: _Walker.class_,
    ast.Assign: _Walker.assign,
    ast.AnnAssign: _Walker.annotated,
    ast.AugAssign: _Walker.augmented,
    ast.NamedExpr: _Walker.named,
    ast.For: _Walker.loop,
    ast.AsyncFor: _Walker.loop,
    ast.ListComp: _Walker.comprehension,
    ast.SetComp: _Walker.comprehension,
    ast.DictComp: _Walker.comprehension,
    ast.GeneratorExp: _Walker.comprehension,
    ast.With: _Walker.with_,
    ast.AsyncWith: _Walker.with_,
    ast.ExceptHandler: _Walker.handler,
    ast.MatchAs: _Walker.captured,
    ast.MatchStar: _Walker.captured,
    ast.Global: _Walker.global_,
    ast.Nonlocal: _Walker.nonlocal_,
}
