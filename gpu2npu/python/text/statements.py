"""The fragments of a file that are rewritten alone: a line of small statements, or the head of a compound statement.

This module imports LibCST, as `writing` does.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from gpu2npu.python.text import changes
from gpu2npu.python.text.blocks import is_elif, line_below
from gpu2npu.python.text.edits import Edited, EditNode
from gpu2npu.python.text.offsets import Lines, holds, line_before
from gpu2npu.python.tree.file import PythonFile
from gpu2npu.python.tree.syntax import DEFINITIONS
from gpu2npu.records import Bounds, Edit

_REST = re.compile(r"(?:[ \t\f;]|\\\r?\n)*(?:#[^\r\n]*)?(?:\r\n?|\n)?")
_WORD = re.compile(r"\w*")
# What is in a list, with a comma or a semicolon behind it.
_ELEMENTS = (cst.Arg, cst.ImportAlias, cst.Param, cst.BaseSmallStatement)
# What a clause cannot do without.
_NEEDS = {"elif": "if 0", "except": "try"}


@dataclass(frozen=True)
class Fragment:
    """The code between two offsets, which is a module when it is put between two texts.

    `indent` is None behind a colon; `is_empty` means that no statement is in it, only a place for some.
    """

    start: int
    end: int
    before: str = ""
    after: str = ""
    indent: str | None = ""
    is_empty: bool = False


class Statements:
    """Finds the fragments of one file."""

    def __init__(self, file: PythonFile) -> None:
        self.file = file
        self.text = file.text
        self.lines: Lines = file.lines
        self._ends: dict[Any, int] = {}  # of compound statements

    def fragment(self, start: int, end: int) -> Fragment:
        """The smallest fragment that holds what is between two offsets."""
        block: Sequence[Any] = self.file.tree.body
        outer: tuple[Any, Any] | None = None
        while True:
            first = bisect_right(block, start, key=self.begin) - 1
            last = bisect_right(block, max(start, end - 1), key=self.begin) - 1
            first, last = self._line(block, first)[0], self._line(block, last)[1]
            if last < 0 or (start >= (past := self._end(block[last])) and not self._ends_text(past, start)):
                indent = self._line_start(block[0])[1]
                is_line = start == end and indent is not None and self.lines.starts[self._number(start)] == start
                if is_line or start == end:
                    return Fragment(start, end, indent=indent, is_empty=True)
                return self._whole(outer)
            if start < self.begin(block[max(first, 0)]) or end > self._end(block[last]):
                return self._whole(outer)
            outer = block[max(first, 0)], block[last]
            if first != last or not isinstance(getattr(block[last], "body", getattr(block[last], "cases", None)), list):
                return self._whole(outer)
            found = self._inner(block[last], start, end)
            if found is None or isinstance(found, Fragment):
                return found or self._whole(outer)
            block = found

    def _ends_text(self, past: int, start: int) -> bool:
        return start == past == len(self.text) and not self.text.endswith(("\n", "\r"))

    def _inner(self, node: Any, start: int, end: int) -> Fragment | Sequence[Any] | None:
        """The head or the block of a compound statement that holds what is between two offsets."""
        for clause, body in self._clauses(node):
            low = self.begin(body[0])
            if clause is not None and self.begin(clause) <= start and end <= low and start < low:
                return self._head(clause, body)
            if not isinstance(clause, ast.Match) and low <= start < (high := self._end(body[-1])) and end <= high:
                return body
        return None

    def _clauses(self, node: Any) -> Iterator[tuple[Any, Sequence[Any]]]:
        yield node, getattr(node, "body", None) or node.cases
        for name in ("cases", "handlers"):
            for part in getattr(node, name, ()):
                yield part, part.body
        for name in ("orelse", "finalbody"):
            if getattr(node, name, None):
                yield None, getattr(node, name)

    def _line(self, block: Sequence[Any], index: int) -> tuple[int, int]:
        """The first and last of the statements that share a line with one."""
        first = last = index
        while first > 0 and block[first - 1].end_lineno == self._lineno(block[first]):
            first -= 1
        while 0 <= last < len(block) - 1 and block[last].end_lineno == self._lineno(block[last + 1]):
            last += 1
        return first, last

    @staticmethod
    def _lineno(node: Any) -> int:
        return int(_first(node).lineno)

    def _whole(self, statements: tuple[Any, Any] | None) -> Fragment:
        if statements is None:
            return Fragment(0, len(self.text))
        first, last = statements
        start, indent = self._line_start(first)
        end = self._end(last)
        newline = self.file.newline
        before = f"if 0:{newline}" if indent else ""
        if is_elif(self.file, first):
            before += f"{indent}if 0: pass{newline}"
        after = "" if self.text[end - 1] in "\r\n" else newline
        return Fragment(start, end, before, after, indent)

    def _head(self, clause: Any, body: Sequence[Any]) -> Fragment:
        (start, indent), (end, inner) = self._line_start(clause), self._line_start(body[0])
        newline = self.file.newline
        after = f"{inner or ''}{'case _: ' if hasattr(clause, 'cases') else ''}pass{newline}"
        after += f"{indent or ''}finally: pass{newline}" if hasattr(clause, "handlers") else ""
        found = _WORD.match(self.text, start + len(indent or ""))
        word = found[0] if found is not None else ""
        before = f"{'match' if isinstance(clause, ast.match_case) else 'if'} 0:{newline}"
        before = (before if indent else "") + (f"{indent}{_NEEDS[word]}: pass{newline}" if word in _NEEDS else "")
        return Fragment(start, end, before, after, indent)

    def begin(self, node: Any) -> int:
        """The offset at which the line of a statement begins; its own where other code is before it."""
        return self._line_start(node)[0]

    def _end(self, node: Any) -> int:
        """The offset behind the line end of a statement, and behind the comments that end its block."""
        if hasattr(node, "body") or hasattr(node, "cases"):
            if node not in self._ends:
                self._ends[node] = line_below(self.file, node)
            return self._ends[node]
        found = _REST.match(self.text, self.lines.offset(node.end_lineno, node.end_col_offset))
        assert found is not None
        return found.end()

    def _number(self, offset: int) -> int:
        return bisect_right(self.lines.starts, offset) - 1

    def _line_start(self, node: Any) -> tuple[int, str | None]:
        """The offset where the line of a statement or its decorators begins, and its indentation; None behind code."""
        first = _first(node)
        begin = self.lines.offset(first.lineno, first.col_offset)
        if isinstance(node, ast.match_case):
            begin = self.text.rindex("case", 0, begin)
        elif isinstance(node, DEFINITIONS) and node.decorator_list:
            begin = self.text.rindex("@", 0, begin)
        start = self.lines.starts[self._number(begin)]
        indent = self.text[start:begin]
        if indent.strip():
            return begin, None
        indent = indent[indent.rfind("\f") + 1 :]  # Python counts the columns anew behind a form feed
        return begin - len(indent), indent


def _first(node: Any) -> Any:
    decorators = getattr(node, "decorator_list", None)
    return decorators[0] if decorators else getattr(node, "pattern", node)


class FragmentNodes:
    """A fragment as LibCST sees it: its nodes by their offsets in the file. Raises NotCodeError: LibCST does not parse
    it."""

    def __init__(self, fragment: Fragment, source: str) -> None:
        self.fragment = fragment
        self.source = source
        code = fragment.before + source[fragment.start : fragment.end] + fragment.after
        self.is_old_mac = "\r" in code and "\n" not in code  # line ends that LibCST loses at the end of a file
        code = code.replace("\r", "\n") if self.is_old_mac else code
        wrapper = MetadataWrapper(changes.module(code), unsafe_skip_copy=True)
        self.module = wrapper.module
        lines, shift = Lines.of(code).starts, fragment.start - len(fragment.before)
        self.bounds: dict[cst.CSTNode, Bounds] = {}
        for node, place in wrapper.resolve(PositionProvider).items():
            start = lines[place.start.line - 1] + place.start.column + shift
            self.bounds[node] = start, lines[place.end.line - 1] + place.end.column + shift
        blocks: list[tuple[Any, list[list[int]]]] = []
        self.expressions: dict[Bounds, tuple[Any, int]] = {}
        self.elements: list[tuple[Any, Bounds]] = []
        self.strings: list[tuple[Any, Bounds]] = []
        self.aliases: dict[Bounds, Any] = {}  # by their names
        for node, bounds in self.bounds.items():
            if isinstance(node, cst.BaseExpression):
                self.expressions[bounds] = node, len(node.lpar)
                for index, (left, right) in enumerate(zip(node.lpar, reversed(node.rpar), strict=True)):
                    self.expressions[self.bounds[left][0], self.bounds[right][1]] = node, index
                if isinstance(node, cst.SimpleString):
                    self.strings.append((node, bounds))
            elif isinstance(node, cst.FormattedStringText):
                self.strings.append((node, bounds))
            elif isinstance(node, cst.SimpleStatementSuite):
                blocks.append((node, [[self.bounds[each][0] for each in node.body]]))
            elif isinstance(node, cst.Module | cst.IndentedBlock):
                blocks.append((node, [self._starts(each) for each in node.body]))
            elif isinstance(node, _ELEMENTS):
                last: Any = None
                if isinstance(node, cst.Param):  # its annotation and default are not counted to it
                    last = node.default or (node.annotation and node.annotation.annotation)
                if isinstance(node, cst.ImportAlias):
                    self.aliases[self.bounds[node.name]] = node
                self.elements.append((node, bounds if last is None else (bounds[0], self.outer(last)[1])))
        # The outer ones first, with the offsets at which the statements of each line begin.
        self.blocks = dict(sorted((each for each in blocks if each[1]), key=lambda each: each[1][0]))

    def _starts(self, statement: Any) -> list[int]:
        """The offsets of the small statements of a line, or of a compound statement with its decorators."""
        decorators = getattr(statement, "decorators", ())
        parts = statement.body if isinstance(statement, cst.SimpleStatementLine) else [*decorators, statement][:1]
        return [self.bounds[each][0] for each in parts]

    def outer(self, node: Any) -> Bounds:
        """The offsets of an expression with the parentheses around it."""
        return (self.bounds[node.lpar[0]][0], self.bounds[node.rpar[-1]][1]) if node.lpar else self.bounds[node]

    def keyword(self, place: Bounds) -> Any:
        """The argument whose keyword, up to its value, is between two offsets."""
        named = (each for each, _ in self.elements if isinstance(each, cst.Arg) and each.keyword is not None)
        return next((each for each in named if (self.bounds[each][0], self.outer(each.value)[0]) == place), None)

    def indent(self, offset: int) -> str:
        """The indentation of the block that an offset is in."""
        for starts in reversed(self.blocks.values()):
            if starts[0][0] <= offset:
                before = line_before(self.source, starts[0][0])
                return before[: len(before) - len(before.lstrip())]
        return self.fragment.indent or ""

    def inner(self, element: Any) -> Bounds:
        """The bounds of an element of a list, without parentheses around it."""
        start, end = self.bounds[element]
        if isinstance(element, cst.Arg):
            inner = self.bounds[element.value]
            return (start if element.keyword or element.star else inner[0]), inner[1]
        return (self.bounds[element.item][0], end) if isinstance(element, cst.WithItem) else (start, end)

    def find(self, kind: type | tuple[type, ...], place: Bounds) -> Iterator[Any]:
        """The nodes of a kind that are between two offsets."""
        return (node for node, bounds in self.bounds.items() if isinstance(node, kind) and holds(place, bounds))


@dataclass
class FragmentEdits:
    """The edits of a fragment, in the order of the text, with its new code, the parts of it by their places in the
    source, the edits that put a head around others, and why it stays as it is if it does."""

    fragment: Fragment
    nodes: list[EditNode]
    new: str = ""
    codes: Mapping[Bounds, str] = field(default_factory=dict)
    heads: Sequence[Edit] = ()
    refused: str = ""

    @property
    def rules(self) -> set[str]:
        """The rules of the edits."""
        return {node.edit.rule for node in self.nodes}


class _Grouping:
    """The edits of one file by the fragments that hold them."""

    def __init__(self, file: PythonFile, edited: Edited) -> None:
        self.file = file
        self.edited = edited
        self.statements = Statements(file)
        self.groups: list[FragmentEdits] = []
        for node in edited.nodes:
            self._add(node)

    def _add(self, node: EditNode) -> None:
        last = self.groups[-1] if self.groups else None
        fragment = self._fragment(node)
        if last is not None and fragment.is_empty and self._is_in_block(node, fragment.start, last.fragment):
            last.nodes.append(node)
            return
        if last is None or (fragment.start >= last.fragment.end and fragment != last.fragment):
            self.groups.append(FragmentEdits(fragment, [node]))
            return
        start, end = min(fragment.start, last.fragment.start), max(fragment.end, last.fragment.end)
        if (start, end) != (last.fragment.start, last.fragment.end):
            last.fragment = self.statements.fragment(start, end)
        last.nodes.append(node)
        while len(self.groups) > 1 and self.groups[-2].fragment.end > last.fragment.start:
            before = self.groups.pop(-2)
            last.nodes[:0] = before.nodes

    def _fragment(self, node: EditNode) -> Fragment:
        line = node.start
        if node.start != len(self.file.text):
            line -= len(self.file.line_before(node.start))
        if node.start != node.end:
            return self.statements.fragment(node.start, node.end)
        if self._is_lines(node):
            return Fragment(line, line, is_empty=True)
        if self.edited.new(node).startswith(("\n", "\r")):  # lines of a block behind a colon, or below a part
            return self.statements.fragment(line, node.end + 1)
        return self.statements.fragment(node.start, node.end)

    def _is_in_block(self, node: EditNode, line: int, fragment: Fragment) -> bool:
        """Return whether new lines behind a fragment are of a block in it."""
        if line != fragment.end or fragment.is_empty or fragment.indent is None:
            return False
        code = self.file.line_before(node.start) + self.edited.new(node).lstrip("\r\n")
        return len(code) - len(code.lstrip(" \t")) > len(fragment.indent)

    def _is_lines(self, node: EditNode) -> bool:
        """Return whether an edit adds whole lines at the place of a line, which code may be before."""
        text, before = self.edited.new(node), self.file.line_before(node.start)
        if node.start == len(self.file.text) and text.startswith(("\n", "\r")):
            return True
        return not before.strip() and not text.startswith("@") and text.endswith((f"\n{before}", f"\r{before}"))


def grouped(file: PythonFile, edited: Edited) -> Sequence[FragmentEdits]:
    """The edits of a file by the fragments that hold them, in the order of the text."""
    return _Grouping(file, edited).groups
