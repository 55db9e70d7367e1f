"""What a format says about a text: edits and notes, by offsets in it. And the record of a file that is made of them."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from gpu2npu.records import Change, Finding, FindingKind, Operation, Severity, Span
from gpu2npu.rulebook.rule import Rule
from gpu2npu.rulebook.severity import severity_of_match


@dataclass(frozen=True)
class Edit:
    """`text` takes the place of what stands from `start` to `end`."""

    start: int
    end: int
    text: str
    rule: str
    message: str


@dataclass(frozen=True)
class Note:
    """A place that needs a person's eye."""

    start: int
    end: int
    rule: str
    kind: FindingKind
    api: str
    message: str
    severity: Severity = Severity.ENVIRONMENT


Mark = Edit | Note


def edit(rule: Rule, start: int, end: int, text: str) -> Edit:
    return Edit(start, end, text, rule.id, rule.why)


def review(rule: Rule, start: int, end: int, api: str, message: str) -> Note:
    kind = FindingKind.REVIEW
    return Note(start, end, rule.id, kind, api, message, severity_of_match(rule.match, kind))


def reported(rule: Rule, start: int, end: int, api: str) -> list[Mark]:
    """What the rule itself reports at a place, if anything."""
    report = rule.then.report
    return [] if report is None else [Note(start, end, rule.id, report.kind, api, report.message, report.severity)]


def applied(rule: Rule, start: int, end: int, api: str, new: str | None = None) -> list[Mark]:
    """What the rule does to a place: it takes its new name (or `new`), and is reported where the rule says so."""
    if rule.then.keep:
        return []
    text = new if new is not None else rule.then.rename
    edits: list[Mark] = [] if text is None else [edit(rule, start, end, text)]
    return edits + reported(rule, start, end, api)


def moved(marks: Iterable[Mark], place: Callable[[int], int]) -> list[Mark]:
    """Marks of a part of a text as marks of the whole: `place` gives the offset in the whole of one in the part."""
    return [replace(mark, start=place(mark.start), end=place(mark.end)) for mark in marks]


def shifted(marks: Iterable[Mark], by: int) -> list[Mark]:
    return moved(marks, lambda offset: offset + by)


def resolved(marks: Iterable[Mark]) -> list[Mark]:
    """The marks in order, each once, without edits that overlap an earlier one."""
    kept: list[Mark] = []
    end = 0
    for mark in sorted(set(marks), key=lambda mark: (mark.start, mark.end, isinstance(mark, Note), mark.rule)):
        if isinstance(mark, Edit):
            if mark.start < end:
                continue
            end = mark.end
        kept.append(mark)
    return kept


def spliced(text: str, marks: Sequence[Mark]) -> str:
    """The text with the edits made; `marks` are resolved."""
    parts = []
    done = 0
    for mark in marks:
        if isinstance(mark, Edit):
            parts += [text[done : mark.start], mark.text]
            done = mark.end
    return "".join([*parts, text[done:]])


class Lines:
    """Where the lines of a text start."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def span(self, start: int, end: int, cell: int = 0) -> Span:
        return Span(*self._position(start), *self._position(end), cell=cell)

    def _position(self, offset: int) -> tuple[int, int]:
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1]


def records(text: str, marks: Sequence[Mark], cell: int = 0) -> tuple[tuple[Change, ...], tuple[Finding, ...]]:
    """The changes and findings that resolved marks are, in order."""
    lines = Lines(text)
    changes = []
    findings = []
    for mark in marks:
        whole_lines = isinstance(mark, Edit) and mark.start == mark.end and mark.text.endswith("\n")
        start = max(mark.start - whole_lines, 0)  # new lines are told where the line before them ends
        span = lines.span(start, start if whole_lines else mark.end, cell)
        if isinstance(mark, Note):
            findings.append(Finding(span, mark.rule, mark.kind, mark.api, mark.message, mark.severity))
        else:
            before = text[mark.start : mark.end]
            operation = Operation.MODIFY if before else Operation.INSERT
            changes.append(Change(span, mark.rule, operation, mark.message, before, mark.text.strip("\r\n")))
    return tuple(changes), tuple(findings)
