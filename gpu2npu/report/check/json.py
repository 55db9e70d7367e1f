"""A check as JSON, for programs; and one line of JSON a repository, where many were checked."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from msgspec.structs import asdict

from gpu2npu.records import Change, Span
from gpu2npu.report.check.causes import causes_of, group_of
from gpu2npu.report.check.result import (
    Cause,
    CheckedFile,
    CheckedFinding,
    CheckedRepository,
    CheckResult,
    Readiness,
)

# Changes whenever a key changes its meaning or is taken out; a new key does not change it. schema.json states it too.
FORMAT = 2


def json_schema() -> str:
    """The JSON Schema of both kinds of documents."""
    return (files("gpu2npu.report.check") / "schema.json").read_text(encoding="utf-8")


def json_report(result: CheckResult) -> str:
    """ASCII only, keys in a fixed order. Files with nothing to report are left out, and counted."""
    reported = [file for file in result.files if file.changes or file.findings or file.failure is not None]
    document = {
        "format": FORMAT,
        "tool": {"name": "gpu2npu", "version": result.tool_version},
        "project": result.name,
        "root": result.root,
        "pytorch": result.version,
        "evidence": result.evidence,
        "chips": result.chips,
        "readiness": _readiness(result.readiness),
        "counts": {kind.value: count for kind, count in result.counts.items()},
        "severities": {severity.value: count for severity, count in result.severities.items()},
        "causes": [_cause(cause) for cause in causes_of(result.places())],
        "known": result.known,
        "expired": result.expired,
        "files_checked": len(result.files),
        "native": asdict(result.native),
        "failures": [{"path": path, "reason": reason} for path, reason in result.failures],
        "notes": [{"path": note.path, "reason": note.reason} for note in result.notes if not note.failed],
        "files": [_file(file) for file in reported],
    }
    return json.dumps(document, indent=1) + "\n"


def _file(file: CheckedFile) -> dict[str, Any]:
    return {
        "path": file.path,
        "lines": file.lines,
        "failure": file.failure,
        "findings": [_finding(found) for found in file.findings],
        "changes": [_change(change) for change in file.changes],
    }


def _finding(found: CheckedFinding) -> dict[str, Any]:
    finding = found.finding
    return {
        "rule": finding.rule,
        "kind": finding.kind.value,
        "severity": finding.severity.value,
        "group": group_of(finding),
        "part": found.part.value,
        "api": finding.api,
        "message": finding.message,
        "line": found.line,
        "span": _span(finding.span),
        "source": found.source,
        "scope": found.scope,
        "fingerprint": found.fingerprint,
        "known": found.known,
    }


def _change(change: Change) -> dict[str, Any]:
    return {
        "rule": change.rule,
        "operation": change.operation.value,
        "span": _span(change.span),
        "before": change.before,
        "after": change.after,
    }


def _span(span: Span) -> dict[str, int]:
    """Lines count from 1, columns from 0 in characters, the end is exclusive; "cell" is for notebooks, else 0."""
    return vars(span)


def _readiness(readiness: Readiness) -> dict[str, Any]:
    return {
        "verdict": readiness.verdict.value,
        "uses": readiness.uses,
        "automatic": readiness.automatic,
        "review": readiness.review,
        "blocking": readiness.blocking,
        "effort_hours": [round(readiness.effort.low, 1), round(readiness.effort.high, 1)],
        "effort_reasons": [asdict(reason) for reason in readiness.effort.reasons],
        "effort_apart": [asdict(reason) for reason in readiness.effort.apart],
        "blockers": [_cause(cause) for cause in readiness.blockers],
        "apart": {part.value: count for part, count in readiness.apart},
        "plugin": readiness.plugin,
    }


def _cause(cause: Cause) -> dict[str, Any]:
    return {
        "group": cause.group,
        "severity": cause.severity.value,
        "kind": cause.kind.value,
        "names": dict(cause.names),
        "advice": cause.advice,
        "rules": cause.rules,
        "places": cause.places,
        "files": cause.files,
        "first_places": cause.first,
        "parts": {part.value: count for part, count in cause.parts},
    }


def repository_line(repository: CheckedRepository) -> str:
    """One line without its end."""
    line = {
        "format": FORMAT,
        "path": repository.path,
        "project": repository.name,
        "owner": repository.owner,
        "error": repository.error,
        "pytorch": repository.version,
        "files": repository.files,
        "lines": repository.lines,
        "changes": repository.changes,
        "counts": {kind.value: count for kind, count in repository.counts},
        "severities": {severity.value: count for severity, count in repository.severities},
        "failures": repository.failures,
        "readiness": _readiness(repository.readiness) if repository.readiness is not None else None,
        "causes": [_cause(cause) for cause in repository.causes],
        "seconds": round(repository.seconds, 2),
    }
    return json.dumps(line)
