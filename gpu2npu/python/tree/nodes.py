"""The nodes of a syntax tree in the order of the source, each before what is inside it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from gpu2npu.python.tree.syntax import arguments


def child_nodes(node: ast.AST) -> list[ast.AST]:
    """The nodes directly in a node that are code: no contexts, operators or text of f-strings."""
    kind = node.__class__
    if kind in _LEAVES:
        return []
    special = _SPECIAL.get(kind)
    if special is not None:
        return [child for child in special(node) if child is not None]
    found: list[ast.AST] = []
    for name in _FIELDS[kind]:
        value = getattr(node, name, None)
        if value.__class__ is list:
            found += [child for child in value if child.__class__ is not str and child is not None]
        elif value is not None:
            found.append(value)
    return found


def walk(*nodes: ast.AST) -> Iterator[ast.AST]:
    """Some nodes and all below them."""
    pending = list(reversed(nodes))
    while pending:
        node = pending.pop()
        yield node
        pending += reversed(child_nodes(node))


ByKind = Mapping[type[ast.AST], Sequence[Any]]


def by_kind(tree: ast.AST) -> ByKind:
    """The nodes of a tree by their types."""
    kinds: dict[type[ast.AST], list[ast.AST]] = {}
    for node in walk(tree):
        kinds.setdefault(node.__class__, []).append(node)
    return kinds


def code_words(tree: ast.AST) -> Iterator[str]:
    """The names, attributes, keywords, imported names and strings that code is written with: nothing of comments, nor
    of strings that are statements by themselves, such as docstrings."""
    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        if isinstance(node, ast.ImportFrom):
            yield node.module or ""
        parts = node.values if isinstance(node, ast.JoinedStr) else [node]
        for name in (getattr(part, _WORD[part.__class__]) for part in parts if part.__class__ in _WORD):
            if isinstance(name, str):
                yield name
        pending += child_nodes(node)


_WORD: dict[type[ast.AST], str] = {
    ast.Name: "id",
    ast.Attribute: "attr",
    ast.keyword: "arg",
    ast.alias: "name",
    ast.Constant: "value",
}


def _of_call(node: ast.Call) -> list[ast.AST | None]:
    return [node.func, *arguments(node)]


def _of_class(node: ast.ClassDef) -> list[ast.AST | None]:
    return [*node.decorator_list, *getattr(node, "type_params", ()), *arguments(node), *node.body]


def _of_function(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.AST | None]:
    return [*node.decorator_list, *getattr(node, "type_params", ()), node.args, node.returns, *node.body]


def _of_dict(node: ast.Dict) -> list[ast.AST | None]:
    return [part for pair in zip(node.keys, node.values, strict=True) for part in pair]


def _of_joined(node: ast.JoinedStr) -> list[ast.AST | None]:
    return [part for part in node.values if not isinstance(part, ast.Constant)]


def _of_formatted(node: ast.FormattedValue) -> list[ast.AST | None]:
    inner = _of_joined(node.format_spec) if isinstance(node.format_spec, ast.JoinedStr) else []
    return [node.value, *inner]


_SPECIAL: dict[type[ast.AST], Callable[[Any], list[ast.AST | None]]] = {
    ast.Call: _of_call,
    ast.ClassDef: _of_class,
    ast.FunctionDef: _of_function,
    ast.AsyncFunctionDef: _of_function,
    ast.Dict: _of_dict,
    ast.JoinedStr: _of_joined,
    ast.FormattedValue: _of_formatted,
}
_LEAVES = frozenset(
    {ast.Name, ast.Constant, ast.Pass, ast.Break, ast.Continue, ast.Global, ast.Nonlocal, ast.alias, ast.MatchSingleton}
)
_NO_NODES = frozenset({"ctx", "op", "ops", "type_comment", "type_ignores", "conversion", "is_async", "simple"})


class _Fields(dict[type[ast.AST], tuple[str, ...]]):
    """For each kind of node its fields that may hold nodes."""

    def __missing__(self, kind: type[ast.AST]) -> tuple[str, ...]:
        self[kind] = tuple(name for name in kind._fields if name not in _NO_NODES and name not in _TEXT.get(kind, ()))
        return self[kind]


# Fields that hold names as text.
_TEXT: dict[type[ast.AST], tuple[str, ...]] = {
    ast.Attribute: ("attr",),
    ast.keyword: ("arg",),
    ast.arg: ("arg",),
    ast.ExceptHandler: ("name",),
    ast.ImportFrom: ("module", "level"),
    ast.MatchAs: ("name",),
    ast.MatchStar: ("name",),
    ast.MatchMapping: ("rest",),
    ast.MatchClass: ("kwd_attrs",),
}
_FIELDS = _Fields()
