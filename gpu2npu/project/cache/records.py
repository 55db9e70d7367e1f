"""Records as lists of plain values, for files of JSON."""

from __future__ import annotations

from typing import Any

from gpu2npu.records import Bounds, Change, Edit, FileRewrite, Finding, FindingKind, Found, Operation, Severity, Span


def encoded_change(change: Change) -> list[Any]:
    """Encode a change in the form that `decoded_change` takes."""
    return [*_span(change.span), change.rule, change.operation.value, change.message, change.before, change.after]


def decoded_change(values: list[Any]) -> Change:
    """Raises LookupError, TypeError or ValueError where the values are none of a change."""
    return Change(_decoded_span(values), values[5], Operation(values[6]), values[7], values[8], values[9])


def encoded_finding(finding: Finding) -> list[Any]:
    """Encode a finding in the form that `decoded_finding` takes."""
    words = finding.rule, finding.kind.value, finding.api, finding.message, finding.severity.value, finding.advice
    return [*_span(finding.span), *words]


def decoded_finding(values: list[Any]) -> Finding:
    """Raises LookupError, TypeError or ValueError where the values are none of a finding."""
    kind, severity = FindingKind(values[6]), Severity(values[9])
    return Finding(_decoded_span(values), values[5], kind, values[7], values[8], severity, values[10])


def encoded_rewrite(rewrite: FileRewrite) -> list[Any]:
    """Encode a rewrite in the form that `decoded_rewrite` takes."""
    edits = [
        [
            edit.place, edit.text, edit.rule, edit.message, edit.shown, edit.replaced, edit.needs, edit.imports,
            edit.operation.value,
        ]
        for edit in rewrite.edits
    ]  # fmt: skip
    found = [
        [each.place, each.rule, each.kind.value, each.api, each.message, each.severity.value] for each in rewrite.found
    ]
    return [edits, found, sorted(rewrite.traits)]


def decoded_rewrite(values: list[Any]) -> FileRewrite:
    """Raises LookupError, TypeError or ValueError where the values are none of a rewrite."""
    edits, found, traits = values
    return FileRewrite(tuple(map(_decoded_edit, edits)), tuple(map(_decoded_found, found)), frozenset(traits))


def _decoded_edit(values: list[Any]) -> Edit:
    place, text, rule, message, shown, replaced, needs, imports, operation = values
    return Edit(
        _bounds(place),
        text if isinstance(text, str) else tuple(piece if isinstance(piece, str) else _bounds(piece) for piece in text),
        rule,
        message,
        None if shown is None else _bounds(shown),
        None if replaced is None else _bounds(replaced),
        tuple(needs),
        tuple(imports),
        Operation(operation),
    )


def _decoded_found(values: list[Any]) -> Found:
    place, rule, kind, api, message, severity = values
    return Found(_bounds(place), rule, FindingKind(kind), api, message, Severity(severity))


def _bounds(values: list[Any]) -> Bounds:
    start, end = values
    return int(start), int(end)


def _span(span: Span) -> list[int]:
    return [span.cell, span.start_line, span.start_column, span.end_line, span.end_column]


def _decoded_span(values: list[Any]) -> Span:
    return Span(int(values[1]), int(values[2]), int(values[3]), int(values[4]), cell=int(values[0]))
