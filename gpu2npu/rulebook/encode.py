"""Rule objects -> the JSON of a rule file: what decode.py reads."""

from __future__ import annotations

from typing import Any

from gpu2npu.rulebook.match import Match
from gpu2npu.rulebook.rule import Addition, Example, Report, Rule, Then


def encode_rule(rule: Rule) -> dict[str, Any]:
    """A rule as an entry of `rules`; keys that say nothing are left out."""
    keys = ("id", "why", "source", "since", "until", "needs", "lacks")
    return _without_empty(
        {
            **{key: getattr(rule, key) or None for key in keys},
            "where": _without_empty({name: sorted(getattr(rule.where, name)) for name in rule.where.__struct_fields__}),
            "match": rule.match.encode(),
            "then": _then(rule.then, rule.match),
            "examples": [_example(example) for example in rule.examples],
        }
    )


def _without_empty(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if value not in (None, False, [], {})}


def _report(report: Report, match: Match) -> dict[str, Any]:
    entry = {"kind": report.kind.value, "message": report.message}
    usual = report.severity is match.severity(report.kind)
    return entry if usual else {"kind": entry["kind"], "severity": report.severity.value, "message": entry["message"]}


def _addition(add: Addition) -> dict[str, str]:
    return {add.what: add.code, **({"place": add.place} if add.what == "statement" else {})}


def _then(then: Then, match: Match) -> dict[str, Any]:
    encoded = {
        "add": _addition(then.add) if then.add is not None else None,
        "values": dict(then.values),
        "report": _report(then.report, match) if then.report is not None else None,
    }
    return _without_empty({name: encoded.get(name, getattr(then, name)) for name in then.__struct_fields__})


def _example(example: Example) -> dict[str, Any]:
    retained = example.before == example.after
    code = {"keep": example.before} if retained else {"before": example.before, "after": example.after}
    rest = {
        "version": example.version,
        "file": example.file if example.file != "example.py" else None,
        "reports": example.reports.value if example.reports is not None else None,
    }
    return {**code, **_without_empty(rest)}
