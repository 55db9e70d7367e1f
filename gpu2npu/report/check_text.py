"""A check as text for a person: a line a finding, as ruff prints them, then a summary that starts with what blocks."""

from __future__ import annotations

from collections.abc import Iterator

from gpu2npu.records import FindingKind
from gpu2npu.report.check_result import SEVERITY, CheckedFile, CheckedFinding, CheckResult, Effort, Verdict
from gpu2npu.report.text import counted, file_and_cell, one_line

LABELS = {
    FindingKind.UNSUPPORTED: "unsupported on the NPU",
    FindingKind.UNKNOWN: "not known to be supported",
    FindingKind.FALLBACK: "run on the CPU, slowly",
    FindingKind.REVIEW: "to be reviewed by a person",
}
VERDICTS = {
    Verdict.READY: "ready to be migrated: nothing is left to a person but to try it",
    Verdict.REVIEW: "can be migrated; some places need a look first",
    Verdict.BLOCKED: "blocked: something in it does not work on the NPU and has to be written anew",
    Verdict.NO_CUDA: "nothing in it is for CUDA",
}
_MOST_BLOCKERS = 10
_HOURS_A_DAY = 8


def text_report(result: CheckResult) -> str:
    """Ends with a newline. Findings that a baseline has are only counted."""
    lines = [_finding_line(result, file, found) for file, found in result.reported()]
    lines += [one_line(f"{result.shown_root}{path}: not checked: {reason}") for path, reason in result.failures]
    if lines:
        lines.append("")
    return "\n".join((*lines, *_summary(result))) + "\n"


def _finding_line(result: CheckResult, file: CheckedFile, found: CheckedFinding) -> str:
    """Columns count from 1, as editors do."""
    finding = found.finding
    place = f"{file_and_cell(file.path, finding.span)}:{finding.span.start_line}:{finding.span.start_column + 1}"
    return one_line(
        f"{result.shown_root}{place} {finding.rule} [{finding.kind.value}] {finding.api}: {finding.message}"
    )


def _summary(result: CheckResult) -> Iterator[str]:
    readiness = result.readiness
    yield one_line(f"{result.name}: {VERDICTS[readiness.verdict]} (PyTorch {result.version}, {result.evidence})")
    if readiness.blockers:
        yield "Blockers, the most used first:"
        for blocker in readiness.blockers[:_MOST_BLOCKERS]:
            yield one_line(f"  {blocker.count} x {blocker.api} ({blocker.rule}), first at {blocker.place}")
        if len(readiness.blockers) > _MOST_BLOCKERS:
            yield f"  and {counted(len(readiness.blockers) - _MOST_BLOCKERS, 'other')}"
    if readiness.uses:
        automatic, review, blocking = (
            f"{readiness.share(count):.0%}" for count in (readiness.automatic, readiness.review, readiness.blocking)
        )
        shares = f"{automatic} are migrated automatically, {review} need a look, {blocking} block"
        yield f"Uses of CUDA: {readiness.uses}, of which {shares}"
    if readiness.effort.reasons:
        yield f"Effort: {hours_range(readiness.effort)}, a rule of thumb; the largest parts:"
        for reason in readiness.effort.reasons[:3]:
            yield f"  {reason.low:.0f} to {reason.high:.0f} h for {reason.about}: {reason.count}"
    by_kind = ", ".join(f"{result.counts[kind]} {LABELS[kind]}" for kind in SEVERITY if result.counts[kind])
    total, files = counted(sum(result.counts.values()), "finding"), counted(len(result.files), "file")
    yield f"{total} in {files}" + (f": {by_kind}" if by_kind else "")
    if result.known:
        yield f"Not listed: {counted(result.known, 'finding')} of the baseline"
    if result.expired:
        entries = counted(result.expired, "entry", "entries")
        yield f"{entries} of the baseline met nothing (--update-baseline removes what meets nothing)"


def hours_range(effort: Effort) -> str:
    """A range of person-hours, and of days where it is long."""
    text = f"{effort.low:.0f} to {effort.high:.0f} person-hours"
    if effort.high < 2 * _HOURS_A_DAY:
        return text
    return f"{text} ({effort.low / _HOURS_A_DAY:.1f} to {effort.high / _HOURS_A_DAY:.1f} days)"
