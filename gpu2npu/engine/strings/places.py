"""The places of strings whose meaning is judged, and what a judgement may be."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from gpu2npu.engine.strings.forms import indexes
from gpu2npu.engine.strings.text_methods import TESTS
from gpu2npu.python.meaning.names import Names
from gpu2npu.python.tree.file import PythonFile
from gpu2npu.python.tree.scopes import Scope
from gpu2npu.python.tree.syntax import (
    FUNCTIONS,
    Function,
    arguments,
    dotted_name,
    elements,
    last_name,
    returned_values,
    statements,
    string_value,
)
from gpu2npu.rulebook.rule import Role

YES = "yes"
NO = "no"
UNSURE = "unsure"
LEFT = "left"  # as unsure, and no use of its value can decide it
_DEFAULTS = frozenset({"value", "default", "initial", "selected"})  # arguments and keys beside the choices


class Siblings:
    """The strings directly inside displays and functions, those of Enums `of_members` in them, and the positions of
    nodes in displays, calls and f-strings; remembered, since each of them may be asked for them all."""

    def __init__(self) -> None:
        self.of_members: dict[ast.AST, frozenset[str]] = {}
        self._inside: dict[ast.AST, frozenset[str]] = {}
        self._values: dict[ast.Dict, frozenset[str]] = {}
        self._positions: dict[ast.AST, dict[ast.AST | None, int]] = {}
        self._compared: dict[tuple[Scope, str], frozenset[str]] | None = None

    def inside(self, node: ast.AST) -> frozenset[str]:
        """The strings that a list, tuple or set has as elements, a dict as keys, a function as returned and yielded
        values."""
        if node not in self._inside:
            nodes: Iterable[ast.AST | None] = _elements(node)
            if isinstance(node, ast.Dict):
                nodes = node.keys
            elif isinstance(node, FUNCTIONS):
                nodes = (part for value in _results(node) for part in (value, *elements(value)[:1]))
            self._inside[node] = strings_of(nodes)
        return self._inside[node]

    def values(self, node: ast.Dict) -> frozenset[str]:
        """The strings that a dict has as values."""
        if node not in self._values:
            self._values[node] = strings_of(node.values)
        return self._values[node]

    def compared(self, node: ast.AST, file: PythonFile) -> frozenset[str]:
        """The strings that a name, or a chain of attributes on it, is compared with in the file."""
        name = dotted_name(node)
        found = file.scope_of(node).lookup(name.partition(".")[0]) if name is not None else None
        if name is None or found is None:
            return frozenset()
        if self._compared is None:
            self._compared = _comparisons(file)
        return self._compared.get((found[0], name), frozenset())

    def position(self, node: ast.AST, child: ast.AST) -> int:
        """The index of an element, key or value of a display, of an argument of a call, of a part of an f-string."""
        if node not in self._positions:
            self._positions[node] = {each: index for row in _rows(node) for index, each in enumerate(row)}
        return self._positions[node][child]


def _elements(node: ast.AST) -> Iterator[ast.AST]:
    """The elements of a display, with the arguments of `pytest.param("cuda", id="gpu")` in it."""
    for each in elements(node):
        yield from each.args if isinstance(each, ast.Call) and last_name(each.func) == "param" else (each,)


def _results(function: Function) -> Iterator[ast.expr]:
    """The values that a function returns, or yields in statements of their own."""
    yield from returned_values(function)
    for node in statements(function.body):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Yield) and node.value.value is not None:
            yield node.value.value


def _comparisons(file: PythonFile) -> dict[tuple[Scope, str], frozenset[str]]:
    """The strings that names are compared with, by the scope that binds them: `x == "cpu"`, `x in ("cpu", "mps")`,
    `x.startswith("cuda:")`."""
    found: dict[tuple[Scope, str], frozenset[str]] = {}
    for node in file.parents:
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in TESTS:
            sides = [node.func.value, *node.args]
        else:
            continue
        strings = strings_of(part for side in sides for part in (side, *elements(side)))
        for side in sides if strings else ():
            name = dotted_name(side)
            home = file.scope_of(side).lookup(name.partition(".")[0]) if name is not None else None
            if name is not None and home is not None:
                found[home[0], name] = found.get((home[0], name), frozenset()) | strings
    return found


def _rows(node: ast.AST) -> Iterator[Sequence[ast.AST | None]]:
    if isinstance(node, ast.Dict):
        yield from (node.keys, node.values)
    elif isinstance(node, ast.Call):
        yield arguments(node)
    else:
        yield node.values if isinstance(node, ast.JoinedStr) else elements(node)


class StringPlace(Struct, frozen=True):
    """A string's place: the expression that it is, the scope it is in, and what a rule would write there."""

    node: ast.expr
    scope: Scope
    names: Names
    replaced_by: str
    siblings: Siblings

    def parent(self, node: ast.AST) -> ast.AST | None:
        """The node above another."""
        return self.names.file.parents.get(node)

    def enables_feature(self, comparison: ast.AST, role: Role) -> bool:
        """Return whether a comparison decides on a feature of NVIDIA's own: `use_cuda_ipc = backend == "nccl"`."""
        parent = self.parent(comparison)
        while isinstance(parent, (ast.BoolOp, ast.UnaryOp)):
            parent = self.parent(parent)
        targets = parent.targets if isinstance(parent, ast.Assign) else [getattr(parent, "target", None)]
        named = [parent.arg] if isinstance(parent, ast.keyword) else [last_name(each) for each in targets if each]
        return any(not role.features.isdisjoint((name or "").lower().split("_")) for name in named)


def strings_of(nodes: Iterable[ast.AST | None]) -> frozenset[str]:
    return frozenset(value for value in map(string_value, nodes) if value is not None)


def by_siblings(values: frozenset[str], place: StringPlace, role: Role) -> str | None:
    """YES when a sibling has the role; NO when the replacement is there already: the code knows the NPU."""
    return among(values, string_value(place.node), place.replaced_by, role)


def among(values: frozenset[str], text: str | None, new: str, role: Role) -> str | None:
    """The same for a text that would be replaced by another."""
    others = values - {text}
    if new in values or (others and others <= role.vendors):
        return NO
    parts = ((colon, number) for value in values for name, colon, number in [value.partition(":")] if name == text)
    if any(number.isdecimal() or (colon and not number) for colon, number in parts):
        return YES  # "cuda" beside "cuda:0" or "cuda:", not beside "cuda:12.1"
    if values & role.strangers or (text or "").swapcase() in others:  # PyTorch takes no "CUDA"
        return None
    return YES if values & role.siblings else None


def chosen(name: str | None, others: Iterable[ast.AST | None], place: StringPlace, role: Role) -> str | None:
    """Judge a default by the list beside it that it is chosen from: `Radio(["cuda", "cpu"], value="cuda")`."""
    if name not in _DEFAULTS:
        return None
    values = (place.scope.only_value(each.id) if isinstance(each, ast.Name) else each for each in others)
    lists = [place.siblings.inside(each) for each in values if isinstance(each, (ast.List, ast.Tuple, ast.Set))]
    text = string_value(place.node)
    return by_siblings(frozenset().union(*(each for each in lists if text in each)), place, role)


def allowed(annotation: ast.AST | None) -> frozenset[str]:
    """The strings that a type admits: those of a `Literal` anywhere in it."""
    if annotation is None:
        return frozenset()
    if isinstance(annotation, ast.Subscript) and last_name(annotation.value) == "Literal":
        return strings_of(indexes(annotation))
    return frozenset().union(*map(allowed, ast.iter_child_nodes(annotation)))
