"""The codemods' edits under the rules' edits: what the rules did to the rewritten text, as places of the source."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, replace

from gpu2npu.python.text import Lines, line_starts, splice
from gpu2npu.records import Change, FileRewrite, Finding, MigratedFile, Operation, Span, StructuralEdit

Replacement = tuple[int, int, str]


def rewritten(text: str, rewrite: FileRewrite) -> str:
    """The source text after the codemods."""
    return splice(text, [(edit.start, edit.end, edit.text) for edit in rewrite.edits])


def in_source(
    migrated: MigratedFile, replacements: Iterable[Replacement], text: str, after: str, rewrite: FileRewrite
) -> MigratedFile:
    """A file whose rewritten text (`after`) the rules have migrated, told in places of the source `text`.

    What a rule did inside the code of a codemod is part of that codemod's change; a finding there is told of the code
    that was replaced.
    """
    place = _Places(text, after, rewrite.edits)
    done = sorted(replacements)
    changes = [replace(change, span=span) for change in migrated.changes if (span := place.outside(change.span))]
    changes += [place.change(shifts, done) for shifts in _together(place.shifts)]
    answered = {(finding.span.start_line, finding.rule) for finding in rewrite.findings}
    findings = [replace(finding, span=place.nearest(finding.span)) for finding in migrated.findings]
    kept = [finding for finding in findings if (finding.span.start_line, finding.rule) not in answered]
    return replace(
        migrated,
        changes=tuple(sorted(changes, key=lambda change: (change.span, change.rule))),
        findings=tuple(sorted((*kept, *rewrite.findings), key=_order)),
    )


def _order(finding: Finding) -> tuple[Span, str, str]:
    return finding.span, finding.rule, finding.api


@dataclass(frozen=True)
class _Shift:
    """One codemod's edit: its bounds in the rewritten text."""

    edit: StructuralEdit
    start: int
    end: int


def _together(shifts: list[_Shift]) -> list[list[_Shift]]:
    """The edits by what is one change to a reader: a statement put around others, and the lines it moves right."""
    groups: list[list[_Shift]] = []
    for shift in shifts:
        edit, first = shift.edit, groups[-1][0].edit if groups else shift.edit
        indents = edit.start == edit.end and not edit.text.strip()
        if groups and indents and (edit.rule, edit.message) == (first.rule, first.message):
            groups[-1].append(shift)
        else:
            groups.append([shift])
    return groups


class _Places:
    def __init__(self, text: str, after: str, edits: tuple[StructuralEdit, ...]) -> None:
        self.source = Lines.of(text)
        self.after = after
        self.after_starts = line_starts(after)
        self.shifts: list[_Shift] = []
        moved = 0
        for edit in sorted(edits):
            start = edit.start + moved
            self.shifts.append(_Shift(edit, start, start + len(edit.text)))
            moved += len(edit.text) - (edit.end - edit.start)
        self.starts = [shift.start for shift in self.shifts]

    def outside(self, span: Span) -> Span | None:
        """The span in the source; None if it lies in the code of a codemod."""
        start, end = self._offsets(span)
        shift = self._shift(start)
        if shift is not None and start >= shift.start and end <= shift.end and shift.start < shift.end:
            return None
        return self.source.span(self._back(start, 0), self._back(end, 1))

    def nearest(self, span: Span) -> Span:
        """The span in the source; the whole of what a codemod replaced, if it lies in the codemod's code."""
        start, end = self._offsets(span)
        return self.source.span(self._back(start, 0), self._back(end, 1))

    def change(self, shifts: list[_Shift], done: list[Replacement]) -> Change:
        """One change of a codemod; lines that move to the right are told as a whole."""
        first, last = shifts[0], shifts[-1]
        start, end = first.edit.start, last.edit.end
        new_start, new_end = first.start, last.end
        if len(shifts) > 1:
            length = _line_length(self.source.text, end)
            end, new_end = end + length, new_end + _line_length(self.after, new_end)
        inside = [
            (begin - new_start, stop - new_start, new)
            for begin, stop, new in done
            if new_start <= begin and stop <= new_end
        ]
        before, after = self.source.text[start:end], splice(self.after[new_start:new_end], inside)
        operation = Operation.MODIFY if before.strip() and after.strip() else Operation.DELETE
        if not before.strip():
            operation = Operation.INSERT
        edit = first.edit
        return Change(self.source.span(start, end), edit.rule, operation, edit.message, before, after)

    def _offsets(self, span: Span) -> tuple[int, int]:
        starts = self.after_starts
        return starts[span.start_line - 1] + span.start_column, starts[span.end_line - 1] + span.end_column

    def _shift(self, offset: int) -> _Shift | None:
        index = bisect_right(self.starts, offset) - 1
        return self.shifts[index] if index >= 0 else None

    def _back(self, offset: int, side: int) -> int:
        """The offset in the source; within a codemod's code its edit's start (side 0) or end (side 1)."""
        shift = self._shift(offset)
        if shift is None:
            return offset
        if offset < shift.end or (side and offset == shift.end):
            return (shift.edit.start, shift.edit.end)[side]
        return offset - shift.end + shift.edit.end


def _line_length(text: str, offset: int) -> int:
    """How long the rest of a line is, without its end."""
    return len(text[offset:].splitlines()[0]) if text[offset:] else 0
