"""Reports for GitLab and for services that read JUnit, and the numbers by rule."""

import json
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace

from gpu2npu.language import restored, use
from gpu2npu.records import Change, Finding, FindingKind, Operation, PathNote, Severity, Span
from gpu2npu.report.check.gitlab import gitlab_report
from gpu2npu.report.check.junit import junit_report
from gpu2npu.report.check.result import CheckedFile, CheckedFinding, CheckResult, Effort, Readiness, Verdict, above
from gpu2npu.report.check.statistics import statistics_json, statistics_of, statistics_text

CHANGE = Change(Span(1, 0, 1, 4), "cuda-name", Operation.MODIFY, "Renamed.", "a", "b")


def found(rule: str, kind: FindingKind, severity: Severity, known: bool = False) -> CheckedFinding:
    finding = Finding(Span(3, 4, 5, 6), rule, kind, "torch.cuda.x", 'It <is> "not"\x00there.', severity)
    return CheckedFinding(finding, 3, "    x = \udcfe", ("",), 3, "", "f" * 32, known)


BLOCKER = found("no-graphs", FindingKind.UNSUPPORTED, Severity.BLOCKER)
NOTE = found("env", FindingKind.REVIEW, Severity.NOTE)
KNOWN = found("env", FindingKind.REVIEW, Severity.NOTE, known=True)


def result(*files: CheckedFile, notes: tuple[PathNote, ...] = ()) -> CheckResult:
    readiness = Readiness(Verdict.BLOCKED, 0, 0, 1, Effort())
    return CheckResult("p", "2.7.1", "torch_npu-2.7.1", "0.1.0", "/p", "", files, readiness, notes=notes)


BOTH = result(
    CheckedFile("a.py", 9, (CHANGE,), (BLOCKER, NOTE, KNOWN)),
    CheckedFile("b\udcff.py", 9, (), (BLOCKER,)),
    CheckedFile("c.py", 9),
    notes=(PathNote("d.py", "it cannot be read", failed=True),),
)


def test_gitlab() -> None:
    issues = json.loads(gitlab_report(BOTH))
    reported = [(each["location"]["path"], each["check_name"], each["severity"]) for each in issues]
    assert reported == [
        ("d.py", "not-checked", "critical"),
        ("a.py", "no-graphs", "blocker"),
        ("a.py", "env", "info"),
        ("b\\udcff.py", "no-graphs", "blocker"),
    ]
    assert issues[1]["location"]["lines"] == {"begin": 3}
    assert issues[1]["fingerprint"] != issues[3]["fingerprint"]
    assert json.loads(gitlab_report(result())) == []


@pytest.mark.parametrize(("bar", "failures"), [("blocker", 2), ("any", 3), ("note", 3), ("fallback", 2), ("never", 0)])
def test_junit_fails_where_the_check_does(bar: str, failures: int) -> None:
    root = ElementTree.fromstring(junit_report(BOTH, above(bar)).encode())
    counts = {name: int(root.attrib[name]) for name in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": 4, "failures": failures, "errors": 1, "skipped": 3 - failures}
    assert [suite.attrib["name"] for suite in root] == ["a.py", "b\\udcff.py", "d.py"]
    assert root[0].attrib["tests"] == "2" and root[0][0].attrib["line"] == "3"


def test_junit_of_a_clean_check_has_a_case_that_passes() -> None:
    root = ElementTree.fromstring(junit_report(result(CheckedFile("c.py", 9)), above("any")).encode())
    assert [(case.attrib["name"], len(case)) for case in root.iter("testcase")] == [("check", 0)]


def test_no_such_bar() -> None:
    with pytest.raises(ValueError, match="'worst'"):
        above("worst")


def test_statistics() -> None:
    more = replace(BOTH, files=(*BOTH.files, CheckedFile("e.py", 1, (CHANGE, CHANGE))))
    lines = statistics_text(statistics_of(more)).splitlines()
    assert [line.split() for line in lines[1:]] == [
        ["0", "3", "0", "2", "-", "cuda-name"],
        ["2", "0", "1", "2", "blocker", "no-graphs"],
        ["1", "0", "1", "1", "note", "env"],
    ]
    assert json.loads(statistics_json(statistics_of(more)))[1]["rule"] == "no-graphs"


def test_why_a_file_is_not_checked_is_in_the_language_in_use() -> None:
    unread = result(notes=(PathNote("d.py", "there was not enough memory to migrate it", failed=True),))
    with restored():
        use("zh")
        (issue,) = json.loads(gitlab_report(unread))
        error = ElementTree.fromstring(junit_report(unread, above("any")).encode()).find(".//error")
    assert issue["description"] == "没有检查：迁移它的内存不足"
    assert error is not None and error.attrib["message"] == "迁移它的内存不足"
