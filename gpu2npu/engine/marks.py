"""The edits and findings of a rule at a place in a text that is not Python, and findings merged."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from gpu2npu.python.text.templates import plain
from gpu2npu.records import Edit, Finding, FindingKind, Found
from gpu2npu.rulebook.rule import Rule

if TYPE_CHECKING:
    from gpu2npu.engine.knowledge import KeyedValue
    from gpu2npu.engine.table import RuleTable

Mark = Edit | Found


def edit(rule: Rule, start: int, end: int, text: str) -> Edit:
    return Edit((start, end), plain(text), rule.id, rule.why)


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


def option_marks(table: RuleTable, place: KeyedValue) -> list[Mark] | None:
    """Return the marks of rules for a key or option, and its value; None if no rule fits."""
    name, value = (place.key or "").rpartition(".")[2].lstrip("-+~").replace("-", "_"), place.value
    rules = table.keywords.get(name, ()) if place.of == "*" else table.arguments.get(place.of, ())
    for rule in rules:
        match: Any = rule.match
        if match.argument != name or match.of != place.of:
            continue
        if (match.value is not None and match.value != value) or value in match.unless:
            continue
        shown = name if value is None else value
        end = place.start + len(shown)
        shown = name if shown.isdigit() else shown  # a number is no cause
        if rule.then.rename is not None and match.value is not None:
            return applied(rule, place.start, end, shown)
        if rule.then.rename is None and rule.then.report is None and not rule.then.keep:
            message = f"{rule.why} Change it by hand."
            return [review(rule, place.start, end, shown, message)]
        return reported(rule, place.start, end, shown)
    return None


def merged(
    findings: Iterable[Finding],
    further: Iterable[Finding] = (),
    is_answered: Callable[[Finding], bool] = lambda finding: False,
) -> tuple[Finding, ...]:
    """Findings, and the further ones that nothing answers, each once and in the order of the text."""
    retained = [finding for finding in further if not is_answered(finding)]
    return tuple(sorted(dict.fromkeys((*findings, *retained)), key=lambda each: (each.span, each.rule, each.api)))
