"""A check as one web page that needs nothing else: no network, no other file. For a phone too, and in the dark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpu2npu.language import message, shown
from gpu2npu.records import FindingKind
from gpu2npu.report.check.causes import causes_of, shown_names
from gpu2npu.report.check.result import KINDS, CheckedFile, CheckResult, Readiness, Verdict
from gpu2npu.report.check.text import LABELS, SEVERITY_LABELS, VERDICTS, apart, hours_range
from gpu2npu.report.text import counted, file_and_line
from gpu2npu.report.webpage import embedded_json, render

SHARES = (
    ("automatic", message("migrated automatically")),
    ("review", "to be looked at"),
    ("blocking", message("blocking")),
)
VERDICT_WORDS = {
    Verdict.READY: message("ready"),
    Verdict.REVIEW: message("needs a look"),
    Verdict.BLOCKED: message("blocked"),
    Verdict.NO_CUDA: "no CUDA",
}


def page(result: CheckResult) -> str:
    """The page of one project. Findings that a baseline has are only counted."""
    listed = [file for file in result.files if file.changes or file.reported or file.failure is not None]
    evidence = ", ".join((result.evidence, *(f"Ascend{chip}" for chip in result.chips)))
    quiet = len(result.files) - len(listed)
    return render(
        "check.html",
        title=shown(f"{result.name} on an NPU"),
        result=result,
        verdict=VERDICT_WORDS[result.readiness.verdict],
        sentence=VERDICTS[result.readiness.verdict].removeprefix("blocked: "),
        shares=shares_of(result.readiness),
        plugin=result.readiness.plugin,
        apart=apart(result.readiness) if result.readiness.apart else "",
        severities=[(each.value, SEVERITY_LABELS[each], count) for each, count in result.severities.items()],
        causes=[(cause, shown_names(cause)) for cause in causes_of(result.places())],
        kinds=[(kind.value, LABELS[kind], result.counts[kind]) for kind in KINDS],
        rows=[_row(file) for file in listed],
        facts=shown(
            f"For PyTorch {result.version}, by {evidence}."
            f" Checked {counted(len(result.files), 'file')} with gpu2npu {result.tool_version}."
        ),
        unread=shown(f"The verdict is without what could not be read: {counted(len(result.failures), 'path')}.")
        if result.failures
        else "",
        effort=hours_range(result.readiness.effort),
        quiet=shown(f"{counted(quiet, 'other file')} with nothing to change and no findings.") if quiet else "",
        data=embedded_json([_details(file) for file in listed]),
    )


def shares_of(readiness: Readiness) -> list[tuple[str, str, int, float]]:
    """The uses of CUDA of one project by what becomes of them, as in shares_of_all."""
    return shares_of_all([getattr(readiness, name) for name, _ in SHARES])


def shares_of_all(counts: Sequence[int]) -> list[tuple[str, str, int, float]]:
    """Name, label, count and percentage of each part of all uses of CUDA."""
    uses = sum(counts)
    return [
        (name, label, count, 100 * count / uses if uses else 0.0)
        for (name, label), count in zip(SHARES, counts, strict=True)
    ]


def _row(file: CheckedFile) -> dict[str, Any]:
    counts = {kind: sum(found.kind is kind for found in file.reported) for kind in KINDS}
    return {
        "path": file.path,
        "lines": file.lines,
        "changes": len(file.changes),
        "failure": file.failure,
        "counts": [(kind.value, counts[kind]) for kind in KINDS],
        "kinds": " ".join(kind.value for kind in FindingKind if counts.get(kind)),
    }


def _details(file: CheckedFile) -> dict[str, Any]:
    """Return what the page shows of a file when it is opened."""
    findings = [
        {
            "where": file_and_line(file.path, found.finding.span),
            "kind": found.kind.value,
            "severity": found.finding.severity.value,
            "rule": found.finding.rule,
            "api": found.finding.api,
            "message": shown(found.finding.message),
            "first": found.context_start,
            "line": found.finding.span.start_line,
            "code": found.context,
        }
        for found in file.reported
    ]
    return {"path": file.path, "failure": file.failure, "findings": findings, "diff": file.diff}
