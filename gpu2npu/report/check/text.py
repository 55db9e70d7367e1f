"""A check as text for a person: each cause once with its first places, then a summary that starts with what blocks; or
a line for each place, as compilers print them."""

from __future__ import annotations

from collections.abc import Iterator

from gpu2npu.language import message, shown
from gpu2npu.records import FindingKind, Severity
from gpu2npu.report.check.causes import causes_of, shown_names
from gpu2npu.report.check.result import Cause, CheckedFile, CheckedFinding, CheckResult, Effort, Readiness, Verdict
from gpu2npu.report.text import counted, file_and_line, one_line

LABELS = {
    FindingKind.UNSUPPORTED: "unsupported on the NPU",
    FindingKind.UNKNOWN: "not known to be supported",
    FindingKind.FALLBACK: "run on the CPU, slowly",
    FindingKind.REVIEW: "that may mean CUDA, left unchanged",
}
SEVERITY_LABELS = {
    Severity.BLOCKER: "without a replacement",
    Severity.CHANGE: "with a line to write",
    Severity.ENVIRONMENT: "of the environment",
    Severity.ADVICE: "that work and could be better",
    Severity.NOTE: "to know of",
}
_BLOCKED = message("code of the program itself cannot run on the NPU, and nothing takes its place as it is")
VERDICTS = {
    Verdict.READY: "ready to be migrated: a person only has to try the result",
    Verdict.REVIEW: "can be migrated; some places need a look, or a line",
    Verdict.BLOCKED: message(f"blocked: {_BLOCKED}"),
    Verdict.NO_CUDA: "nothing in it is for CUDA",
}
_MOST_BLOCKERS = 10
_HOURS_A_DAY = 8
_HALF_AN_HOUR = 0.5


def text_report(result: CheckResult) -> str:
    """Ends with a newline. Findings that a baseline has are only counted."""
    causes = causes_of(result.places())
    lines = [line for cause in causes for line in _cause_lines(result, cause)]
    lines += failure_lines(result)
    if lines:
        lines.append("")
    return "\n".join((*lines, *summary_lines(result, len(causes)))) + "\n"


def line_report(result: CheckResult) -> str:
    """A line for each place, and nothing else."""
    lines = (*(_finding_line(result, file, found) for file, found in result.reported()), *failure_lines(result))
    return "".join(f"{line}\n" for line in lines)


def _cause_lines(result: CheckResult, cause: Cause) -> Iterator[str]:
    advice = cause.message if len(cause.names) == 1 else cause.advice
    severity, kind = shown(cause.severity.value), shown(cause.kind.value)
    yield one_line(f"{severity}: {shown_names(cause)} [{kind}, {', '.join(cause.rules)}]")
    yield one_line(f"  {shown(advice)}")
    where, more = ", ".join(result.first_places(cause)), ", ..." if cause.has_more else ""
    counts = shown(f"{counted(cause.places, 'place')} in {counted(cause.files, 'file')}")
    yield one_line(f"  {counts}: {where}{more}")


def _finding_line(result: CheckResult, file: CheckedFile, found: CheckedFinding) -> str:
    """Columns count from 1, as editors do."""
    finding = found.finding
    place = f"{file_and_line(file.path, finding.span)}:{finding.span.start_column + 1}"
    words = f"{finding.severity.value}, {finding.kind.value}"
    return one_line(f"{result.shown_root}{place} {finding.rule} [{words}] {finding.api}: {shown(finding.message)}")


def failure_lines(result: CheckResult) -> list[str]:
    """A line for each file that could not be read or parsed."""
    return [one_line(shown(f"{result.shown_root}{path}: not checked: {reason}")) for path, reason in result.failures]


def summary_lines(result: CheckResult, causes: int) -> Iterator[str]:
    """The verdict, with what blocks first, and the numbers; `causes` is how many causes were reported."""
    yield from (one_line(shown(line)) for line in _summary(result, causes))


