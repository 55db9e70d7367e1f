"""The concrete syntax of a piece of code, by LibCST: the parentheses, commas and comments that `ast` leaves out.

LibCST parses only the smallest piece that holds what an edit is about, a statement or the head of a compound one. It
is imported when the first edit needs it: that takes as long as the rest of a start.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Mapping
from itertools import chain
from typing import TYPE_CHECKING

from msgspec import Struct

from gpu2npu.python.text.offsets import Lines
from gpu2npu.python.tree.file import PythonFile
from gpu2npu.python.tree.syntax import DEFINITIONS, arguments, blocks

if TYPE_CHECKING:
    import libcst as cst
    from libcst.metadata import CodeRange

Bounds = tuple[int, int]


class Concrete(Struct, frozen=True, eq=False):
    """A piece of code as LibCST sees it: `root`, and the offsets in the file between which each node is."""

    root: cst.Module
    bounds: Mapping[cst.CSTNode, Bounds]

    def expression(self, bounds: Bounds) -> cst.BaseExpression | None:
        """The expression that is between two offsets, parentheses around it left out."""
        import libcst as cst

        for node, its_bounds in self.bounds.items():
            if its_bounds == bounds and isinstance(node, cst.BaseExpression):
                return node
        return None

    def with_parentheses(self, node: cst.BaseExpression) -> Bounds:
        """Return the bounds of an expression with the parentheses around it."""
        start, end = self.bounds[node]
        if node.lpar:
            start, end = self.bounds[node.lpar[0]][0], self.bounds[node.rpar[-1]][1]
        return start, end


def concrete_call(file: PythonFile, call: ast.Call) -> tuple[Concrete, cst.Call] | None:
    """The concrete syntax of a call; None where LibCST cannot parse it."""
    import libcst as cst

    concrete = _parsed("(", file.code(call), ")", file.bounds(call)[0])
    node = concrete.expression(file.bounds(call)) if concrete is not None else None
    return (concrete, node) if concrete is not None and isinstance(node, cst.Call) else None


def argument_bounds(file: PythonFile, call: ast.Call) -> list[Bounds] | None:
    """Return the bounds of a call's arguments, in the order they are written; None where LibCST cannot parse the call.

    The bounds include stars, keyword and parentheses, and not the comma. Where only commas and white space
    are between the arguments, these are the bounds that they have in `ast`.
    """
    written = [file.bounds(each) for each in arguments(call)]
    edges = [file.bounds(call.func)[1], *chain.from_iterable(written), file.bounds(call)[1]]
    between = ["".join(file.text[start:end].split()) for start, end in zip(edges[::2], edges[1::2], strict=True)]
    if between[0] == "(" and between[-1] in (")", ",)") and set(between[1:-1]) <= {","}:
        return written
    found = concrete_call(file, call)
    return [found[0].bounds[argument] for argument in found[1].args] if found is not None else None


def has_comment(file: PythonFile, node: ast.expr) -> bool:
    """Return whether a comment is inside an expression."""
    return bool(comments(file, node))


def comments(file: PythonFile, node: ast.expr) -> list[int]:
    """The offsets at which comments inside an expression begin."""
    code = file.code(node)
    if "#" not in code:
        return []
    text = f"({code})"
    starts = Lines.of(text).starts
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    found = [token.start for token in tokens if token.type == tokenize.COMMENT]
    return [file.bounds(node)[0] + starts[line - 1] + column - 1 for line, column in found]


def outer_bounds(file: PythonFile, node: ast.expr) -> Bounds:
    """Return the bounds of an expression with the parentheses around it."""
    bounds = file.bounds(node)
    if not file.text[: bounds[0]].rstrip().endswith(("(", "\\")) and "#" not in _line_above(file, bounds[0]):
        return bounds
    statement = file.statement(node)
    start, end = _begin(file, statement), file.bounds(statement)[1]
    body = next((block for block in blocks(statement)), None)
    if body is None:
        concrete = _parsed("", file.text[start:end], "", start)
    else:
        concrete = _parsed("", file.text[start : _begin(file, body[0])].rstrip(), "\n pass", start)
    found = concrete.expression(bounds) if concrete is not None else None
    return concrete.with_parentheses(found) if concrete is not None and found is not None else bounds


def _line_above(file: PythonFile, offset: int) -> str:
    """The line that ends before the one an offset is in."""
    line = file.lines.span(offset, offset).start_line
    return file.text[file.lines.starts[line - 2] : file.lines.starts[line - 1]] if line > 1 else ""


def _begin(file: PythonFile, statement: ast.stmt) -> int:
    """Return the offset at which a statement begins, counting its decorators to it."""
    decorators = statement.decorator_list if isinstance(statement, DEFINITIONS) else []
    start = file.bounds(decorators[0] if decorators else statement)[0]
    return file.text.rindex("@", 0, start) if decorators else start


def _parsed(before: str, code: str, after: str, start: int) -> Concrete | None:
    """Parse code that begins at the offset `start` of a file, put between two texts that make it a module."""
    import libcst as cst
    from libcst.metadata import MetadataWrapper, PositionProvider

    text = f"{before}{code}{after}\n"
    try:
        wrapper = MetadataWrapper(cst.parse_module(text), unsafe_skip_copy=True)
    except (cst.ParserSyntaxError, RecursionError):
        return None
    lines = Lines.of(text)
    shift = start - len(before)

    def bounds(place: CodeRange) -> Bounds:
        first = lines.starts[place.start.line - 1] + place.start.column
        return first + shift, lines.starts[place.end.line - 1] + place.end.column + shift

    positions = wrapper.resolve(PositionProvider)
    return Concrete(wrapper.module, {node: bounds(place) for node, place in positions.items()})
