"""The edits and findings of a format for a text, by offsets in it, and the record of a file made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from gpu2npu.engine.marks import Mark, merged
from gpu2npu.formats.nodes import Scalar
from gpu2npu.python.text.edits import Edited
from gpu2npu.python.text.offsets import Lines
from gpu2npu.records import Bounds, Change, Edit, Finding, FindingKind, Found, Operation, Severity

_NO_PLACE = "It is written with escapes or over several lines: change it by hand."


def of_environment(place: Bounds, rule: str, kind: FindingKind, api: str, message: str) -> Found:
    """A finding about a package, an image, a variable or the resources of a job."""
    return Found(place, rule, kind, api, message, Severity.ENVIRONMENT)


def moved(marks: Iterable[Mark], place: Callable[[int], int]) -> list[Mark]:
    """Marks of a part of a text as marks of the whole: `place` gives the offset in the whole of one in the part."""
    return [replace(mark, place=(place(mark.place[0]), place(mark.place[1]))) for mark in marks]


def shifted(marks: Iterable[Mark], by: int) -> list[Mark]:
    return moved(marks, lambda offset: offset + by)


def placed(scalar: Scalar, marks: Iterable[Mark]) -> list[Mark]:
    """Marks of a scalar's value as marks of the text. Where the value's place is not known they are only reported."""
    return moved(marks, scalar.place) if scalar.exact else [reported_at(scalar, mark) for mark in marks]


def reported_at(scalar: Scalar, mark: Mark, reason: str = _NO_PLACE) -> Found:
    """The finding at a scalar that a mark of its value becomes."""
    if scalar.anchor:
        reason = f"Other places take this value by its anchor, *{scalar.anchor}: change it by hand, with these in view."
    return only_reported(mark, (scalar.start, scalar.end), (scalar.value or "")[:80], reason)


def only_reported(mark: Mark, place: Bounds, shown: str, reason: str) -> Found:
    """The finding at a place that a mark becomes: an edit cannot be made there for some reason."""
    if isinstance(mark, Found):
        return replace(mark, place=place)
    return Found(place, mark.rule, FindingKind.REVIEW, shown, f"{mark.message} {reason}", Severity.CHANGE)


def resolved(marks: Iterable[Mark]) -> list[Mark]:
    """The marks in order, each once, without edits that overlap another."""
    ordered = sorted(set(marks), key=lambda mark: (mark.place, isinstance(mark, Found), mark.rule))
    made = {edit for edit, _ in Edited("", _edits(ordered)).made()}
    return [mark for mark in ordered if isinstance(mark, Found) or mark in made]


def with_edits(text: str, marks: Iterable[Mark]) -> Edited:
    """The text with the edits of some marks."""
    return Edited(text, _edits(marks))


def _edits(marks: Iterable[Mark]) -> list[Edit]:
    return [mark for mark in marks if isinstance(mark, Edit)]


def records(text: str, marks: Sequence[Mark], cell: int = 0) -> tuple[tuple[Change, ...], tuple[Finding, ...]]:
    """The changes and findings that resolved marks are, in order."""
    lines = Lines.of(text)
    changes = []
    findings = []
    for mark in marks:
        start, end = mark.place
        if isinstance(mark, Found):
            findings.append(mark.at(lines.span(start, end, cell)))
            continue
        before, after = text[start:end], "".join(map(str, mark.pieces))
        if start == end and after.endswith("\n"):  # new lines are reported where the line before them ends
            start = end = max(start - 1, 0)
        operation = Operation.MODIFY if before else Operation.INSERT
        change = Change(lines.span(start, end, cell), mark.rule, operation, mark.message, before, after.strip("\r\n"))
        changes.append(change)
    return tuple(changes), merged(findings)
