"""Sums a migration up: its numbers, its largest causes, and what to open and to do next."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from gpu2npu.language import message, shown
from gpu2npu.records import KNOWS_NPUS, AdviceKind, Finding, FindingKind, Outcome
from gpu2npu.report.check.causes import causes_of, shown_names
from gpu2npu.report.check.result import Part
from gpu2npu.report.tables import CHANGE_LIST, FINDING_GROUPS
from gpu2npu.report.text import counted, file_and_line, one_line

_FINDING_LABELS = {
    FindingKind.UNSUPPORTED: message("  unsupported on the NPU"),
    FindingKind.FALLBACK: message("  slow, run on the CPU"),
    FindingKind.UNKNOWN: message("  not known to be supported"),
    FindingKind.REVIEW: message("  to be looked at by a person"),
}
_SCRIPT = message("SCRIPT.py  # a script that trains")
_LARGEST = 3  # causes that the summary names
_ENTRIES = ("train.py", "main.py", "run.py")  # what a script that trains is mostly called


def summary_rows(outcome: Outcome) -> list[tuple[str, str]]:
    """Label and value of each line of the summary."""
    failed = sum(file.failure is not None for file in outcome.files) + sum(note.failed for note in outcome.notes)
    python = [file for file in outcome.files if file.path.endswith(".py")]
    others = [file for file in outcome.files if not file.path.endswith(".py")]
    unchanged = sum(file.content is None and file.failure is None for file in python)
    kinds = Counter(finding.kind for _, finding in _findings(outcome))
    # One for each row of the tables: what makes training wait has one row for each cause in the project.
    advice = {
        (each.rule,) if each.kind is AdviceKind.PERFORMANCE else (each.rule, file.path, each.span, each.api)
        for file in outcome.files
        for each in file.advice
    }
    rows = [
        (message("Python files"), len(python)),
        (message("  migrated"), sum(file.content is not None for file in python)),
        (message("  unchanged"), unchanged),
        (message("Other files"), len(outcome.copied) + len(others)),
        (message("  migrated"), sum(file.content is not None for file in others)),
        (message("Could not be migrated or copied"), failed),
        (message("Changes"), sum(len(file.changes) for file in outcome.files)),
        (message("Findings"), sum(kinds.values())),
        *((label, kinds[kind]) for kind, label in _FINDING_LABELS.items()),
        (message("Advice: could be faster or more precise"), len(advice)),
    ]
    return [*((label, str(value)) for label, value in rows), (message("Seconds"), f"{outcome.seconds:.2f}")]


def _findings(outcome: Outcome) -> Iterator[tuple[str, Finding]]:
    """Yield the findings of the files that could be read, as a check counts them."""
    for file in outcome.files:
        yield from ((file.path, finding) for finding in file.findings if file.failure is None)


def largest_causes(outcome: Outcome) -> Iterator[str]:
    """Sentences about files that know NPUs and about all findings, and a line for each of the largest causes."""
    knowing = sum(KNOWS_NPUS in file.traits for file in outcome.files)
    if knowing:
        yield f"{counted(knowing, 'file')} with code for NPUs already: what is for CUDA beside it stays as it is."
    found = list(_findings(outcome))
    causes = causes_of((path, finding, Part.PROGRAM) for path, finding in found)
    if not causes:
        return
    places = counted(sum(cause.places for cause in causes), "finding")
    files = counted(len({path for path, _ in found}), "file")
    looked_at = outcome.looked_into
    yield f"{places} of {counted(len(causes), 'cause')} in {files} ({looked_at} looked at). The largest causes:"
    for cause in causes[:_LARGEST]:
        yield f"  {cause.places} x {shown_names(cause)}, first at {cause.first[0]}"


def next_steps(outcome: Outcome, source: str, destination: str) -> Iterator[str]:
    """The two files to open first, and the command to run next, for what was written to `destination`."""
    if any(file.findings for file in outcome.files):
        files = f"{FINDING_GROUPS} (what is left to do, each cause once) and {CHANGE_LIST}, in {destination}"
        yield f"Open first: {files}; their line numbers are those of {source}"
    place, copy = shlex.quote(source), shlex.quote(destination)
    if Path(source).is_file():
        yield f"Next: cd {copy} && gpu2npu run {shlex.quote(Path(source).name)}"
        return
    script = next((entry for entry in _ENTRIES if any(file.path == entry for file in outcome.files)), _SCRIPT)
    yield f"Next: gpu2npu verify -i {place} --migrated {copy} -- {script}"


def finding_lines(outcome: Outcome) -> Iterator[tuple[str, str]]:
    """The place and the words of each finding, for `--diff --findings`."""
    for file in outcome.files:
        for finding in sorted(file.findings, key=lambda each: (each.span, each.rule)):
            kind = f"{shown(finding.severity.value)} [{finding.rule}]"
            yield one_line(f"{file_and_line(file.path, finding.span)}: {kind} {finding.api}"), finding.message


def problem_lines(outcome: Outcome) -> list[tuple[str, bool]]:
    """One line for each path that is not in the output as it should be or was left out, and whether it is a failure."""
    problems = [
        *((note.path, note.reason, note.failed) for note in outcome.notes),
        *((file.path, file.failure, True) for file in outcome.files if file.failure is not None),
    ]
    return [(one_line(f"{path}: {reason}"), failed) for path, reason, failed in sorted(problems)]
