"""The CSV files and the log of an analysis, with the vendor's column names; columns of our own come last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpu2npu.records import AdviceKind, FindingKind, MigratedFile
from gpu2npu.report.tables import csv_bytes, finding_rows
from gpu2npu.report.text import file_and_cell, one_line

PRECISION_ADVICE = "api_precision_advice.csv"
PERFORMANCE_ADVICE = "api_performance_advice.csv"
AFFINITY_CALLS = "affinity_api_call.csv"
LOG_NAME = "pytorch_analysis.txt"

ADVICE_HEADER = ("File", "Start Line", "End Line", "OP", "Tips")
AFFINITY_HEADER = ("File", "Start Line", "End Line", "Api Type", "Api Call Name", "Affinity Api Name", "Tips", "Rule")

Row = tuple[str | int, ...]


@dataclass(frozen=True)
class Table:
    """A CSV file: `rows` have the length of `header`."""

    header: tuple[str, ...]
    rows: list[Row]


def precision_table(files: Iterable[MigratedFile]) -> Table:
    return Table(ADVICE_HEADER, _advice_rows(files, AdviceKind.PRECISION))


def performance_table(files: Iterable[MigratedFile]) -> Table:
    """What falls back to the CPU, and what else could be faster."""
    files = tuple(files)
    rows = [*finding_rows(files, {FindingKind.FALLBACK}), *_advice_rows(files, AdviceKind.PERFORMANCE)]
    return Table(ADVICE_HEADER, sorted(rows, key=lambda row: (str(row[0]), *row[1:])))


def affinity_table(files: Iterable[MigratedFile]) -> Table:
    rows: list[Row] = [
        (
            file_and_cell(file.path, advice.span),
            advice.span.start_line,
            advice.span.end_line,
            advice.form,
            advice.api,
            advice.replacement,
            advice.message,
            advice.rule,
        )
        for file in files
        for advice in sorted(file.advice, key=lambda advice: (advice.span, advice.rule))
        if advice.kind is AdviceKind.AFFINITY
    ]
    return Table(AFFINITY_HEADER, rows)


def _advice_rows(files: Iterable[MigratedFile], kind: AdviceKind) -> list[Row]:
    return [
        (
            file_and_cell(file.path, advice.span),
            advice.span.start_line,
            advice.span.end_line,
            advice.api,
            advice.message,
        )
        for file in files
        for advice in sorted(file.advice, key=lambda advice: (advice.span, advice.rule))
        if advice.kind is kind
    ]


def write_analysis_tables(tables: Mapping[str, Table], folder: Path) -> None:
    """Writes each table into `folder` under its name."""
    for name, table in tables.items():
        (folder / name).write_bytes(csv_bytes(table.header, table.rows))


def write_analysis_log(folder: Path, lines: Iterable[str]) -> None:
    """Writes the log: one line for each of `lines`, whatever characters they hold."""
    text = "".join(f"{one_line(line)}\n" for line in lines)
    (folder / LOG_NAME).write_bytes(text.encode("utf-8", "backslashreplace"))
