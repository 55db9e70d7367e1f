"""The rows of change_list.csv that touch what a place of the program executes."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gpu2npu.verify.recording.records import Stack

CHANGE_LIST = "change_list.csv"
_NEAR = 3  # lines


@dataclass(frozen=True)
class ChangeRow:
    """One change of the migration. `number` counts the rows of the file from 1, without its heading."""

    number: int
    path: str
    start: int
    end: int
    message: str
    rule: str
    after: str = ""


def read_changes(migrated: Path) -> tuple[ChangeRow, ...]:
    """The changes that the migration lists in the folder it wrote; none where there is no list."""
    file = migrated / CHANGE_LIST
    if not file.is_file():
        return ()
    with file.open(newline="", encoding="utf-8-sig") as lines:
        return tuple(
            ChangeRow(
                number,
                row["File"],
                int(row["Start Line"]),
                int(row["End Line"]),
                row["Message"],
                row["Rule"],
                row.get("After") or "",
            )
            for number, row in enumerate(csv.DictReader(lines), 1)
            if row.get("Start Line", "").isdigit()
        )


def touching(changes: Iterable[ChangeRow], stack: Stack) -> tuple[ChangeRow, ...]:
    """The changes at or near the lines of a stack in the original, those of the innermost frames first."""
    found: list[ChangeRow] = []
    rows = list(changes)
    for reach in (0, _NEAR):
        for path, line in stack:
            found += [
                row
                for row in rows
                if row.path == path and row.start - reach <= line <= row.end + reach and row not in found
            ]
    return tuple(found)
