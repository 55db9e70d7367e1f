"""How far a project is, and what the rest may cost. The weights are judgement and not measured: docs/check.md."""

from __future__ import annotations

from collections.abc import Iterable

from gpu2npu.records import Finding, FindingKind, Operation
from gpu2npu.report.check_result import Blocker, CheckedFile, Effort, NativeCode, Readiness, Reason, Verdict

# Person-hours, from and to: for each distinct API that findings of a kind are about, and for each further place.
_HOURS = {
    FindingKind.UNSUPPORTED: ((2.0, 16.0), (0.1, 0.5)),
    FindingKind.UNKNOWN: ((0.5, 2.0), (0.02, 0.1)),
    FindingKind.FALLBACK: ((0.5, 4.0), (0.02, 0.1)),
    FindingKind.REVIEW: ((0.25, 1.0), (0.02, 0.1)),
}
_ABOUT = {
    FindingKind.UNSUPPORTED: "places that do not work on the NPU",
    FindingKind.UNKNOWN: "places that are not known to work",
    FindingKind.FALLBACK: "places that run on the CPU",
    FindingKind.REVIEW: "places to be reviewed",
}
_TRYING = (4.0, 16.0)  # install, run the migrated program, compare its results with those on a GPU
_READING = (0.01, 0.03)  # look over one automatic change
_FAILURE = (0.25, 2.0)  # find out why a file cannot be read
_KERNEL = (8.0, 40.0)  # write a CUDA kernel anew for an NPU, or find its equivalent
_OPERATOR = (0.5, 2.0)  # connect what the extension exports to it


def readiness(files: Iterable[CheckedFile], native: NativeCode = NativeCode()) -> Readiness:  # noqa: B008 - it is frozen
    """The verdict over all files of a check."""
    checked = list(files)
    findings = [(file, found.finding, found.line) for file in checked for found in file.findings]
    automatic = sum(_automatic(file) for file in checked)
    blocking = sum(finding.kind is FindingKind.UNSUPPORTED for _, finding, _ in findings)
    failures = sum(file.failure is not None for file in checked)
    uses = automatic + len(findings)
    if blocking or native.kernels:
        verdict = Verdict.BLOCKED
    elif findings or failures:
        verdict = Verdict.REVIEW
    else:
        verdict = Verdict.READY if uses else Verdict.NO_CUDA
    effort = Effort(_reasons([finding for _, finding, _ in findings], automatic, failures, native))
    return Readiness(verdict, automatic, len(findings) - blocking, blocking, effort, _blockers(findings))


def _automatic(file: CheckedFile) -> int:
    """The edits of uses: not what is inserted beside them, nor what a finding on the same place is still about."""
    told = {(found.finding.span.cell, found.finding.span.start_line, found.finding.rule) for found in file.findings}
    return sum(
        change.operation is not Operation.INSERT and (change.span.cell, change.span.start_line, change.rule) not in told
        for change in file.changes
    )


def _reasons(findings: list[Finding], automatic: int, failures: int, native: NativeCode) -> tuple[Reason, ...]:
    reasons = []
    for kind, (first, further) in _HOURS.items():
        places = [finding for finding in findings if finding.kind is kind]
        distinct = len({(finding.rule, finding.api) for finding in places})
        low, high = (distinct * one + (len(places) - distinct) * more for one, more in zip(first, further, strict=True))
        reasons.append(Reason(_ABOUT[kind], len(places), low, high))
    reasons.append(_times("kernels to be written for an NPU", native.kernels, _KERNEL))
    reasons.append(_times("operators that extensions export", native.operators, _OPERATOR))
    reasons.append(_times("files that could not be read", failures, _FAILURE))
    reasons.append(_times("automatic changes to look over", automatic, _READING))
    if any(reason.count for reason in reasons):
        reasons.append(_times("migrated project to try and compare", 1, _TRYING))
    return tuple(
        sorted((reason for reason in reasons if reason.count), key=lambda reason: (-reason.high, reason.about))
    )


def _times(about: str, count: int, hours: tuple[float, float]) -> Reason:
    return Reason(about, count, count * hours[0], count * hours[1])


def _blockers(findings: list[tuple[CheckedFile, Finding, int]]) -> tuple[Blocker, ...]:
    places: dict[tuple[str, str], list[tuple[str, int, str]]] = {}
    for file, finding, line in findings:
        if finding.kind is FindingKind.UNSUPPORTED:
            places.setdefault((finding.rule, finding.api), []).append((file.path, line, finding.message))
    blockers = []
    for (rule, api), found in places.items():
        path, line, message = min(found)
        blockers.append(Blocker(rule, api, message, len(found), f"{path}:{line}"))
    return tuple(sorted(blockers, key=lambda blocker: (-blocker.count, blocker.rule, blocker.api)))
