"""A check as reports that CI services read.

GitHub's workflow commands: each finding becomes an annotation at its line of a pull request. GitLab's code quality
report, by https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format: an issue at a line of a file.
JUnit's XML: a suite for each file, a case for each finding, which is a failure at or above the bar of `--fail-on`, else
skipped; a file that could not be read is an error, so that the report fails where the exit code does.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator
from enum import Enum
from typing import Any
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from gpu2npu.language import shown
from gpu2npu.records import FindingKind, Severity
from gpu2npu.report.check.result import KINDS, CheckedFile, CheckedFinding, CheckResult
from gpu2npu.report.text import file_and_cell, one_line

_COMMANDS = {
    FindingKind.UNSUPPORTED: "error",
    FindingKind.UNKNOWN: "warning",
    FindingKind.FALLBACK: "warning",
    FindingKind.REVIEW: "notice",
}


def github_report(result: CheckResult) -> str:
    """One command a line. GitHub shows no more than ten annotations of each level a step, so the worst come first."""
    order = {kind: rank for rank, kind in enumerate(KINDS)}
    worst_first = sorted(result.reported(), key=lambda entry: order[entry[1].kind])
    lines = [*_unread_commands(result), *(_annotation(file, found) for file, found in worst_first)]
    return "".join(f"{line}\n" for line in lines)


def _annotation(file: CheckedFile, found: CheckedFinding) -> str:
    finding = found.finding
    where: dict[str, object] = {"file": file.path, "line": found.line}
    if not finding.span.cell:  # in a notebook, columns are those of a cell
        end = found.line + finding.span.end_line - finding.span.start_line
        where |= {"endLine": end, "col": finding.span.start_column + 1, "endColumn": finding.span.end_column + 1}
    where["title"] = f"gpu2npu {finding.rule}"
    return _command(_COMMANDS[finding.kind], where, f"{finding.api}: {shown(finding.message)}")


def _unread_commands(result: CheckResult) -> Iterator[str]:
    for path, reason in result.failures:
        yield _command("error", {"file": path, "title": "gpu2npu"}, shown(f"not checked: {reason}"))


def _command(name: str, properties: dict[str, object], message: str) -> str:
    """As GitHub's toolkit escapes it: @actions/core, command.ts."""
    given = ",".join(f"{key}={_property(str(value))}" for key, value in properties.items())
    return f"::{name} {given}::{_data(message)}"


def _data(text: str) -> str:
    """Line ends stay, escaped; what no terminal can show is spelled out."""
    escaped = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return one_line(escaped)


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


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
        "description": one_line(f"not checked: {reason}"),
        "check_name": "not-checked",
        "fingerprint": _fingerprint(path, "not checked"),
        "severity": "critical",
        "location": {"path": one_line(path), "lines": {"begin": 1}},
    }


def _fingerprint(path: str, finding: str) -> str:
    """GitLab wants one that no other issue of the report has; that of a finding is its own within its file."""
    return hashlib.sha256(f"{path}\0{finding}".encode("utf-8", "surrogatepass")).hexdigest()[:32]


def junit_report(result: CheckResult, failing: Collection[Enum]) -> str:
    """`failing` are the kinds and severities that make the check fail (of exit_code.above). Findings that a baseline
    has are left out; without any finding there is one case, which passes."""
    root = Element("testsuites", name="gpu2npu")
    for file in result.files:
        if file.reported:
            suite = SubElement(root, "testsuite", name=one_line(file.path))
            for found in file.reported:
                _add_finding(suite, file, found, failing)
    for path, reason in result.failures:
        case = _case(SubElement(root, "testsuite", name=one_line(path)), path, "not-checked", 1)
        SubElement(case, "error", message=one_line(reason), type="not-checked")
    if not len(root):
        _case(SubElement(root, "testsuite", name=one_line(result.name)), result.name, "check", 1)
    for suite in root:
        _count(suite)
    _count(root)
    indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, encoding="unicode") + "\n"


def _add_finding(suite: Element, file: CheckedFile, found: CheckedFinding, failing: Collection[Enum]) -> None:
    finding = found.finding
    case = _case(suite, file.path, f"{finding.rule}: {finding.api}", found.line)
    message = one_line(f"{finding.api}: {shown(finding.message)}")
    if finding.kind in failing or finding.severity in failing:
        failure = SubElement(case, "failure", message=message, type=finding.severity.value)
        place = f"{file_and_cell(file.path, finding.span)}:{finding.span.start_line}:{finding.span.start_column + 1}"
        failure.text = one_line(f"{place} [{finding.severity.value}, {finding.kind.value}] {found.source.strip()}")
    else:
        SubElement(case, "skipped", message=message)


def _case(suite: Element, path: str, name: str, line: int) -> Element:
    shown = one_line(path)
    return SubElement(suite, "testcase", name=one_line(name), classname=shown, file=shown, line=str(line), time="0")


def _count(element: Element) -> None:
    """Write the numbers of cases into an element's attributes."""
    for attribute, tag in (("tests", "testcase"), ("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        element.set(attribute, str(sum(1 for _ in element.iter(tag))))
