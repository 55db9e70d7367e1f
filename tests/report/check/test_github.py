import re

import pytest

from gpu2npu.records import Finding, FindingKind, Span
from gpu2npu.report.check.github import github_report
from gpu2npu.report.check.result import CheckedFile, CheckedFinding, CheckResult, Effort, Readiness, Verdict

COMMAND = re.compile(r"::(error|warning|notice) ([^:]*)::(.*)\Z")


def annotate(path: str, *findings: Finding) -> list[str]:
    found = tuple(CheckedFinding(each, 7, "", (), 7, "", "0" * 32) for each in findings)
    ready = Readiness(Verdict.REVIEW, 0, 0, 0, Effort())
    result = CheckResult("p", "2.7.1", "e", "0", "/p", "", (CheckedFile(path, 9, findings=found),), ready)
    return github_report(result).splitlines()


def unescaped(text: str) -> str:
    """As GitHub's runner reads it."""
    for character, code in ((":", "%3A"), (",", "%2C"), ("\r", "%0D"), ("\n", "%0A"), ("%", "%25")):
        text = text.replace(code, character)
    return text


@pytest.mark.parametrize("path", ["a.py", 'we, "quote" it.py', "50%:a\nb\r.py", "%0A%2C.py"])
@pytest.mark.parametrize("message", ["Plain.", "a::b, 100%\r\nc", "%0A"])
def test_nothing_in_a_path_or_message_breaks_out(path: str, message: str) -> None:
    (line,) = annotate(path, Finding(Span(7, 2, 8, 5), "rule", FindingKind.UNSUPPORTED, "torch.x", message))
    command = COMMAND.match(line)
    assert command is not None
    properties = dict(part.split("=", 1) for part in command[2].split(","))
    assert unescaped(properties.pop("file")) == path
    assert properties == {"line": "7", "endLine": "8", "col": "3", "endColumn": "6", "title": "gpu2npu rule"}
    assert unescaped(command[3]) == f"torch.x: {message}"


def test_the_worst_come_first() -> None:
    findings = [Finding(Span(1, 0, 1, 1), "r", kind, kind.value, "m") for kind in reversed(FindingKind)]
    lines = annotate("a.py", *findings)
    assert [line.split(" ")[0] for line in lines] == ["::error", "::warning", "::warning", "::notice"]


def test_a_place_in_a_notebook_has_no_columns() -> None:
    (line,) = annotate("a.ipynb", Finding(Span(1, 2, 1, 5, cell=3), "r", FindingKind.REVIEW, "x", "m"))
    assert line == "::notice file=a.ipynb,line=7,title=gpu2npu r::x: m"
