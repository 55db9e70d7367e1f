"""Checked entries of a rule file -> Rule and Role objects."""

from __future__ import annotations

from typing import Any

from gpu2npu.records import FindingKind, Severity
from gpu2npu.rulebook.kinds import Match, kind_of
from gpu2npu.rulebook.rule import Addition, Example, Report, Role, Rule, Then, Where


def decode_rule(entry: dict[str, Any], *, builtin: bool, file: str) -> Rule:
    """One entry of `rules`; `file` is the file it stands in, as messages name it."""
    then = entry["then"]
    match = kind_of(entry["match"]).decode(entry["match"])
    return Rule(
        id=entry["id"],
        why=entry["why"],
        match=match,
        then=Then(
            rename=then.get("rename"),
            replace=then.get("replace"),
            remove=then.get("remove", False),
            add=_addition(then["add"]) if "add" in then else None,
            needs_target=then.get("needs_target", False),
            own_devices=then.get("own_devices", False),
            values=tuple(then.get("values", {}).items()),
            imports=then.get("imports"),
            report=_report(then["report"], match) if "report" in then else None,
            trait=then.get("trait"),
            keep=then.get("keep", False),
        ),
        examples=tuple(_example(example) for example in entry["examples"]),
        since=entry.get("since"),
        until=entry.get("until"),
        needs=entry.get("needs"),
        lacks=entry.get("lacks"),
        where=_where(entry.get("where", {})),
        builtin=builtin,
        file=file,
        source=entry.get("source", ""),
    )


def _report(entry: dict[str, Any], match: Match) -> Report:
    kind = FindingKind(entry["kind"])
    stated = entry.get("severity")
    return Report(kind, entry["message"], Severity(stated) if stated else match.severity(kind))


def _addition(entry: dict[str, str]) -> Addition:
    what = next(key for key in entry if key != "place")
    return Addition(what, entry[what], entry.get("place", "before"))


def _where(entry: dict[str, Any]) -> Where:
    return Where(*(frozenset(entry.get(key, ())) for key in ("files", "imports", "project")))


def _example(entry: dict[str, Any]) -> Example:
    reports = FindingKind(entry["reports"]) if "reports" in entry else None
    before = entry["keep"] if "keep" in entry else entry["before"]
    return Example(before, entry.get("after", before), reports, entry.get("version"), entry.get("file", "example.py"))


def decode_role(entry: dict[str, Any]) -> Role:
    """One value of `roles`."""
    kinds = ("words", "siblings", "callables", "methods", "attributes", "strangers")
    sets = {key: frozenset(entry.get(key, ())) for key in kinds}
    return Role(**sets, prefix=entry.get("prefix"), suffix=entry.get("suffix"))


def merge_roles(first: Role, second: Role) -> Role:
    """A role that two files say something about."""
    return Role(
        words=first.words | second.words,
        siblings=first.siblings | second.siblings,
        callables=first.callables | second.callables,
        methods=first.methods | second.methods,
        attributes=first.attributes | second.attributes,
        strangers=first.strangers | second.strangers,
        prefix=first.prefix or second.prefix,
        suffix=first.suffix or second.suffix,
    )
