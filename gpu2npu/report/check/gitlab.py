"""A check as GitLab's code quality report: a list of JSON objects, each an issue at a line of a file.

The format is that of https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from gpu2npu.language import shown
from gpu2npu.records import Severity
from gpu2npu.report.check.result import CheckedFile, CheckedFinding, CheckResult
from gpu2npu.report.text import one_line

_SEVERITIES = {
    Severity.BLOCKER: "blocker",
    Severity.CHANGE: "major",
    Severity.ENVIRONMENT: "minor",
    Severity.ADVICE: "info",
    Severity.NOTE: "info",
}


def gitlab_report(result: CheckResult) -> str:
    """The findings that no baseline has, and files that could not be read."""
    issues = [*map(_failure, result.failures), *(_issue(file, found) for file, found in result.reported())]
    return json.dumps(issues, indent=1) + "\n"


def _issue(file: CheckedFile, found: CheckedFinding) -> dict[str, Any]:
    finding = found.finding
    return {
        "description": one_line(f"{finding.api}: {shown(finding.message)}"),
        "check_name": finding.rule,
        "fingerprint": _fingerprint(file.path, found.fingerprint),
        "severity": _SEVERITIES[finding.severity],
        "location": {"path": one_line(file.path), "lines": {"begin": found.line}},
    }


def _failure(failure: tuple[str, str]) -> dict[str, Any]:
    path, reason = failure
    return {
        "description": one_line(shown(f"not checked: {reason}")),
        "check_name": "not-checked",
        "fingerprint": _fingerprint(path, "not checked"),
        "severity": "critical",
        "location": {"path": one_line(path), "lines": {"begin": 1}},
    }


def _fingerprint(path: str, finding: str) -> str:
    """GitLab wants one that no other issue of the report has; that of a finding is its own within its file."""
    return hashlib.sha256(f"{path}\0{finding}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
