"""Records as lists of plain values, for files of JSON."""

from __future__ import annotations

from typing import Any

from gpu2npu.records import Change, Finding, FindingKind, Operation, Severity, Span


def encoded_change(change: Change) -> list[Any]:
    """What `decoded_change` takes."""
    return [*_span(change.span), change.rule, change.operation.value, change.message, change.before, change.after]


def decoded_change(values: list[Any]) -> Change:
    """Raises LookupError, TypeError or ValueError where the values are none of a change."""
    return Change(_decoded_span(values), values[5], Operation(values[6]), values[7], values[8], values[9])


def encoded_finding(finding: Finding) -> list[Any]:
    """What `decoded_finding` takes."""
    words = finding.rule, finding.kind.value, finding.api, finding.message, finding.severity.value, finding.advice
    return [*_span(finding.span), *words]


def decoded_finding(values: list[Any]) -> Finding:
    """Raises LookupError, TypeError or ValueError where the values are none of a finding."""
    kind, severity = FindingKind(values[6]), Severity(values[9])
    return Finding(_decoded_span(values), values[5], kind, values[7], values[8], severity, values[10])


def _span(span: Span) -> list[int]:
    return [span.cell, span.start_line, span.start_column, span.end_line, span.end_column]


def _decoded_span(values: list[Any]) -> Span:
    return Span(int(values[1]), int(values[2]), int(values[3]), int(values[4]), cell=int(values[0]))
