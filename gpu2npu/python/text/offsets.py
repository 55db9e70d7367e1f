"""Offsets in a text, and the lines and columns that reports give."""

from __future__ import annotations

import ast
import re
import sys
from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate
from typing import Any

from msgspec import Struct

from gpu2npu.records import Bounds, Span

_NEWLINE = re.compile(r"\r\n?|\n")


class Lines(Struct, frozen=True):
    """The lines of a text: `starts` are the offsets of their first characters, for the ends \\n, \\r\\n and \\r."""

    text: str
    starts: tuple[int, ...]
    is_ascii: bool

    @classmethod
    def of(cls, text: str) -> Lines:
        """The lines of `text`."""
        return cls(text, tuple(line_starts(text)), text.isascii())

    def offset(self, line: int, column: int) -> int:
        """The offset in characters of a place as `ast` gives it: lines from 1, columns from 0 in bytes of UTF-8."""
        start = self.starts[line - 1]
        if self.is_ascii or not column:
            return start + column
        end = self.starts[line] if line < len(self.starts) else len(self.text)
        return start + len(self.text[start:end].encode()[:column].decode())

    def bounds(self, node: ast.AST) -> tuple[int, int]:
        """The offsets of the first character of a node and of the one behind its last; parentheses around an
        expression are not counted to it."""
        if isinstance(node, ast.Module):
            return 0, len(self.text)
        assert isinstance(node, _PLACED)
        return (
            self.offset(node.lineno, node.col_offset),
            self.offset(node.end_lineno or node.lineno, node.end_col_offset or 0),
        )

    def span(self, start: int, end: int, cell: int = 0) -> Span:
        """The place between two offsets, in a cell of a notebook or elsewhere (0), as reports give it."""
        (start_line, start_column), (end_line, end_column) = self._place(start), self._place(end)
        return Span(start_line, start_column, end_line, end_column, cell=cell)

    def _place(self, offset: int) -> tuple[int, int]:
        line = bisect_right(self.starts, offset)
        return line, offset - self.starts[line - 1]


# Nodes that have a place in the text.
_PLACED: tuple[type[Any], ...] = (
    ast.expr, ast.stmt, ast.arg, ast.keyword, ast.alias, ast.excepthandler, ast.pattern,
    *([getattr(ast, "type_param")] if sys.version_info >= (3, 12) else []),  # noqa: B009
)  # fmt: skip


def line_starts(text: str) -> list[int]:
    """Offsets of the first character of each line, for the line ends \\n, \\r\\n and \\r."""
    if "\r" in text:
        return [0, *(match.end() for match in _NEWLINE.finditer(text))]
    return [0, *accumulate([len(line) + 1 for line in text.split("\n")[:-1]])]


def lines_with_ends(text: str) -> list[str]:
    """The lines of a text with their ends; what else `str.splitlines` cuts at, such as a form feed, is in a line."""
    starts = line_starts(text)
    return [line for start, end in zip(starts, [*starts[1:], len(text)], strict=True) if (line := text[start:end])]


def line_before(text: str, offset: int) -> str:
    """The line that an offset is in, up to the offset."""
    return text[max(text.rfind("\n", 0, offset), text.rfind("\r", 0, offset)) + 1 : offset]


def indentation(text: str, offset: int) -> str:
    """The white space that the line of an offset begins with."""
    line = line_before(text, offset)
    return line[: len(line) - len(line.lstrip(" \t\f"))]


def newline_of(text: str) -> str:
    """The line end that a text uses."""
    found = _NEWLINE.search(text)
    return found[0] if found is not None else "\n"


def holds(outer: Bounds, inner: Bounds) -> bool:
    """Return whether what is between two offsets is within what is between two others."""
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def splice(text: str, replacements: Iterable[tuple[int, int, str]]) -> str:
    """The text with (start, end, new) spans replaced, insertions first. Raises ValueError if two overlap."""
    parts: list[str] = []
    position = 0
    for start, end, new in sorted(replacements, key=lambda item: (item[0], item[0] != item[1])):
        if start < position:
            raise ValueError(f"two edits overlap at offset {start}")
        parts += (text[position:start], new)
        position = end
    parts.append(text[position:])
    return "".join(parts)
