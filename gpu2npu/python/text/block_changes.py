"""Changes of the statements of a block: new ones, some less, others instead, and heads that they get or lose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import libcst as cst

from gpu2npu.python.text import changes
from gpu2npu.records import Bounds


@dataclass
class BlockChange:
    """The changes of the statements of a module or an indented block, by the offsets at which they begin. `starts` are
    those of the small statements of each line, or that of a compound statement; `lines` those of the lines of white
    space and comments above each, and of those below the last."""

    starts: Sequence[Sequence[int]]
    lines: Sequence[Sequence[int]]
    new: dict[int, list[str]] = field(default_factory=dict)  # above what begins at an offset or behind it
    instead: dict[int, str] = field(default_factory=dict)
    gone: set[int] = field(default_factory=set)
    cuts: set[int] = field(default_factory=set)  # what begins a line of its own
    unwrapped: set[int] = field(default_factory=set)  # what has a block, which takes its place
    heads: list[tuple[Bounds, str]] = field(default_factory=list)  # of what encloses some
    step: str = ""  # of the indentation
    enclosed: dict[Bounds, Any] = field(default_factory=dict)  # those, once they are made

    def __call__(self, old: Any) -> Any:
        if isinstance(old, cst.SimpleStatementSuite):
            line = cst.SimpleStatementLine(old.body, trailing_whitespace=old.trailing_whitespace)
            old = cst.IndentedBlock([line], indent=self.step)
        rows = _Rows(sorted(self.new.items(), reverse=True))
        for statement, starts, lines in zip(old.body, self.starts, self.lines, strict=False):
            rows.put_lines(lines, statement.leading_lines)
            cuts = [0, *(at for at in range(1, len(starts)) if self._parts(starts[at - 1], starts[at])), len(starts)]
            for first, behind in pairwise(cuts):
                part = statement if len(cuts) == 2 else _part_of(statement, first, behind)
                rows.put_new(starts[first])
                rows.put((starts[first], True), self._changed(starts[first], part))
        rows.put_lines(self.lines[-1], old.footer)
        rows.put_new(None)
        for (start, end), head in sorted(self.heads, key=lambda each: each[0][1] - each[0][0]):
            whole = rows.enclose(start, end, head, self.step)
            if whole is not None:
                self.enclosed[start, end] = whole
        return old.with_changes(body=[each for _, each in rows.found], footer=rows.above)

    def _parts(self, one: int, other: int) -> bool:
        """Return whether two statements of one line get lines of their own."""
        if not self.instead.keys().isdisjoint((one, other)) or other in self.cuts:
            return True
        if any(one < place <= other for place in self.new):
            return True
        return any((start <= one < end) != (start <= other < end) for (start, end), _ in self.heads)

    def _changed(self, start: int, part: Any) -> list[Any]:
        """The statements in the place of one; white space above its first line is added to what is above already."""
        if start in self.gone:
            return []
        if start in self.unwrapped:
            block = part.body
            if isinstance(block, cst.IndentedBlock):
                return [*block.body, *block.footer]
            return [cst.SimpleStatementLine(block.body, trailing_whitespace=block.trailing_whitespace)]
        if start not in self.instead:
            return [part.with_changes(leading_lines=[])]
        *first, last = changes.statements(self.instead[start])
        return [*first, last.with_changes(trailing_whitespace=part.trailing_whitespace)]


@dataclass
class _Rows:
    """Statements by their offsets, each with whether it is an old one, and the lines above the next. `new` is the new
    code that is not among them yet, the last first."""

    new: list[tuple[int, list[str]]]
    found: list[tuple[tuple[int, bool], Any]] = field(default_factory=list)
    above: list[Any] = field(default_factory=list)

    def put_lines(self, places: Sequence[int], lines: Sequence[Any]) -> None:
        """Append lines of white space and comments."""
        for place, line in zip(places, lines, strict=True):
            self.put_new(place)
            self.above.append(line)

    def put_new(self, place: int | None) -> None:
        """Append the new code up to an offset, or all."""
        while self.new and (place is None or self.new[-1][0] <= place):
            at, codes = self.new.pop()
            for code in codes:
                self.put((at, False), changes.statements(code))

    def put(self, place: tuple[int, bool], statements: Sequence[Any]) -> None:
        """Append statements, and lines below them."""
        for each in statements:
            if isinstance(each, cst.EmptyLine):
                self.above.append(each)
                continue
            self.found.append((place, each.with_changes(leading_lines=[*self.above, *each.leading_lines])))
            self.above = []

    def enclose(self, start: int, end: int, head: str, step: str) -> Any:
        """Put a compound statement around those between two offsets; None where all are gone."""
        inside = [index for index, (place, _) in enumerate(self.found) if (start, True) <= place < (end, False)]
        if not inside:
            return None
        first, *others = [each for _, each in self.found[inside[0] : inside[-1] + 1]]
        block = cst.IndentedBlock([first.with_changes(leading_lines=[]), *others], indent=step)
        whole: Any = (
            changes.module(f"{head}\n pass\n").body[0].with_changes(leading_lines=first.leading_lines, body=block)
        )
        self.found[inside[0] : inside[-1] + 1] = [(self.found[inside[0]][0], whole)]
        return whole


def _part_of(line: Any, first: int, behind: int) -> cst.SimpleStatementLine:
    """Some of the small statements of a line, as a line."""
    if behind == len(line.body):
        return line.with_changes(body=line.body[first:], leading_lines=[])  # type: ignore[no-any-return]
    *others, last = line.body[first:behind]
    return cst.SimpleStatementLine([*others, last.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)])
