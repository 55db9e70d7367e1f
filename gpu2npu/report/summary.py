"""The numbers that sum a migration up."""

from __future__ import annotations

from collections import Counter

from gpu2npu.records import FindingKind, Outcome
from gpu2npu.report.text import one_line

_FINDING_LABELS = {
    FindingKind.UNSUPPORTED: "Findings: unsupported on the NPU",
    FindingKind.FALLBACK: "Findings: slow, run on the CPU",
    FindingKind.UNKNOWN: "Findings: not known to be supported",
    FindingKind.REVIEW: "Findings: to be reviewed by a person",
}


def summary_rows(outcome: Outcome) -> list[tuple[str, str]]:
    """Label and value of each line of the summary."""
    failed = sum(file.failure is not None for file in outcome.files) + sum(note.failed for note in outcome.notes)
    python = [file for file in outcome.files if file.path.endswith(".py")]
    others = [file for file in outcome.files if not file.path.endswith(".py")]
    unchanged = sum(file.content is None and file.failure is None for file in python)
    kinds = Counter(finding.kind for file in outcome.files for finding in file.findings)
    rows = [
        ("Python files", len(python)),
        ("  migrated", sum(file.content is not None for file in python)),
        ("  unchanged", unchanged),
        ("Other files", len(outcome.copied) + len(others)),
        ("  migrated", sum(file.content is not None for file in others)),
        ("Could not be migrated or copied", failed),
        ("Changes", sum(len(file.changes) for file in outcome.files)),
        *((label, kinds[kind]) for kind, label in _FINDING_LABELS.items()),
        ("Advice: could be faster or more precise", sum(len(file.advice) for file in outcome.files)),
    ]
    return [*((label, str(value)) for label, value in rows), ("Seconds", f"{outcome.seconds:.2f}")]


def problem_lines(outcome: Outcome) -> list[tuple[str, bool]]:
    """One line for each path that is not in the output as it should be or was left out, and whether it is a failure."""
    problems = [
        *((note.path, note.reason, note.failed) for note in outcome.notes),
        *((file.path, file.failure, True) for file in outcome.files if file.failure is not None),
    ]
    return [(one_line(f"{path}: {reason}"), failed) for path, reason, failed in sorted(problems)]