def _summary(result: CheckResult, causes: int) -> Iterator[str]:
    readiness = result.readiness
    facts = ", ".join((f"PyTorch {result.version}", result.evidence, *(f"Ascend{chip}" for chip in result.chips)))
    yield f"{result.name}: {shown(VERDICTS[readiness.verdict])} ({shown(facts)})"
    if result.failures:
        yield f"The verdict is without what could not be read: {counted(len(result.failures), 'path')}."
    if readiness.plugin:
        yield readiness.plugin
    if readiness.apart:
        yield apart(readiness)
    if readiness.blockers:
        yield "Blockers, the most used first:"
        for blocker in readiness.blockers[:_MOST_BLOCKERS]:
            yield f"  {blocker.places} x {shown_names(blocker)}, first at {result.first_places(blocker)[0]}"
        if len(readiness.blockers) > _MOST_BLOCKERS:
            yield f"  and {counted(len(readiness.blockers) - _MOST_BLOCKERS, 'other')}"
    kernels = result.native.kernels - result.native.apart
    if kernels:
        yield f"CUDA kernels of the program's own, to be written for an NPU: {kernels}"
    if readiness.uses:
        automatic, review, blocking = (
            f"{readiness.share(count):.0%}" for count in (readiness.automatic, readiness.review, readiness.blocking)
        )
        shares = f"{automatic} are migrated automatically, {review} need a look, {blocking} block"
        yield f"Uses of CUDA: {readiness.uses}, of which {shares}"
    if readiness.effort.reasons:
        yield from _effort_lines(readiness.effort)
    if readiness.effort.apart:
        yield f"Apart from the program, and not included: {hours_range(Effort(readiness.effort.apart))}"
    by_severity = ", ".join(
        f"{count} {shown(SEVERITY_LABELS[severity])}" for severity, count in result.severities.items() if count
    )
    total, files = counted(sum(result.counts.values()), "finding"), counted(len(result.files), "file")
    if causes:
        having = counted(sum(bool(file.reported) for file in result.files), "file")
        yield f"{total} of {counted(causes, 'cause')} in {having} ({len(result.files)} looked at): {by_severity}"
    else:
        yield f"No findings in {files}"
    if result.known:
        yield f"Not listed: {counted(result.known, 'finding')} of the baseline"
    if result.expired:
        entries = counted(result.expired, "entry", "entries")
        yield f"{entries} of the baseline matched no finding (--update-baseline removes what matches none)"


def _effort_lines(effort: Effort) -> Iterator[str]:
    """The hours that the code adds, with their largest parts, and apart from them those that every project takes."""
    own = effort.of_code
    if own.high >= _HALF_AN_HOUR:
        yield f"Effort: {hours_range(effort)}, a rule of thumb; the largest parts:"
        for reason in own.reasons[:3]:
            if reason.high >= _HALF_AN_HOUR:
                yield f"  {reason.low:.0f} to {reason.high:.0f} h for {shown(reason.about)}: {reason.count}"
    else:
        yield f"Effort: {hours_range(effort)}, a rule of thumb; the code itself adds next to nothing"
    for reason in effort.reasons:
        if reason.constant:
            yield f"  {reason.low:.0f} to {reason.high:.0f} h to try and compare the result, as for every project"


def apart(readiness: Readiness) -> str:
    """The sentence about what would block, and is apart from the program."""
    listed = ", ".join(f"{count} in {part.value}" for part, count in readiness.apart)
    return f"What is apart from the program does not block it: {listed}."


def hours_range(effort: Effort) -> str:
    """A range of person-hours, and of days where it is long."""
    text = f"{effort.low:.0f} to {effort.high:.0f} person-hours"
    if effort.high < 2 * _HOURS_A_DAY:
        return text
    return f"{text} ({effort.low / _HOURS_A_DAY:.1f} to {effort.high / _HOURS_A_DAY:.1f} days)"
