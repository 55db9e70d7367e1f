"""Edits of leaves of the tree, as spans of the source text: what is not edited stays to the byte."""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import libcst as cst
from libcst._nodes.internal import CodegenState

from gpu2npu.engine.tree import children
from gpu2npu.records import Operation, Span

_NEWLINE = re.compile(r"\r\n?|\n")


# A piece of new code: text, the code of a node of the file, or all from one node to another, as edited themselves.
Code = str | cst.CSTNode | tuple[cst.CSTNode, cst.CSTNode]
# The start (0) or the end (1) of a node.
Bound = tuple[cst.CSTNode, int]


@dataclass(frozen=True)
class Edit:
    """Replace the text of `node` because of a rule.

    `text` may be made of pieces of the file. `shown` is the larger expression the change is reported as, `node` itself
    unless given. `needs` are modules that the new text spells out and that must be imported. `start` and `end` widen
    what is replaced, to the comma of an argument that is taken out.
    """

    node: cst.CSTNode
    text: str | tuple[Code, ...]
    rule: str
    message: str
    shown: cst.CSTNode | None = None
    needs: tuple[str, ...] = ()
    operation: Operation = Operation.MODIFY
    start: Bound | None = None
    end: Bound | None = None

    def nodes(self) -> Iterator[cst.CSTNode]:
        """All nodes whose positions the edit depends on."""
        yield self.node
        if self.shown is not None:
            yield self.shown
        for bound in (self.start, self.end):
            if bound is not None:
                yield bound[0]
        for piece in () if isinstance(self.text, str) else self.text:
            if isinstance(piece, cst.CSTNode):
                yield piece
            elif isinstance(piece, tuple):
                yield from piece


class RoundTripError(ValueError):
    """LibCST does not give the file back as it was, so positions in it cannot be trusted."""


class _Recorder(CodegenState):
    """A code generation that remembers between which tokens the wanted nodes lie."""

    def __init__(self, module: cst.Module, wanted: frozenset[int], indentation: str = "") -> None:
        super().__init__(default_indent=module.default_indent, default_newline=module.default_newline)
        self.wanted = wanted
        self.ranges: dict[int, tuple[int, int]] = {}
        if indentation:
            self.increase_indent(indentation)

    def before_codegen(self, node: cst.CSTNode) -> None:
        if id(node) in self.wanted:
            self.ranges[id(node)] = (len(self.tokens), -1)

    def after_codegen(self, node: cst.CSTNode) -> None:
        if id(node) in self.wanted:
            self.ranges[id(node)] = (self.ranges[id(node)][0], len(self.tokens))


@dataclass(frozen=True)
class Positions:
    """Where nodes lie in the text, as character offsets, and offsets as lines and columns."""

    text: str
    offsets: dict[int, tuple[int, int]]
    line_starts: list[int]

    def of(self, node: cst.CSTNode) -> tuple[int, int]:
        return self.offsets[id(node)]

    def span(self, start: int, end: int) -> Span:
        (start_line, start_column), (end_line, end_column) = self._line(start), self._line(end)
        return Span(start_line, start_column, end_line, end_column)

    def _line(self, offset: int) -> tuple[int, int]:
        line = bisect_right(self.line_starts, offset)
        return line, offset - self.line_starts[line - 1]


def locate(
    module: cst.Module,
    parsed: ast.Module | None,
    text: str,
    nodes: Iterable[cst.CSTNode],
    above: frozenset[int],
) -> Positions:
    """Find the offsets of nodes in the text that the module was parsed from.

    `above` holds the ids of all nodes above the wanted ones. LibCST's nodes do not know where they are: code has to
    be generated to find out, which costs half as much as the parse. Where Python's own parser could read the file
    (`parsed`), it gives the lines of statements, and only those that hold a wanted node are generated.

    Raises:
        RoundTripError: The tree's code is not the text.
    """
    locator = _Locator(module, text, frozenset(map(id, nodes)), above, line_starts(text))
    try:
        locator.body(module.body, parsed.body if parsed is not None else [], "")
    except _MisalignedError:
        locator.whole()
    return Positions(text, locator.offsets, locator.line_starts)


class _MisalignedError(Exception):
    """The two parsers do not agree about a statement."""


