"""All tables of one report as a workbook, or as a folder of Parquet or CSV files, by pandas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from gpu2npu.language import shown
from gpu2npu.records import Outcome
from gpu2npu.report.check.causes import causes_of, shown_names
from gpu2npu.report.check.result import CheckResult
from gpu2npu.report.check.rollup_tables import csv_table, excel_workbook, parquet_table
from gpu2npu.report.tables import CHANGE_LIST, FINDING_GROUPS, HEADERS, PLACE_HEADER, change_rows, place_rows, rows_of
from gpu2npu.report.text import encodable

_MEASURED = ("error", "tolerance", "units")  # numbers, or "inf" and "nan"


def frames_of_migration(outcome: Outcome) -> dict[str, pd.DataFrame]:
    """The tables of a migration, those of its CSV files."""
    return {name.removesuffix(".csv"): _frame(HEADERS[name], rows) for name, rows in rows_of(outcome).items()}


def frames_of_check(result: CheckResult) -> dict[str, pd.DataFrame]:
    """The findings of a check, their causes, and what a migration changes by itself."""
    causes = [
        (
            *(cause.group, cause.severity.value, cause.kind.value, shown_names(cause), shown(cause.advice)),
            *(", ".join(cause.rules), cause.places, cause.files, ", ".join(cause.first)),
        )
        for cause in causes_of(result.places())
    ]
    return {
        "causes": _frame(HEADERS[FINDING_GROUPS], causes),
        "findings": _frame(PLACE_HEADER, place_rows(result.places())),
        "changes": _frame(HEADERS[CHANGE_LIST], change_rows(result.files)),
    }


def frame_of_verification(document: Mapping[str, Any]) -> pd.DataFrame:
    """A row for each place and step of what `gpu2npu verify --format json` prints."""
    header = ("Kind", "Place", "Step", "Error", "Tolerance", "Error in Tolerances", "Original", "Migrated")
    rows = [
        (place["kind"], place["name"], step["step"], *(float(step[key]) for key in _MEASURED), *_code(step))
        for place in document["places"]
        for step in place["steps"]
    ]
    return _frame(header, rows)


def _code(step: Mapping[str, Any]) -> tuple[str, str]:
    """The innermost line of the project on each side; "" where there is none."""
    first, second = (next(iter(step[side]["stack"]), "") for side in ("original", "migrated"))
    return first, second


def write_frame(frame: pd.DataFrame, file: Path) -> None:
    """Write a table as the ending of the file says, .xlsx, .parquet or .csv. Raises OSError."""
    if file.suffix == ".xlsx":
        content = excel_workbook({"places": frame})
    else:
        content = csv_table(frame) if file.suffix == ".csv" else parquet_table(frame)
    file.write_bytes(content)


def _frame(header: Sequence[str], rows: Sequence[tuple[str | float, ...]]) -> pd.DataFrame:
    plain = [tuple(encodable(cell) if isinstance(cell, str) else cell for cell in row) for row in rows]
    table: pd.DataFrame = pd.DataFrame(plain, columns=list(header))
    return table


def write_frames(frames: Mapping[str, pd.DataFrame], form: str, place: Path) -> Path:
    """Write the tables as `form` to PLACE.xlsx, or into the folder PLACE; returns what was written. Raises OSError."""
    if form == "xlsx":
        file = place.parent / f"{place.name}.xlsx"
        file.write_bytes(excel_workbook(frames))
        return file
    place.mkdir(parents=True, exist_ok=True)
    for name, frame in frames.items():
        (place / f"{name}.{form}").write_bytes(csv_table(frame) if form == "csv" else parquet_table(frame))
    return place
