"""Each rule says what its findings cost, by itself or by its kind."""

import pytest

from gpu2npu.kinds.import_ import ImportMatch
from gpu2npu.records import FindingKind, Severity
from gpu2npu.rulebook import load_rulebook
from gpu2npu.rulebook.entries import decode_rule, encode_rule

ENVIRONMENT = {"environment": "NCCL_X"}
PACKAGE = {"import": "xformers"}
NAME = {"name": "torch.cuda.x"}


def rule(match: dict[str, str], report: dict[str, str]) -> dict[str, object]:
    return {"id": "own", "why": "It is so.", "match": match, "then": {"report": report}, "examples": []}


@pytest.mark.parametrize(
    ("match", "kind", "severity"),
    [
        (NAME, "unsupported", Severity.CHANGE),
        (NAME, "review", Severity.CHANGE),
        (NAME, "unknown", Severity.NOTE),
        (PACKAGE, "unsupported", Severity.BLOCKER),
        (PACKAGE, "review", Severity.ENVIRONMENT),
        (ENVIRONMENT, "unsupported", Severity.ENVIRONMENT),
        ({"command": "nvcc"}, "unsupported", Severity.ENVIRONMENT),
    ],
)
def test_the_kind_and_the_match_say_it(match: dict[str, str], kind: str, severity: Severity) -> None:
    entry = rule(match, {"kind": kind, "message": "Take it out."})
    decoded = decode_rule(entry, builtin=False, file="own.json")
    assert decoded.then.report is not None
    assert decoded.then.report.severity is severity
    assert encode_rule(decoded)["then"] == entry["then"]


def test_a_rule_says_it_itself() -> None:
    entry = rule(NAME, {"kind": "unsupported", "severity": "blocker", "message": "Write y."})
    decoded = decode_rule(entry, builtin=False, file="own.json")
    assert decoded.then.report is not None
    assert decoded.then.report.severity is Severity.BLOCKER
    assert encode_rule(decoded)["then"] == entry["then"]


def test_what_blocks_besides_packages() -> None:
    reports = {each.id: each for each in load_rulebook().rules}
    blocking = [each for each in reports.values() if each.then.report and each.then.report.severity is Severity.BLOCKER]
    blockers = {each.id for each in blocking if not isinstance(each.match, ImportMatch)}
    assert blockers == {"cuda-jiterator", "cuda-comm", "symmetric-memory", "cpp-extension-cuda"}


def test_variables_without_effect_are_notes() -> None:
    reports = {each.id: each.then.report for each in load_rulebook().rules}
    for name in ("env-nccl", "env-nvidia", "env-cudnn", "env-cuda-device-order"):
        report = reports[name]
        assert report is not None
        assert (report.kind, report.severity) == (FindingKind.REVIEW, Severity.NOTE)
