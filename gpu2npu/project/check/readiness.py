"""Judges how far a project is, and what the rest may cost.

The weights are judgement and not measured: docs/check.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from gpu2npu.records import FindingKind, Operation, Severity
from gpu2npu.report.check.causes import causes_of, is_open
from gpu2npu.report.check.result import Cause, CheckedFile, Effort, NativeCode, Part, Readiness, Reason, Verdict

_Hours = tuple[float, float]

# Person-hours, from and to: for the first place of a cause, and for each further one. Notes cost none.
_HOURS: dict[Severity, tuple[_Hours, _Hours]] = {
    Severity.BLOCKER: ((2.0, 16.0), (0.1, 0.5)),
    Severity.CHANGE: ((0.25, 1.0), (0.05, 0.2)),
    Severity.ENVIRONMENT: ((0.25, 1.0), (0.02, 0.1)),
    Severity.ADVICE: ((0.1, 1.0), (0.01, 0.05)),
}
_UNKNOWN: tuple[_Hours, _Hours] = ((0.25, 1.0), (0.02, 0.1))  # try it
_TRYING = (4.0, 16.0)  # install, run the migrated program, compare its results with those on a GPU
_READING = (0.01, 0.03)  # look over one automatic change
_FAILURE = (0.25, 2.0)  # find out why a file cannot be read
_KERNEL = (8.0, 40.0)  # write a CUDA kernel anew for an NPU, or find its equivalent
_OPERATOR = (0.5, 2.0)  # connect what the extension exports to it
_NAMED = 3  # names of a cause that a reason shows


def readiness(
    files: Iterable[CheckedFile],
    native: NativeCode = NativeCode(),  # noqa: B008 - it is frozen
    plugin: str = "",
    unread: int = 0,
) -> Readiness:
    """The verdict over all files of a check. With a `plugin` that takes the place of what blocks, nothing does.

    `unread` is how many paths besides these files could not be looked at: a verdict without them is not "ready".
    """
    checked = list(files)
    found = [(file.path, each.finding, each.part) for file in checked for each in file.findings]
    blockers = Counter(part for _, finding, part in found if finding.severity is Severity.BLOCKER)
    automatic = sum(_automatic(file) for file in checked)
    blocking = blockers.pop(Part.PROGRAM, 0)
    failures = sum(file.failure is not None for file in checked) + unread
    causes = causes_of(found)
    kernels = native.kernels - native.apart
    stops, unresolved = (0, blocking + kernels) if plugin else (blocking + kernels, 0)
    if plugin and unresolved:
        plugin = f"{plugin} Without it {unresolved} places would block."
    return Readiness(
        _verdict(causes, stops, automatic + len(found), failures + native.apart + unresolved),
        automatic,
        len(found) - blocking,
        blocking,
        Effort(_reasons(causes, automatic, failures, native), _reasons_apart(causes, native)),
        tuple(cause for cause in causes if cause.blocks),
        tuple((part, blockers[part]) for part in Part if blockers[part]),
        plugin,
    )


def _verdict(causes: Iterable[Cause], blocking: int, uses: int, unresolved: int) -> Verdict:
    if blocking:
        return Verdict.BLOCKED
    if unresolved or any(is_open(cause.kind, cause.severity) for cause in causes):
        return Verdict.REVIEW
    return Verdict.READY if uses else Verdict.NO_CUDA


def _automatic(file: CheckedFile) -> int:
    """The edits of uses: not what is inserted beside them, nor what a finding on the same place is still about."""
    reported = {(found.finding.span.cell, found.finding.span.start_line, found.finding.rule) for found in file.findings}
    return sum(
        change.operation is not Operation.INSERT
        and (change.span.cell, change.span.start_line, change.rule) not in reported
        for change in file.changes
    )


def _reasons(causes: Sequence[Cause], automatic: int, failures: int, native: NativeCode) -> tuple[Reason, ...]:
    """Each cause in the program once, and what does not depend on findings; the largest first."""
    own = ((cause, _program_places(cause)) for cause in causes)
    reasons = [_of_cause(cause, places) for cause, places in own if places]
    kernels = native.kernels - native.apart
    reasons.append(_times("kernels to be written for an NPU", kernels, _KERNEL))
    reasons.append(_times("operators that extensions export", native.operators * _is_built(native), _OPERATOR))
    reasons.append(_times("files that could not be read", failures, _FAILURE))
    reasons.append(_times("automatic changes to look over", automatic, _READING))
    if causes or native.kernels or any(reason.count for reason in reasons):
        reasons.append(replace(_times("migrated project to try and compare", 1, _TRYING), constant=True))
    return _largest_first(reasons)


def _reasons_apart(causes: Sequence[Cause], native: NativeCode) -> tuple[Reason, ...]:
    """Causes that the program has no place of, and kernels that it does not need."""
    reasons = [_of_cause(cause, cause.places) for cause in causes if not _program_places(cause)]
    reasons.append(_times("kernels to be written for an NPU", native.apart, _KERNEL))
    reasons.append(_times("operators that extensions export", native.operators * (not _is_built(native)), _OPERATOR))
    return _largest_first(reasons)


def _program_places(cause: Cause) -> int:
    return dict(cause.parts).get(Part.PROGRAM, 0)


def _is_built(native: NativeCode) -> bool:
    """Return whether the program builds its extension: where all kernels are apart, what it exports is, too."""
    return not native.kernels or native.kernels > native.apart


def _largest_first(reasons: Iterable[Reason]) -> tuple[Reason, ...]:
    wanted = (reason for reason in reasons if reason.count and reason.high)
    return tuple(sorted(wanted, key=lambda reason: (-reason.high, reason.about)))


def _of_cause(cause: Cause, places: int) -> Reason:
    names = ", ".join(name for name, _ in cause.names[:_NAMED])
    more = f" and {len(cause.names) - _NAMED} more" if len(cause.names) > _NAMED else ""
    unknown = cause.kind is FindingKind.UNKNOWN and cause.severity is Severity.NOTE
    hours = _UNKNOWN if unknown else _HOURS.get(cause.severity)
    about = f"{'unknown' if unknown else cause.severity.value} {names}{more}"
    if hours is None:
        return Reason(about, places, 0.0, 0.0, "a note", cause.group)
    one, further = hours
    low, high = (round(first + (places - 1) * each, 2) for first, each in zip(one, further, strict=True))
    basis = f"{_span(one)} h for the first place, {_span(further)} h for each further one"
    return Reason(about, places, low, high, basis, cause.group)


def _times(about: str, count: int, hours: _Hours) -> Reason:
    return Reason(about, count, round(count * hours[0], 2), round(count * hours[1], 2), f"{_span(hours)} h each")


def _span(hours: _Hours) -> str:
    return f"{hours[0]:g} to {hours[1]:g}"
