"""The verdict of a project and what the rest costs: each cause once."""

import pytest
from msgspec.structs import replace

from gpu2npu.project.check.readiness import readiness
from gpu2npu.records import Finding, FindingKind, Severity, Span
from gpu2npu.report.check.causes import causes_of
from gpu2npu.report.check.result import CheckedFile, CheckedFinding, NativeCode, Part, Verdict

BLOCKER = Finding(Span(1, 0, 1, 4), "package-x", FindingKind.UNSUPPORTED, "x", "Use y.", Severity.BLOCKER)
CHANGE = replace(BLOCKER, severity=Severity.CHANGE, rule="npu-limit", api="torch.Tensor.double")
NOTE = replace(BLOCKER, severity=Severity.NOTE, kind=FindingKind.REVIEW)
UNKNOWN = replace(NOTE, kind=FindingKind.UNKNOWN)


def file(*findings: Finding, part: Part = Part.PROGRAM, path: str = "a.py") -> CheckedFile:
    found = (CheckedFinding(each, 1, "", (), 1, "", "0" * 32, part=part) for each in findings)
    return CheckedFile(path, 1, findings=tuple(found))


@pytest.mark.parametrize(
    ("files", "verdict"),
    [
        ([file(BLOCKER)], Verdict.BLOCKED),
        ([file(CHANGE)], Verdict.REVIEW),
        ([file(UNKNOWN)], Verdict.REVIEW),
        ([file(NOTE)], Verdict.READY),
        ([file()], Verdict.NO_CUDA),
        *(([file(BLOCKER, part=part)], Verdict.REVIEW) for part in Part if part is not Part.PROGRAM),
        ([file(BLOCKER, part=Part.TESTS), file(BLOCKER)], Verdict.BLOCKED),
    ],
)
def test_only_blockers_in_the_program_block_it(files: list[CheckedFile], verdict: Verdict) -> None:
    assert readiness(files).verdict is verdict


def test_kernels_block_unless_they_are_apart() -> None:
    assert readiness([], NativeCode(kernels=2, apart=1)).verdict is Verdict.BLOCKED
    assert readiness([], NativeCode(kernels=2, apart=2)).verdict is Verdict.REVIEW


def test_what_is_apart_is_counted_by_part() -> None:
    ready = readiness([file(BLOCKER, BLOCKER, part=Part.TESTS), file(BLOCKER, part=Part.CI), file(BLOCKER)])
    assert ready.apart == ((Part.TESTS, 2), (Part.CI, 1))
    assert (ready.blocking, ready.review) == (1, 3)


def test_a_cause_is_paid_once_and_its_places_little() -> None:
    one, more = readiness([file(CHANGE)]), readiness([file(CHANGE, CHANGE), file(CHANGE, path="b.py")])
    (first,) = [reason for reason in one.effort.reasons if reason.about.startswith("change")]
    (third,) = [reason for reason in more.effort.reasons if reason.about.startswith("change")]
    assert (first.low, first.high) == (0.25, 1.0)
    assert (third.count, third.low, round(third.high, 6)) == (3, 0.25 + 2 * 0.05, 1.4)
    assert third.basis == "0.25 to 1 h for the first place, 0.05 to 0.2 h for each further one"
    assert [reason.high for reason in more.effort.reasons] == sorted(
        (r.high for r in more.effort.reasons), reverse=True
    )


def test_what_stands_apart_is_in_no_sum() -> None:
    ready = readiness([file(BLOCKER, part=Part.TESTS)], NativeCode(kernels=3, apart=3, operators=2))
    assert [reason.about for reason in ready.effort.reasons] == ["migrated project to try and compare"]
    assert [(reason.count, reason.high) for reason in ready.effort.apart] == [(3, 120.0), (1, 16.0), (2, 4.0)]
    mixed = readiness([file(BLOCKER), file(BLOCKER, part=Part.TESTS)], NativeCode(kernels=3, apart=1, operators=2))
    counts = {reason.about: reason.count for reason in mixed.effort.reasons}
    assert counts["kernels to be written for an NPU"] == 2 and counts["operators that extensions export"] == 2
    assert counts["blocker x"] == 1
    assert [(reason.about, reason.count) for reason in mixed.effort.apart] == [("kernels to be written for an NPU", 1)]


def test_one_advice_is_one_cause_whatever_the_api() -> None:
    one = replace(CHANGE, message="aten::a is not registered. Use float32.", advice="Use float32.")
    other = replace(one, api="torch.mm", message="aten::b is not registered. Use float32.")
    blocker, change = causes_of(("a.py", finding, Part.PROGRAM) for finding in (one, other, one, BLOCKER))
    assert (blocker.blocks, change.blocks) == (True, False)
    assert change.names == (("torch.Tensor.double", 2), ("torch.mm", 1))
    assert (change.places, change.files, change.first, change.advice) == (3, 1, ("a.py:1",), "Use float32.")
    assert blocker.group != change.group
