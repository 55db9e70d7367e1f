"""Edits of leaves of the tree, as spans of the source text: what is not edited stays to the byte."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

import libcst as cst
from libcst._nodes.internal import CodegenState

from gpu2npu.records import Span

_NEWLINE = re.compile(r"\r\n?|\n")


@dataclass(frozen=True)
class Edit:
    """Replace the text of `node` because of a rule.

    `shown` is the larger expression the change is reported as, `node` itself unless given. `needs` is a module that
    the new text spells out and that must be imported.
    """

    node: cst.CSTNode
    text: str
    rule: str
    message: str
    shown: cst.CSTNode | None = None
    needs: str | None = None


class RoundTripError(ValueError):
    """LibCST does not give the file back as it was, so positions in it cannot be trusted."""


class _Recorder(CodegenState):
    """A code generation that remembers between which tokens the wanted nodes lie."""

    def __init__(self, module: cst.Module, wanted: frozenset[int]) -> None:
        super().__init__(default_indent=module.default_indent, default_newline=module.default_newline)
        self.wanted = wanted
        self.ranges: dict[int, tuple[int, int]] = {}

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


def locate(module: cst.Module, text: str, nodes: Iterable[cst.CSTNode]) -> Positions:
    """Find the offsets of nodes in the text that the module was parsed from.

    Raises:
        RoundTripError: The tree's code is not the text.
    """
    state = _Recorder(module, frozenset(map(id, nodes)))
    module._codegen(state)
    if "".join(state.tokens) != text:
        raise RoundTripError("the parser does not reproduce this file byte for byte")
    starts = [0, *accumulate(map(len, state.tokens))]
    last = len(starts) - 1
    offsets = {
        node: _trim(text, starts[min(first, last)], starts[min(end, last)])
        for node, (first, end) in state.ranges.items()
    }
    return Positions(text, offsets, _line_starts(text))


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


def _line_starts(text: str) -> list[int]:
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
