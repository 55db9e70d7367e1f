"""Writing the CSV files and the log of an analysis."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct

from gpu2npu.report.tables import csv_bytes
from gpu2npu.report.text import one_line

LOG_NAME = "pytorch_analysis.txt"

Row = tuple[str | int, ...]


class Table(Struct, frozen=True):
    """A CSV file: `rows` have the length of `header`."""

    header: tuple[str, ...]
    rows: list[Row]


def write_analysis_tables(tables: Mapping[str, Table], folder: Path) -> None:
    """Writes each table into `folder` under its name."""
    for name, table in tables.items():
        (folder / name).write_bytes(csv_bytes(table.header, table.rows))


def write_analysis_log(folder: Path, lines: Iterable[str]) -> None:
    """Writes the log: one line for each of `lines`, whatever characters they hold."""
    text = "".join(f"{one_line(line)}\n" for line in lines)
    (folder / LOG_NAME).write_bytes(text.encode("utf-8", "backslashreplace"))
