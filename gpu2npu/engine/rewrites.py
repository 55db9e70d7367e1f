"""The codemods' edits under the rules' edits: what the rules did to the rewritten text, as places of the source."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, replace

from gpu2npu.engine.edits import Positions, line_starts, splice
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
    changes += [place.change(edit, index, done) for index, edit in enumerate(sorted(rewrite.edits))]
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


class _Places:
    def __init__(self, text: str, after: str, edits: tuple[StructuralEdit, ...]) -> None:
        self.source = Positions(text, {}, line_starts(text))
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

    def change(self, edit: StructuralEdit, index: int, done: list[Replacement]) -> Change:
        shift = self.shifts[index]
        inside = [
            (first - shift.start, last - shift.start, new)
            for first, last, new in done
            if shift.start <= first and last <= shift.end
        ]
        before = self.source.text[edit.start : edit.end]
        after = splice(edit.text, inside)
        operation = Operation.MODIFY if before.strip() and after.strip() else Operation.DELETE
        if not before.strip():
            operation = Operation.INSERT
        return Change(self.source.span(edit.start, edit.end), edit.rule, operation, edit.message, before, after)

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
