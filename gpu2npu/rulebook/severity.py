"""The severity of a finding, by its kind and by what its rule matches. A rule that knows better says so itself."""

from __future__ import annotations

from gpu2npu.records import FindingKind, Severity
from gpu2npu.rulebook.rule import CommandMatch, EnvironmentMatch, ImportMatch, Match

_BY_KIND = {
    FindingKind.UNSUPPORTED: Severity.BLOCKER,
    FindingKind.UNKNOWN: Severity.NOTE,
    FindingKind.FALLBACK: Severity.ADVICE,
    FindingKind.REVIEW: Severity.CHANGE,
}


def severity_of_kind(kind: FindingKind) -> Severity:
    """The severity of a finding of which nothing but its kind is known."""
    return _BY_KIND[kind]


def severity_of_match(match: Match, kind: FindingKind) -> Severity:
    """The severity of what a rule reports, unless it states one: its message says what to write. Variables, programs
    and packages that have a version for the NPU belong to the environment; nothing takes the place of the others."""
    if isinstance(match, (EnvironmentMatch, CommandMatch)):
        return Severity.ENVIRONMENT
    if isinstance(match, ImportMatch):
        return Severity.BLOCKER if kind is FindingKind.UNSUPPORTED else Severity.ENVIRONMENT
    return Severity.CHANGE if kind is FindingKind.UNSUPPORTED else severity_of_kind(kind)
