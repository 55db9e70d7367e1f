"""The entries of a rule file and the Rule and Role objects that they are read as, one made of the other."""

from __future__ import annotations

from typing import Any

from gpu2npu.language import add_translation
from gpu2npu.records import FindingKind, Severity
from gpu2npu.rulebook.match import Match, decode_match
from gpu2npu.rulebook.rule import Addition, Example, Report, Role, Rule, Then, Where


def decode_rule(entry: dict[str, Any], *, builtin: bool, file: str) -> Rule:
    """One entry of `rules`; `file` is the file it is in, as messages name it."""
    entry = {**entry, "why": _words(entry["why"])}
    match = decode_match(entry["match"])
    rest = {
        "match": match,
        "then": _then(entry["then"], match),
        "examples": tuple(map(_example, entry["examples"])),
        "where": Where(**{key: frozenset(words) for key, words in entry.get("where", {}).items()}),
    }
    retained = {key: value for key, value in entry.items() if not key.startswith("$")}
    return Rule(**{**retained, **rest}, builtin=builtin, file=file)


def _then(entry: dict[str, Any], match: Match) -> Then:
    decoded = {
        "add": _addition(entry["add"]) if "add" in entry else None,
        "values": tuple(entry.get("values", {}).items()),
        "report": _report(entry["report"], match) if "report" in entry else None,
    }
    return Then(**{**entry, **decoded})


def _report(entry: dict[str, Any], match: Match) -> Report:
    kind = FindingKind(entry["kind"])
    stated = entry.get("severity")
    return Report(kind, _words(entry["message"]), Severity(stated) if stated else match.severity(kind))


def _words(stated: str | dict[str, str]) -> str:
    """The text of a rule in English, or in the language that it has; the others become its translations."""
    if isinstance(stated, str):
        return stated
    text = stated.get("en") or next(iter(stated.values()))
    add_translation(text, stated)
    return text


def _addition(entry: dict[str, str]) -> Addition:
    what = next(key for key in entry if key != "place")
    return Addition(what, entry[what], entry.get("place", "before"))


def _example(entry: dict[str, Any]) -> Example:
    reports = FindingKind(entry["reports"]) if "reports" in entry else None
    before = entry["keep"] if "keep" in entry else entry["before"]
    return Example(before, entry.get("after", before), reports, entry.get("version"), entry.get("file", "example.py"))


def decode_role(entry: dict[str, Any]) -> Role:
    """One value of `roles`."""
    decoded: dict[str, Any] = {key: frozenset(each) if isinstance(each, list) else each for key, each in entry.items()}
    return Role(**decoded)


def merge_roles(first: Role, second: Role) -> Role:
    """A role that two files say something about."""
    pairs = ((name, getattr(first, name), getattr(second, name)) for name in Role.__struct_fields__)
    return Role(**{name: one | other if isinstance(one, frozenset) else one or other for name, one, other in pairs})


def encode_rule(rule: Rule) -> dict[str, Any]:
    """A rule as an entry of `rules`; keys that say nothing are left out."""
    keys = ("id", "why", "source", "since", "until", "needs", "lacks")
    return _without_empty(
        {
            **{key: getattr(rule, key) or None for key in keys},
            "where": _without_empty({name: sorted(getattr(rule.where, name)) for name in rule.where.__struct_fields__}),
            "match": rule.match.encode(),
            "then": _then_entry(rule.then, rule.match),
            "examples": [_example_entry(example) for example in rule.examples],
        }
    )


def _without_empty(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if value not in (None, False, [], {})}


def _report_entry(report: Report, match: Match) -> dict[str, Any]:
    entry = {"kind": report.kind.value, "message": report.message}
    usual = report.severity is match.severity(report.kind)
    return entry if usual else {"kind": entry["kind"], "severity": report.severity.value, "message": entry["message"]}


def _addition_entry(add: Addition) -> dict[str, str]:
    return {add.what: add.code, **({"place": add.place} if add.what == "statement" else {})}


def _then_entry(then: Then, match: Match) -> dict[str, Any]:
    encoded = {
        "add": _addition_entry(then.add) if then.add is not None else None,
        "values": dict(then.values),
        "report": _report_entry(then.report, match) if then.report is not None else None,
    }
    return _without_empty({name: encoded.get(name, getattr(then, name)) for name in then.__struct_fields__})


def _example_entry(example: Example) -> dict[str, Any]:
    retained = example.before == example.after
    code = {"keep": example.before} if retained else {"before": example.before, "after": example.after}
    rest = {
        "version": example.version,
        "file": example.file if example.file != "example.py" else None,
        "reports": example.reports.value if example.reports is not None else None,
    }
    return {**code, **_without_empty(rest)}
