"""The published schema of the JSON of a check, and what is written by it."""

import json

import pytest
from jsonschema import Draft202012Validator

from gpu2npu.records import Change, Finding, FindingKind, Operation, PathNote, Severity, Span
from gpu2npu.report.check.causes import causes_of
from gpu2npu.report.check.json import json_report, json_schema, repository_line
from gpu2npu.report.check.result import (
    CheckedFile,
    CheckedFinding,
    CheckedRepository,
    CheckResult,
    Effort,
    Part,
    Readiness,
    Reason,
    Verdict,
)

SCHEMA = json.loads(json_schema())
VALIDATOR = Draft202012Validator(SCHEMA)
FINDING = Finding(Span(3, 4, 5, 6), "no-graphs", FindingKind.UNSUPPORTED, "torch.x", "No.", Severity.BLOCKER)
FOUND = CheckedFinding(FINDING, 3, "x", ("x",), 3, "", "f" * 32)
CHANGE = Change(Span(1, 0, 1, 4), "cuda-name", Operation.MODIFY, "Renamed.", "a", "b")
CAUSES = causes_of([("a.py", FINDING, Part.CI)])
READINESS = Readiness(Verdict.BLOCKED, 1, 0, 1, Effort((Reason("x", 1, 0.5, 2.0, "b"),)), CAUSES, ((Part.DEFERRED, 2),))
RESULT = CheckResult(
    "p",
    "2.7.1",
    "torch_npu-2.7.1",
    "0.1.0",
    "/p",
    "",
    (CheckedFile("a.py", 9, (CHANGE,), (FOUND,)),),
    READINESS,
    notes=(PathNote("d.py", "it cannot be read", failed=True), PathNote("e.py", "a link", failed=False)),
    chips=("910B", "910_93"),
)


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(SCHEMA)


def test_a_check_is_as_the_schema_says() -> None:
    VALIDATOR.validate(json.loads(json_report(RESULT)))
    every = {"counts": tuple(RESULT.counts.items()), "severities": tuple(RESULT.severities.items())}
    checked = CheckedRepository("/p", "p", readiness=READINESS, seconds=1.0, **every)
    for repository in (checked, CheckedRepository("/q", "q", error="gone")):
        VALIDATOR.validate(json.loads(repository_line(repository)))


def test_every_key_is_in_the_schema() -> None:
    """A key that the schema does not name would be published without being described."""
    document, defined = json.loads(json_report(RESULT)), SCHEMA["$defs"]
    assert document.keys() == defined["project"]["properties"].keys()
    assert (
        json.loads(repository_line(CheckedRepository("/p", "p"))).keys() == defined["repository"]["properties"].keys()
    )
    (file,) = document["files"]
    for name, value in (("file", file), ("finding", file["findings"][0]), ("change", file["changes"][0])):
        assert value.keys() == defined[name]["properties"].keys()
    assert document["causes"][0].keys() == defined["cause"]["properties"].keys()
    assert document["readiness"].keys() == defined["readiness"]["properties"].keys()


@pytest.mark.parametrize("change", [{"format": 1}, {"chips": ["H100"]}, {"known": -1}])
def test_the_schema_refuses_what_is_wrong(change: dict[str, object]) -> None:
    assert not VALIDATOR.is_valid(json.loads(json_report(RESULT)) | change)
