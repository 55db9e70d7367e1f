"""The places of strings whose meaning is judged, and what a judgement may be."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpu2npu.python.names import Names
from gpu2npu.python.scopes import Scope
from gpu2npu.python.syntax import FUNCTIONS, elements, returned_values, string_value

YES = "yes"
NO = "no"
UNSURE = "unsure"


class Siblings:
    """The strings directly inside displays and functions; remembered, since each of them may be asked for them all."""

    def __init__(self) -> None:
        self._inside: dict[ast.AST, frozenset[str]] = {}

    def inside(self, node: ast.AST) -> frozenset[str]:
        """The strings that a list, tuple or set has as elements, a dict as keys, a function as returned values."""
        if node not in self._inside:
            nodes: Iterable[ast.AST | None] = elements(node)
            if isinstance(node, ast.Dict):
                nodes = node.keys
            elif isinstance(node, FUNCTIONS):
                nodes = returned_values(node)
            self._inside[node] = strings_of(nodes)
        return self._inside[node]


@dataclass(frozen=True)
class Place:
    """A string's place: the expression that it is, the scope it is in, and what a rule would write there.

    `parameters` are those of the project's methods (`ProjectContext.parameters`).
    """

    node: ast.expr
    scope: Scope
    names: Names
    replaced_by: str
    siblings: Siblings
    parameters: Mapping[str, frozenset[tuple[str, ...]]] = field(default_factory=dict)

    def parent(self, node: ast.AST) -> ast.AST | None:
        """The node above another."""
        return self.names.file.parents.get(node)


def strings_of(nodes: Iterable[ast.AST | None]) -> frozenset[str]:
    return frozenset(value for value in map(string_value, nodes) if value is not None)
