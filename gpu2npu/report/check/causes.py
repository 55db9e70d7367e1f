"""Findings by their cause: all places that one answer is for, whatever API is there."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable

from gpu2npu.language import sentence
from gpu2npu.records import Advice, Finding, FindingKind, Severity
from gpu2npu.report.check.result import SEVERITIES, Cause, Part
from gpu2npu.report.text import file_and_line

# The path of a file, a finding in it, and the part of the project that it is in.
Place = tuple[str, Finding, Part]

_FIRST = 5  # places that a report shows of a cause
_NAMED = 5  # names that a report shows of a cause
_LONGEST = 80  # characters of a name


def group_of(record: Finding | Advice) -> str:
    """The cause of a finding, or of a piece of advice, as every report names it: 8 hexadecimal digits."""
    severity = record.severity if isinstance(record, Finding) else Severity.ADVICE
    text = _advice(record) if isinstance(record, Finding) else record.message
    key = "\0".join((severity.value, record.kind.value, text))
    return hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()


def _advice(finding: Finding) -> str:
    return finding.advice or finding.message


def causes_of(places: Iterable[Place]) -> tuple[Cause, ...]:
    """The causes of findings, which come in the order of their places: the worst first, then the most frequent."""
    groups: dict[str, list[Place]] = {}
    for place in places:
        groups.setdefault(group_of(place[1]), []).append(place)
    causes = (_cause(group, entries) for group, entries in groups.items())
    return tuple(sorted(causes, key=lambda cause: (SEVERITIES.index(cause.severity), -cause.places, cause.first)))


def _cause(group: str, entries: list[Place]) -> Cause:
    finding = entries[0][1]
    names = Counter(each.api[:_LONGEST] for _, each, _ in entries)
    parts = Counter(part for _, _, part in entries)
    places = dict.fromkeys(file_and_line(path, each.span) for path, each, _ in entries)
    return Cause(
        group=group,
        severity=finding.severity,
        kind=finding.kind,
        advice=_advice(finding),
        message=finding.message,
        names=tuple(sorted(names.items(), key=lambda entry: (-entry[1], entry[0]))),
        rules=tuple(sorted({each.rule for _, each, _ in entries})),
        places=len(entries),
        files=len({path for path, _, _ in entries}),
        first=tuple(places)[:_FIRST],
        has_more=len(places) > _FIRST,
        parts=tuple((part, parts[part]) for part in Part if parts[part]),
    )


def shown_names(cause: Cause) -> str:
    """The names of a cause, each with its number of places if there are several; the first few of many."""
    if len(cause.names) == 1:
        return cause.names[0][0]
    listed = ", ".join(f"{name} ({count})" for name, count in cause.names[:_NAMED])
    return sentence("{} and {} more", listed, len(cause.names) - _NAMED) if len(cause.names) > _NAMED else listed


def is_open(kind: FindingKind, severity: Severity) -> bool:
    """Return whether a person has something to do: all but advice, notes and what runs on the CPU."""
    return kind is FindingKind.UNKNOWN or severity in (Severity.BLOCKER, Severity.CHANGE, Severity.ENVIRONMENT)
