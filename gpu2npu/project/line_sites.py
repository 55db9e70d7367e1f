"""The names and strings on one line of a Python file, each with what is above it: what `explain` looks at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from gpu2npu.engine.names import Names
from gpu2npu.engine.scopes import Scope
from gpu2npu.engine.tree import children


@dataclass(frozen=True)
class Site:
    """A name or string on the line: the nodes above it, outermost first, and the scope it is in."""

    node: cst.Name | cst.SimpleString | cst.FormattedStringText
    above: tuple[cst.CSTNode, ...]
    scope: Scope

    @property
    def expression(self) -> cst.CSTNode:
        """`a.b` for the `b` of it; the name itself otherwise."""
        parent = self.above[-1]
        return parent if isinstance(parent, cst.Attribute) and parent.attr is self.node else self.node

    @property
    def call(self) -> cst.Call | None:
        """The call of the expression, if it is called."""
        expression = self.expression
        parent = self.above[-1] if expression is self.node else self.above[-2]
        return parent if isinstance(parent, cst.Call) and parent.func is expression else None

    @property
    def statement(self) -> cst.CSTNode | None:
        """The import statement that the name is part of, if it is."""
        return next((node for node in reversed(self.above) if isinstance(node, (cst.Import, cst.ImportFrom))), None)


def sites_on_line(module: cst.Module, names: Names, line: int) -> list[Site]:
    """Every name and string that begins, or goes on, on a line of the module (counted from 1)."""
    positions = MetadataWrapper(module, unsafe_skip_copy=True).resolve(PositionProvider)
    return [
        Site(node, tuple(above), scope)
        for node, above, scope in _walk(module, [], names.scopes.module, names)
        if isinstance(node, (cst.Name, cst.SimpleString, cst.FormattedStringText))
        and positions[node].start.line <= line <= positions[node].end.line
    ]


def _walk(
    node: cst.CSTNode, above: list[cst.CSTNode], scope: Scope, names: Names
) -> Iterator[tuple[cst.CSTNode, list[cst.CSTNode], Scope]]:
    yield node, above, scope
    inner = names.scopes.by_node.get(id(node), scope)
    above.append(node)
    for child in children(node):
        yield from _walk(child, above, inner, names)
    above.pop()
