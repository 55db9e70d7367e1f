import json
from pathlib import Path
from urllib.parse import unquote

import pytest
from jsonschema import Draft4Validator
from msgspec.structs import replace

from gpu2npu.records import Finding, FindingKind, PathNote, Span
from gpu2npu.report.check.result import (
    CheckedFile,
    CheckedFinding,
    CheckResult,
    Effort,
    Readiness,
    RuleNote,
    Verdict,
)
from gpu2npu.report.check.sarif import sarif_report

SCHEMA = json.loads((Path(__file__).parent / "data" / "sarif-schema-2.1.0.json").read_text())
ODD = 'a b/50%,"x"\n=:é\udcff#?.py'


def checked(path: str, kind: FindingKind = FindingKind.UNSUPPORTED, known: bool = False) -> CheckedFile:
    finding = Finding(Span(3, 4, 5, 6), "no-graphs", kind, "torch.cuda.\ud800", "It is\nnot there.")
    found = CheckedFinding(finding, 3, "    x = \udcfe", ("",), 3, "Model.forward", "f" * 32, known)
    return CheckedFile(path, 9, findings=(found,))


def result(*files: CheckedFile) -> CheckResult:
    return CheckResult(
        name="p",
        version="2.7.1",
        evidence="torch_npu-2.7.1",
        tool_version="0.1.0",
        root="/some where/p",
        shown_root="",
        files=files,
        readiness=Readiness(Verdict.BLOCKED, 0, 0, 1, Effort()),
        rules=(RuleNote("no-graphs", "There are none."),),
        notes=(PathNote("d/\udcfe", "it cannot be read", failed=True),),
    )


def log(*files: CheckedFile) -> dict:
    document = json.loads(sarif_report(result(*files)))
    Draft4Validator(SCHEMA).validate(document)
    return document["runs"][0]


def test_the_schema_refuses_what_is_wrong() -> None:
    document = json.loads(sarif_report(result(checked("a.py"))))
    document["runs"][0]["results"][0]["level"] = "fatal"
    assert not Draft4Validator(SCHEMA).is_valid(document)


@pytest.mark.parametrize("path", ["a.py", ODD, "x:y.py", "=1+1.py"])
def test_a_report_is_valid_and_its_paths_are_relative_references(path: str) -> None:
    found = log(checked(path))["results"][0]
    location = found["locations"][0]["physicalLocation"]
    uri = location["artifactLocation"]["uri"]
    assert uri.isascii() and not set(' ":,#?\n') & set(uri)
    assert unquote(uri, "utf-8", "surrogateescape") == path
    assert location["region"]["startLine"] == 3
    assert location["region"]["startColumn"] == 5
    assert location["region"]["endLine"] == 5
    assert found["partialFingerprints"] == {"gpu2npu/v1": "f" * 32}


def test_rules_levels_and_failures() -> None:
    run = log(*(checked(f"{kind.value}.py", kind) for kind in FindingKind))
    levels = {found["properties"]["kind"]: found["level"] for found in run["results"]}
    assert levels == {"unsupported": "error", "unknown": "warning", "fallback": "warning", "review": "note"}
    rules = run["tool"]["driver"]["rules"]
    assert all(rules[found["ruleIndex"]]["id"] == found["ruleId"] for found in run["results"])
    (notification,) = run["invocations"][0]["toolExecutionNotifications"]
    assert "it cannot be read" in notification["message"]["text"]


def test_what_a_baseline_has_is_suppressed() -> None:
    known, new = log(checked("a.py", known=True), checked("b.py"))["results"]
    assert known["suppressions"][0]["kind"] == "external"
    assert "suppressions" not in new


def test_a_rule_links_to_its_page() -> None:
    rules = (RuleNote("amp", "Why.", "rules/amp.md#amp"), RuleNote("mine", "Mine."))
    document = json.loads(sarif_report(replace(result(), rules=rules), "https://example.org/docs/"))
    Draft4Validator(SCHEMA).validate(document)
    links = [rule.get("helpUri") for rule in document["runs"][0]["tool"]["driver"]["rules"]]
    assert links == ["https://example.org/docs/rules/amp.md#amp", None]
    of_a_site = sarif_report(replace(result(), rules=rules), "https://example.org/docs/{page}.html")
    assert '"https://example.org/docs/rules/amp.html#amp"' in of_a_site
    assert "helpUri" not in sarif_report(replace(result(), rules=rules))


def test_what_the_page_says_of_a_rule_is_in_the_report() -> None:
    rules = (RuleNote("amp", "Why.", "rules/amp.md#amp", "## amp\n\nWhy.\n\nChanges:\n"), RuleNote("mine", "Mine."))
    for url in ("", "https://example.org/docs"):
        document = json.loads(sarif_report(replace(result(), rules=rules), url))
        Draft4Validator(SCHEMA).validate(document)
        first, second = document["runs"][0]["tool"]["driver"]["rules"]
        assert first["help"]["markdown"].startswith("## amp\n\nWhy.\n\nChanges:\n")
        assert "markdown" not in second["help"]


def test_a_result_has_the_row_of_the_table_and_its_source() -> None:
    finding = Finding(
        Span(1, 0, 1, 1), "npu-limit", FindingKind.REVIEW, "torch.Tensor.double", "It casts.", row="float64-cast"
    )
    file = checked("a.py")
    named = replace(file, findings=(replace(file.findings[0], finding=finding),))
    properties = log(named)["results"][0]["properties"]
    assert properties["row"] == "float64-cast" and "ToKernelNpu.cpp" in properties["source"]
    assert "row" not in log(file)["results"][0]["properties"]
