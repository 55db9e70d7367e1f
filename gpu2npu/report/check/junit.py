"""A check as JUnit XML, as test reports of CI services are: a suite for each file, a case for each finding in it.

A finding at or above the bar of `--fail-on` is a failure, another one a case that was skipped, and a file that could
not be read is an error: the report fails where the exit code does.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from gpu2npu.language import shown
from gpu2npu.report.check.result import CheckedFile, CheckedFinding, CheckResult
from gpu2npu.report.text import file_and_line, one_line


def junit_report(result: CheckResult, failing: Collection[Enum]) -> str:
    """`failing` are the kinds and severities that make the check fail (of result.above). Findings that a baseline
    has are left out; without any finding there is one case, which passes."""
    root = Element("testsuites", name="gpu2npu")
    for file in result.files:
        if file.reported:
            suite = SubElement(root, "testsuite", name=one_line(file.path))
            for found in file.reported:
                _add_finding(suite, file, found, failing)
    for path, reason in result.failures:
        case = _case(SubElement(root, "testsuite", name=one_line(path)), path, "not-checked", 1)
        SubElement(case, "error", message=one_line(shown(reason)), type="not-checked")
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
        place = f"{file_and_line(file.path, finding.span)}:{finding.span.start_column + 1}"
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
