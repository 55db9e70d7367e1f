"""The fragments of a file that are rewritten alone: a line of small statements, or the head of a compound statement."""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpu2npu.python.text.blocks import is_elif
from gpu2npu.python.text.edits import Edited, EditNode
from gpu2npu.python.text.offsets import Lines
from gpu2npu.python.tree.file import PythonFile
from gpu2npu.python.tree.syntax import DEFINITIONS

_REST = re.compile(r"(?:[ \t\f;]|\\\r?\n)*(?:#[^\r\n]*)?(?:\r\n?|\n)?")
_WORD = re.compile(r"\w*")
# What a clause cannot do without.
_NEEDS = {"elif": "if 0", "except": "try"}


@dataclass(frozen=True)
class Fragment:
    """The code between two offsets, which is a module when it is put between two texts.

    `indent` is None behind a colon; `is_empty` says that no statement is in it, only a place for some.
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

    def fragment(self, start: int, end: int) -> Fragment:
        """The smallest fragment that holds what is between two offsets."""
        block: Sequence[Any] = self.file.tree.body
        outer = Fragment(0, len(self.text))
        while True:
            first = bisect_right(block, start, key=self.begin) - 1
            last = bisect_right(block, max(start, end - 1), key=self.begin) - 1
            first, last = self._line(block, first)[0], self._line(block, last)[1]
            if last < 0 or (start >= (past := self._end(block[last])) and not self._ends_text(past, start)):
                indent = self._indent(block[0])
                is_line = start == end and indent is not None and self.lines.starts[self._number(start)] == start
                return Fragment(start, end, indent=indent, is_empty=True) if is_line or start == end else outer
            if start < self.begin(block[max(first, 0)]) or end > self._end(block[last]):
                return outer
            outer = self._whole(block[max(first, 0)], block[last])
            if first != last or not isinstance(getattr(block[last], "body", getattr(block[last], "cases", None)), list):
                return outer
            found = self._inner(block[last], start, end)
            if found is None or isinstance(found, Fragment):
                return found or outer
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

    def _whole(self, first: Any, last: Any) -> Fragment:
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
        """The offset behind the line end of a statement."""
        found = _REST.match(self.text, self.lines.offset(node.end_lineno, node.end_col_offset))
        assert found is not None
        return found.end()

    def _indent(self, node: Any) -> str | None:
        return self._line_start(node)[1]

    def _number(self, offset: int) -> int:
        return bisect_right(self.lines.starts, offset) - 1

    def _line_start(self, node: Any) -> tuple[int, str | None]:
        """The offset at which the line of a statement or its decorators begins, and its indentation; its own offset and
        None behind other code."""
        first = _first(node)
        begin = self.lines.offset(first.lineno, first.col_offset)
        if isinstance(node, ast.match_case):
            begin = self.text.rindex("case", 0, begin)
        elif isinstance(node, DEFINITIONS) and node.decorator_list:
            begin = self.text.rindex("@", 0, begin)
        start = self.lines.starts[self._number(begin)]
        indent = self.text[start:begin]
        return (begin, None) if indent.strip() else (start, indent)


def _first(node: Any) -> Any:
    decorators = getattr(node, "decorator_list", None)
    return decorators[0] if decorators else getattr(node, "pattern", node)


@dataclass
class FragmentEdits:
    """The edits of a fragment. `head` puts a statement around the fragment, and `lines` move lines to its block, or out
    of one that goes."""

    fragment: Fragment
    nodes: list[EditNode]
    head: EditNode | None = None
    lines: list[EditNode] = field(default_factory=list)

    @property
    def in_order(self) -> list[EditNode]:
        """All edits in the order of the text."""
        every = [*self.nodes, *self.lines, *([self.head] if self.head is not None else [])]
        return sorted(every, key=lambda node: (node.start, node.start != node.end, node.end))


class _Grouping:
    """The edits of one file by the fragments that hold them."""

    def __init__(self, file: PythonFile, edited: Edited) -> None:
        self.file = file
        self.edited = edited
        self.statements = Statements(file)
        self.groups: list[FragmentEdits] = []
        nodes, index = edited.nodes, 0
        while index < len(nodes):
            behind = index + 1
            moves = nodes[index].edit.moves
            if moves is not None:
                behind += sum(node.start <= moves.end for node in nodes[behind:])
                inside = nodes[index:behind]
                fragment = self.statements.fragment(nodes[index].start, max(node.end for node in inside))
                own = [node for node in inside if node.edit.rule]
                self.groups.append(FragmentEdits(fragment, own, None, [each for each in inside if not each.edit.rule]))
            elif self._begins_block(nodes[index]):
                while behind < len(nodes) and not self._begins_block(nodes[behind]):
                    behind += 1
                while behind > index + 1 and not self._moves_line(nodes[behind - 1]):
                    behind -= 1
                self._add_block(nodes[index], nodes[index + 1 : behind])
            else:
                self._add(nodes[index])
            index = behind

    def _begins_block(self, node: EditNode) -> bool:
        """Return whether an edit puts a statement around others, whose lines further ones move."""
        text = node.edit.text
        if node.start != node.end or not isinstance(text, str):
            return False
        head, newline, last = text.rpartition("\n")
        is_head = bool(newline) and not last.strip() and head.rstrip().endswith(":")
        return is_head and len(last) > len(self._before(node))

    def _before(self, node: EditNode) -> str:
        return self.file.line_before(node.start)

    def _moves_line(self, node: EditNode) -> bool:
        """Return whether an edit changes the indentation of a line alone."""
        return not (self.edited.new(node) + self.file.text[self._line(node) : node.end]).strip()

    def _line(self, node: EditNode) -> int:
        return node.start - len(self._before(node))

    def _add_block(self, head: EditNode, inside: Sequence[EditNode]) -> None:
        moved = [node for node in inside if self._moves_line(node)]
        end = moved[-1].end + 1 if moved else head.end
        fragment = self.statements.fragment(head.start, end)
        if fragment.is_empty:
            self.groups.append(FragmentEdits(fragment, [head, *inside]))
            return
        self.groups.append(FragmentEdits(fragment, [node for node in inside if node not in moved], head, moved))

    def _add(self, node: EditNode) -> None:
        line = node.start if node.start == len(self.file.text) else self._line(node)
        is_new = node.start == node.end and self._is_lines(node)
        fragment = Fragment(line, line, is_empty=True) if is_new else self.statements.fragment(node.start, node.end)
        last = self.groups[-1] if self.groups else None
        if last is None or (fragment.start >= last.fragment.end and fragment != last.fragment):
            self.groups.append(FragmentEdits(fragment, [node]))
            return
        start, end = min(fragment.start, last.fragment.start), max(fragment.end, last.fragment.end)
        if (start, end) != (last.fragment.start, last.fragment.end):
            last.fragment = self.statements.fragment(start, end)
        last.nodes.append(node)
        while len(self.groups) > 1 and self.groups[-2].fragment.end > last.fragment.start:
            before = self.groups.pop(-2)
            last.nodes[:0] = before.in_order

    def _is_lines(self, node: EditNode) -> bool:
        """Return whether an edit adds whole lines at the place of a line, which code may be before."""
        text, before = self.edited.new(node), self._before(node)
        if node.start == len(self.file.text) and text.startswith(("\n", "\r")):
            return True
        return not before.strip() and not text.startswith("@") and text.endswith((f"\n{before}", f"\r{before}"))


def grouped(file: PythonFile, edited: Edited) -> Sequence[FragmentEdits]:
    """The edits of a file by the fragments that hold them, in the order of the text."""
    return _Grouping(file, edited).groups
