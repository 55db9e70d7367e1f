"""The edits and findings of a rule at a place in a text that is not Python."""

from __future__ import annotations

from gpu2npu.records import Edit, FindingKind, Found
from gpu2npu.rulebook.rule import Rule

Mark = Edit | Found


def edit(rule: Rule, start: int, end: int, text: str) -> Edit:
    return Edit((start, end), text, rule.id, rule.why)


def review(rule: Rule, start: int, end: int, api: str, message: str) -> Found:
    kind = FindingKind.REVIEW
    return Found((start, end), rule.id, kind, api, message, rule.match.severity(kind))


def reported(rule: Rule, start: int, end: int, api: str) -> list[Mark]:
    """Return the finding that the rule itself reports at a place, if it reports one."""
    report = rule.then.report
    if report is None:
        return []
    return [Found((start, end), rule.id, report.kind, api, report.message, report.severity)]


def applied(rule: Rule, start: int, end: int, api: str, new: str | None = None) -> list[Mark]:
    """Return a rule's marks at a place: the edit to its new name (or `new`), and the finding that it reports."""
    if rule.then.keep:
        return []
    text = new if new is not None else rule.then.rename
    edits: list[Mark] = [] if text is None else [edit(rule, start, end, text)]
    return edits + reported(rule, start, end, api)
