"""The numbers of a check by rule: how many places it reports, and how many a migration edits by itself."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import asdict
from rich.cells import cell_len, set_cell_size

from gpu2npu.language import message, shown
from gpu2npu.report.check.causes import group_of
from gpu2npu.report.check.result import SEVERITIES, CheckResult
from gpu2npu.report.text import one_line

_HEAD = (
    *(message("findings"), message("edits"), message("causes"), message("files")),
    *(message("severity"), message("rule")),
)


class RuleStatistics(Struct, frozen=True):
    """One rule: numbers of `findings`, of their causes, of `edits` that a migration makes, and of files with either.
    `severity` is the worst of its findings, "" where it has none."""

    rule: str
    severity: str
    findings: int
    causes: int
    edits: int
    files: int


def statistics_of(result: CheckResult) -> tuple[RuleStatistics, ...]:
    """The rules with something to say, those with the most places first. Findings that a baseline has are left out."""
    found = [(file.path, each.finding) for file, each in result.reported()]
    edited = [(file.path, change.rule) for file in result.files for change in file.changes]
    findings = Counter(finding.rule for _, finding in found)
    edits = Counter(rule for _, rule in edited)
    causes = Counter(rule for rule, _ in {(finding.rule, group_of(finding)) for _, finding in found})
    files = Counter(
        rule for rule, _ in {*((finding.rule, path) for path, finding in found), *((r, p) for p, r in edited)}
    )
    worst: dict[str, int] = {}
    for _, finding in found:
        rank = SEVERITIES.index(finding.severity)
        worst[finding.rule] = min(rank, worst.get(finding.rule, rank))
    entries = (
        RuleStatistics(
            rule,
            SEVERITIES[worst[rule]].value if rule in worst else "",
            findings[rule],
            causes[rule],
            edits[rule],
            files[rule],
        )
        for rule in files
    )
    return tuple(sorted(entries, key=lambda each: (-each.findings - each.edits, each.rule)))


def statistics_text(statistics: Sequence[RuleStatistics]) -> str:
    """A table with a line for each rule; the numbers are to the right."""
    head = [*map(shown, _HEAD)]
    rows = [
        [
            *map(str, (each.findings, each.edits, each.causes, each.files)),
            shown(each.severity) or "-",
            one_line(each.rule),
        ]
        for each in statistics
    ]
    widths = [max(map(cell_len, column)) for column in zip(head, *rows, strict=True)]
    numbers = 4
    lines = (
        "  ".join(
            f"{' ' * (width - cell_len(cell))}{cell}" if column < numbers else set_cell_size(cell, width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (head, *rows)
    )
    return "".join(f"{line}\n" for line in lines)


def statistics_json(statistics: Sequence[RuleStatistics]) -> str:
    return json.dumps([asdict(each) for each in statistics], indent=1) + "\n"
