"""One walk over a syntax tree: every scope and binding, the node above each node, and the uses of names in order.

It takes no recursion, however deep a file nests.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Sequence
from typing import Any

from gpu2npu.python.text.offsets import Lines
from gpu2npu.python.tree.scopes import Assigned, Binding, Defined, Imported, Parameter, Scope, Scopes
from gpu2npu.python.tree.syntax import (
    Comprehension,
    Function,
    Import,
    arguments,
    import_module,
    imported_names,
    local_name,
    parameters,
)
from gpu2npu.python.tree.syntax_tree import relocate

# A node and the scope in which its names are looked up.
Use = tuple[ast.AST, Scope]
# The types of the nodes that are uses: of BinOp products alone, of Assign those to one subscript.
USES = (
    *(ast.Name, ast.Attribute, ast.Call, ast.keyword, ast.Constant, ast.JoinedStr, ast.BinOp, ast.Assign),
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom),
)


class Walk:
    """Walks a syntax tree, and keeps what it finds.

    `uses` are, in the order of the source and each before what is inside it: names that are read or deleted, dotted
    expressions as wholes, calls, keywords of calls, strings, f-strings, definitions, imports, products (`*`, `@`) and
    assignments to one subscript. `stored` are the names of attributes that are assigned.

    Without `lines`, expressions in f-strings stay at the places that Python gives them, which may be wrong.
    """

    def __init__(self, tree: ast.Module, lines: Lines | None) -> None:
        self._lines = lines
        self.module = Scope("module", None, tree)
        self.scopes = Scopes({tree: self.module})
        self.parents: dict[ast.AST, ast.AST] = {}
        self.uses: list[Use] = []
        self.imports: list[tuple[Import, Scope]] = []
        self.stars: list[str] = []
        self.stored: set[str] = set()
        self._later: list[tuple[Scope, str, Binding]] = []
        self._stack: list[tuple[ast.AST, Scope]] = []
        self._push(tree, self.module, tree.body)
        self._run()
        for scope, name, binding in self._later:  # `nonlocal` names a scope whose bindings may come behind it
            scope.owner(name).bindings.setdefault(name, []).append(binding)

    def _run(self) -> None:
        stack, handlers, parents, fields, uses = self._stack, _HANDLERS, self.parents, _FIELDS, self.uses
        while stack:
            use = stack.pop()
            node, scope = use
            kind = node.__class__
            if kind is ast.Constant:  # the two kinds that are half of all nodes
                if node.value.__class__ is str:  # type: ignore[attr-defined]
                    uses.append(use)
                continue
            if kind is ast.Name and node.ctx.__class__ is ast.Load:  # type: ignore[attr-defined]
                uses.append(use)
                continue
            handler = handlers.get(kind)
            if handler is not None:
                handler(self, node, scope)
                continue
            for name in fields[kind]:
                value = getattr(node, name, None)
                if value.__class__ is list:
                    for child in reversed(value):
                        if child is not None:
                            parents[child] = node
                            stack.append((child, scope))
                elif value is not None:
                    parents[value] = node
                    stack.append((value, scope))

    def _push(self, parent: ast.AST, scope: Scope, nodes: Sequence[ast.AST | None]) -> None:
        """Visit nodes next, the first one first."""
        parents, stack = self.parents, self._stack
        for node in reversed(nodes):
            if node is not None:
                parents[node] = parent
                stack.append((node, scope))

    def _open(self, kind: str, node: ast.AST, parent: Scope) -> Scope:
        scope = self.scopes[node] = Scope(kind, parent, node)
        return scope

    def _bind(self, scope: Scope, name: str, binding: Binding) -> None:
        if not scope.declared:
            scope.bindings.setdefault(name, []).append(binding)
        elif scope.declared.get(name) == "nonlocal":
            self._later.append((scope, name, binding))
        else:
            scope.owner(name).bindings.setdefault(name, []).append(binding)

    # Names and expressions

    def name(self, node: ast.Name, scope: Scope) -> None:
        if node.ctx.__class__ is ast.Del:
            self._bind(scope, node.id, Assigned(None, node))
            self.uses.append((node, scope))

    def attribute(self, node: ast.Attribute, scope: Scope) -> None:
        self.uses.append((node, scope))
        part: ast.Attribute = node
        while part.value.__class__ is ast.Attribute:
            self.parents[part.value] = part
            part = part.value
        if part.value.__class__ is ast.Name:
            self.parents[part.value] = part
        else:
            self.parents[part.value] = part
            self._stack.append((part.value, scope))

    def call(self, node: ast.Call, scope: Scope) -> None:
        self.uses.append((node, scope))
        self._push(node, scope, arguments(node))
        self.parents[node.func] = node
        self._stack.append((node.func, scope))

    def keyword(self, node: ast.keyword, scope: Scope) -> None:
        self.uses.append((node, scope))
        self.parents[node.value] = node
        self._stack.append((node.value, scope))

    def joined(self, node: ast.JoinedStr, scope: Scope) -> None:
        if self._lines is not None:
            relocate(node, self._lines)
        self.uses.append((node, scope))
        self._push(node, scope, [part for part in node.values if not isinstance(part, ast.Constant)])

    def formatted(self, node: ast.FormattedValue, scope: Scope) -> None:
        inner = node.format_spec.values if isinstance(node.format_spec, ast.JoinedStr) else ()
        self._push(node, scope, (node.value, *(part for part in inner if not isinstance(part, ast.Constant))))

    def product(self, node: ast.BinOp, scope: Scope) -> None:
        if node.op.__class__ is ast.Mult or node.op.__class__ is ast.MatMult:
            self.uses.append((node, scope))
        self._push(node, scope, (node.left, node.right))

    def lambda_(self, node: ast.Lambda, scope: Scope) -> None:
        inner = self._open("function", node, scope)
        self._push(node, inner, (node.body,))
        self._parameters(node, inner)
        self._push(node.args, scope, [*node.args.defaults, *node.args.kw_defaults])

    def comprehension(self, node: Comprehension, scope: Scope) -> None:
        """The first iterable belongs to the scope outside."""
        inner = self._open("function", node, scope)
        parts: list[tuple[ast.AST, ast.AST, Scope]] = []
        results = (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,)
        parts += ((node, result, inner) for result in results)
        for index, generator in enumerate(node.generators):
            self.parents[generator] = node
            self._target(generator, generator.target, generator.iter, inner, is_part=True)
            parts.append((generator, generator.iter, inner if index else scope))
            parts += ((generator, test, inner) for test in generator.ifs)
        for parent, part, its_scope in reversed(parts):
            self._push(parent, its_scope, (part,))

    def named(self, node: ast.NamedExpr, scope: Scope) -> None:
        self._target(node, node.target, node.value, scope.function())
        self._push(node, scope, (node.value,))

    # Definitions

    def function(self, node: Function, scope: Scope) -> None:
        self.uses.append((node, scope))
        outer = self._generic(node, scope)
        inner = self._open("function", node, outer)
        self._bind(scope, node.name, Defined(node, inner))
        self._push(node, inner, node.body)
        self._push(node, outer, (node.returns,))
        self._signature(node, scope, outer, inner)
        self._push(node, scope, node.decorator_list)

    def class_(self, node: ast.ClassDef, scope: Scope) -> None:
        self.uses.append((node, scope))
        outer = self._generic(node, scope)
        inner = self._open("class", node, outer)
        self._bind(scope, node.name, Defined(node, inner))
        self._push(node, inner, node.body)
        self._push(node, outer, arguments(node))
        self._push(node, scope, node.decorator_list)

    def _generic(self, node: ast.AST, scope: Scope) -> Scope:
        """The scope of the type parameters of a definition, or the one it is in if it has none."""
        given: list[Any] = getattr(node, "type_params", None) or []
        if not given:
            return scope
        types = Scope("types", scope, node)
        for each in given:
            self._bind(types, each.name, Assigned(None, each))
        self._push(node, types, given)
        return types

    def type_alias(self, node: Any, scope: Scope) -> None:
        types = self._generic(node, scope)
        if types is not scope:
            self.scopes[node] = types
        self._bind(scope, node.name.id, Assigned(None, node))
        self._push(node, types, (node.value,))

    def _signature(self, node: Function, scope: Scope, outer: Scope, inner: Scope) -> None:
        """Defaults are evaluated outside; annotations too, where they see the type parameters."""
        self._parameters(node, inner)
        self._push(node.args, scope, [*node.args.defaults, *node.args.kw_defaults])
        for parameter in reversed(parameters(node)):
            self._push(parameter, outer, (parameter.annotation,))

    def _parameters(self, node: Function | ast.Lambda, inner: Scope) -> None:
        self.parents[node.args] = node
        for position, parameter in enumerate(parameters(node)):
            star = parameter is node.args.vararg or parameter is node.args.kwarg
            inner.bindings[parameter.arg] = [Parameter(parameter, -1 if star else position)]
            self.parents[parameter] = node.args

    def import_(self, node: Import, scope: Scope) -> None:
        self.uses.append((node, scope))
        self.imports.append((node, scope))
        for alias, qualified in imported_names(node):
            self.parents[alias] = node
            if alias.name == "*":
                assert isinstance(node, ast.ImportFrom)
                self.stars.append(import_module(node))
                continue
            local = local_name(alias, node)
            if isinstance(node, ast.Import) and alias.asname is None:
                qualified = local
            self._bind(scope, local, Imported(qualified, node, alias, renamed=alias.asname is not None))

    # Statements that bind

    def assign(self, node: ast.Assign, scope: Scope) -> None:
        if len(node.targets) == 1 and isinstance(node.targets[0], ast.Subscript):
            self.uses.append((node, scope))
        self.parents[node.value] = node
        self._stack.append((node.value, scope))
        for target in reversed(node.targets):
            if isinstance(target, ast.Name):  # as most are
                self.parents[target] = node
                self._bind(scope, target.id, Assigned(node.value, node))
            else:
                self._target(node, target, node.value, scope)

    def annotated(self, node: ast.AnnAssign, scope: Scope) -> None:
        self._push(node, scope, (node.annotation, node.value))
        self._target(node, node.target, node.value, scope, annotation=node.annotation)

    def augmented(self, node: ast.AugAssign, scope: Scope) -> None:
        self._push(node, scope, (node.value,))
        self._target(node, node.target, None, scope)

    def loop(self, node: ast.For | ast.AsyncFor, scope: Scope) -> None:
        self._push(node, scope, (node.iter, *node.body, *node.orelse))
        self._target(node, node.target, node.iter, scope, is_part=True)

    def with_(self, node: ast.With | ast.AsyncWith, scope: Scope) -> None:
        self._push(node, scope, node.body)
        for item in reversed(node.items):
            self.parents[item] = node
            if item.optional_vars is not None:
                self._target(item, item.optional_vars, None, scope)
            self._push(item, scope, (item.context_expr,))

    def handler(self, node: ast.ExceptHandler, scope: Scope) -> None:
        if node.name is not None:
            self._bind(scope, node.name, Assigned(None, node))
        self._push(node, scope, (node.type, *node.body))

    def capture(self, node: ast.MatchAs | ast.MatchStar, scope: Scope) -> None:
        if node.name is not None:
            self._bind(scope, node.name, Assigned(None, node))
        if isinstance(node, ast.MatchAs):
            self._push(node, scope, (node.pattern,))

    def mapping(self, node: ast.MatchMapping, scope: Scope) -> None:
        if node.rest is not None:
            self._bind(scope, node.rest, Assigned(None, node))
        self._push(node, scope, [part for pair in zip(node.keys, node.patterns, strict=True) for part in pair])

    def skip(self, node: ast.AST, scope: Scope) -> None:
        """Nothing in the node is code: `case None:`."""

    def declared(self, node: ast.Global | ast.Nonlocal, scope: Scope) -> None:
        word = "global" if isinstance(node, ast.Global) else "nonlocal"
        if scope.kind != "module":
            scope.declared.update(dict.fromkeys(node.names, word))

    def _target(
        self,
        statement: ast.AST,
        node: ast.expr,
        value: ast.expr | None,
        scope: Scope,
        annotation: ast.expr | None = None,
        is_part: bool = False,
    ) -> None:
        self.parents[node] = statement
        pending = [(node, value, is_part)]
        while pending:
            target, its_value, part = pending.pop()
            if isinstance(target, ast.Name):
                self._bind(scope, target.id, Assigned(its_value, statement, annotation, part))
            elif isinstance(target, (ast.Tuple, ast.List)):
                for inner in target.elts:
                    self.parents[inner] = target
                pending += reversed(_unpacked(target.elts, its_value, part))
            elif isinstance(target, ast.Starred):
                self.parents[target.value] = target
                pending.append((target.value, None, part))
            else:
                if isinstance(target, ast.Attribute):
                    self.stored.add(target.attr)
                    owner = scope.enclosing_class() if getattr(target.value, "id", None) == "self" else None
                    if owner is not None:
                        assigned = Assigned(its_value, statement, annotation, part)
                        owner.attributes.setdefault(target.attr, []).append((assigned, scope))
                self._stack.append((target, scope))


def _unpacked(
    targets: list[ast.expr], value: ast.expr | None, is_part: bool
) -> list[tuple[ast.expr, ast.expr | None, bool]]:
    """Return what each target of an unpacking takes: the element that is at its place, or a part of the whole."""
    if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(targets) and not is_part:
        if not any(isinstance(each, ast.Starred) for each in (*targets, *value.elts)):
            return [(target, each, False) for target, each in zip(targets, value.elts, strict=True)]
        return [(target, None, False) for target in targets]
    # A part of a part is not known.
    return [(target, None if is_part else value, not is_part) for target in targets]


class _Fields(dict[type[ast.AST], tuple[str, ...]]):
    """For each kind of node its fields that may hold nodes, last first, as a stack takes them."""

    def __missing__(self, kind: type[ast.AST]) -> tuple[str, ...]:
        self[kind] = tuple(name for name in reversed(kind._fields) if name not in _NO_NODES)
        return self[kind]


_NO_NODES = frozenset(
    {"ctx", "op", "ops", "type_comment", "kind", "id", "attr", "arg", "name", "conversion", "is_async", "simple",
     "type_ignores", "rest", "kwd_attrs", "level", "module"}
)  # fmt: skip
_FIELDS = _Fields()

_HANDLERS: dict[type[ast.AST], Callable[[Walk, Any, Scope], None]] = {
    ast.Name: Walk.name,
    ast.Attribute: Walk.attribute,
    ast.Call: Walk.call,
    ast.keyword: Walk.keyword,
    ast.JoinedStr: Walk.joined,
    ast.FormattedValue: Walk.formatted,
    ast.BinOp: Walk.product,
    ast.Lambda: Walk.lambda_,
    ast.ListComp: Walk.comprehension,
    ast.SetComp: Walk.comprehension,
    ast.DictComp: Walk.comprehension,
    ast.GeneratorExp: Walk.comprehension,
    ast.NamedExpr: Walk.named,
    ast.FunctionDef: Walk.function,
    ast.AsyncFunctionDef: Walk.function,
    ast.ClassDef: Walk.class_,
    ast.Import: Walk.import_,
    ast.ImportFrom: Walk.import_,
    ast.Assign: Walk.assign,
    ast.AnnAssign: Walk.annotated,
    ast.AugAssign: Walk.augmented,
    ast.For: Walk.loop,
    ast.AsyncFor: Walk.loop,
    ast.With: Walk.with_,
    ast.AsyncWith: Walk.with_,
    ast.ExceptHandler: Walk.handler,
    ast.MatchAs: Walk.capture,
    ast.MatchStar: Walk.capture,
    ast.MatchMapping: Walk.mapping,
    ast.MatchSingleton: Walk.skip,
    ast.Global: Walk.declared,
    ast.Nonlocal: Walk.declared,
}
if sys.version_info >= (3, 12):
    _HANDLERS[ast.TypeAlias] = Walk.type_alias