@dataclass(eq=False)
class _Locator:
    module: cst.Module
    text: str
    wanted: frozenset[int]
    above: frozenset[int]
    line_starts: list[int]
    offsets: dict[int, tuple[int, int]] = field(default_factory=dict)

    def body(self, statements: Sequence[cst.CSTNode], parsed: Sequence[ast.stmt], indentation: str) -> None:
        """Locate what is wanted inside the statements of one block, given the same block of Python's parser."""
        index = 0
        for statement in statements:
            if index >= len(parsed):
                raise _MisalignedError
            twin = parsed[index]
            index += len(statement.body) if isinstance(statement, cst.SimpleStatementLine) else 1
            if id(statement) in self.above or id(statement) in self.wanted:
                self.statement(statement, twin, indentation)
        if index != len(parsed):
            raise _MisalignedError

    def statement(self, statement: cst.CSTNode, twin: ast.stmt, indentation: str) -> None:
        head, blocks = _parts(statement, twin)
        if blocks and not any(id(part) in self.above or id(part) in self.wanted for part in head):
            for block, parsed in blocks:
                deeper = self.module.default_indent if block.indent is None else block.indent
                self.body(block.body, parsed, indentation + deeper)
        else:
            self.generate(statement, twin, indentation)

    def generate(self, statement: cst.CSTNode, twin: ast.stmt, indentation: str) -> None:
        leading = _Recorder(self.module, frozenset(), indentation)
        for line in getattr(statement, "leading_lines", ()):
            line._codegen(leading)
        state = _Recorder(self.module, self.wanted, indentation)
        statement._codegen(state)
        first = min([twin.lineno, *(part.lineno for part in getattr(twin, "decorator_list", ()))])
        start = self.line_starts[first - 1] - len("".join(leading.tokens))
        code = "".join(state.tokens)
        if not self.text.startswith(code, start) and self.text[start:] + self.module.default_newline != code:
            raise _MisalignedError
        self.record(state, start)

    def whole(self) -> None:
        """Locate by generating the code of the whole module."""
        state = _Recorder(self.module, self.wanted)
        self.module._codegen(state)
        if "".join(state.tokens) != self.text:
            raise RoundTripError("the parser does not reproduce this file byte for byte")
        self.record(state, 0)

    def record(self, state: _Recorder, start: int) -> None:
        starts = [start, *(start + length for length in accumulate(map(len, state.tokens)))]
        last = len(starts) - 1
        for node, (first, end) in state.ranges.items():
            span = starts[min(first, last)], min(starts[min(end, last)], len(self.text))
            self.offsets[node] = _trim(self.text, *span)


def _parts(
    statement: cst.CSTNode, twin: ast.AST
) -> tuple[list[cst.CSTNode], list[tuple[cst.IndentedBlock, list[ast.stmt]]]]:
    """What stands in the head lines of a compound statement, and its blocks with those of Python's parser."""
    bodies: list[tuple[cst.CSTNode, list[ast.stmt]]] = []
    head: list[cst.CSTNode] = []
    parts = [(statement, twin)]
    while parts:
        part, its_twin = parts.pop()
        body = getattr(part, "body", None)
        if not isinstance(body, (cst.IndentedBlock, cst.SimpleStatementSuite)):
            return [], []
        bodies.append((body, getattr(its_twin, "body", [])))
        for child in children(part):
            if isinstance(child, (cst.Else, cst.Finally)):
                name = "orelse" if isinstance(child, cst.Else) else "finalbody"
                bodies.append((child.body, getattr(its_twin, name, [])))
            elif isinstance(child, cst.If) and child is getattr(part, "orelse", None):  # elif
                parts += [(child, its_elif) for its_elif in getattr(its_twin, "orelse", [])]
            elif isinstance(child, (cst.ExceptHandler, cst.ExceptStarHandler)):
                index = list(getattr(part, "handlers", ())).index(child)
                parts.append((child, getattr(its_twin, "handlers", [])[index]))
            elif child is not body:
                head.append(child)
    blocks = [(body, parsed) for body, parsed in bodies if isinstance(body, cst.IndentedBlock)]
    return head + [body for body, _ in bodies if not isinstance(body, cst.IndentedBlock)], blocks


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    """Leave out white space and the blank and comment lines that LibCST counts to a statement's start."""
    while start < end:
        if text[start] in " \t\f\r\n\\":
            start += 1
        elif text[start] == "#":
            newline = text.find("\n", start, end)
            start = end if newline < 0 else newline
        else:
            break
    return start, end


def line_starts(text: str) -> list[int]:
    """Offsets of the first character of each line, for the line ends \\n, \\r\\n and \\r."""
    return [0, *(match.end() for match in _NEWLINE.finditer(text))]


def splice(text: str, replacements: Iterable[tuple[int, int, str]]) -> str:
    """The text with (start, end, new) spans replaced, insertions first; of overlapping spans the longer one counts."""
    parts: list[str] = []
    position = 0
    for start, end, new in sorted(replacements, key=lambda item: (item[0], item[0] != item[1], -item[1])):
        if start < position:
            continue
        parts += (text[position:start], new)
        position = end
    parts.append(text[position:])
    return "".join(parts)
