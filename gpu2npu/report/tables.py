"""The CSV files of the output, and the log of an analysis: UTF-8, RFC 4180, a header always, sorted by file and line.

A cell that starts with `=`, `+`, `-`, `@`, a tab or a carriage return would be a formula to a spreadsheet, and what it
says is the text of somebody else's source: such a cell gets an apostrophe before it (a cell that has apostrophes there
already gets one more, so that `raw_cell` can always take it away). All other cells are the text as it is.

A path that is not valid Unicode is written with its odd bytes as `\\udcXX`.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from msgspec import Struct

from gpu2npu.language import shown
from gpu2npu.records import (
    Advice,
    AdviceKind,
    Change,
    Finding,
    FindingKind,
    MigratedFile,
    NativePlace,
    Outcome,
    Severity,
    Span,
)
from gpu2npu.report.check.causes import causes_of, group_of
from gpu2npu.report.check.result import CheckedFile, Part
from gpu2npu.report.text import file_and_cell, one_line

CHANGE_LIST = "change_list.csv"
UNSUPPORTED_API = "unsupported_api.csv"
UNKNOWN_API = "unknown_api.csv"
CUDA_OP_LIST = "cuda_op_list.csv"
PRECISION_ADVICE = "api_precision_advice.csv"
PERFORMANCE_ADVICE = "api_performance_advice.csv"
AFFINITY_CALLS = "affinity_api_call.csv"
FINDING_GROUPS = "finding_groups.csv"

_PLACE = ("File", "Start Line", "End Line")
_CHANGE_HEADER = (*_PLACE, "Operation Type", "Message", "Rule", "Before", "After")
_FINDING_HEADER = (*_PLACE, "OP", "Tips", "Severity", "Group")
PLACE_HEADER = (*_FINDING_HEADER, "Kind", "Rule", "Part")
_NATIVE_HEADER = ("File", "Api", "Line", "Kind", "Called From")
_AFFINITY_HEADER = (*_PLACE, "Api Type", "Api Call Name", "Affinity Api Name", "Tips", "Rule", "Group")
_GROUP_HEADER = ("Group", "Severity", "Kind", "OP", "Tips", "Rule", "Places", "Files", "First Places")

HEADERS = {
    CHANGE_LIST: _CHANGE_HEADER,
    UNSUPPORTED_API: _FINDING_HEADER,
    UNKNOWN_API: _FINDING_HEADER,
    CUDA_OP_LIST: _NATIVE_HEADER,
    PRECISION_ADVICE: _FINDING_HEADER,
    PERFORMANCE_ADVICE: _FINDING_HEADER,
    AFFINITY_CALLS: _AFFINITY_HEADER,
    FINDING_GROUPS: _GROUP_HEADER,
}

Row = tuple[str | int, ...]
_Cell = TypeVar("_Cell")

# What spreadsheets take for a formula, by OWASP's page on CSV injection.
_FORMULA = re.compile(r"'*[=+\-@\t\r]")


def tables(outcome: Outcome) -> dict[str, bytes]:
    """The bytes of each CSV file by its name."""
    return {name: csv_bytes(HEADERS[name], rows) for name, rows in rows_of(outcome).items()}


def rows_of(outcome: Outcome) -> dict[str, Sequence[Row]]:
    """The rows of each table by the name of its CSV file; HEADERS has the columns."""
    files = outcome.files
    return {
        CHANGE_LIST: change_rows(files),
        UNSUPPORTED_API: finding_rows(files, {FindingKind.UNSUPPORTED}),
        UNKNOWN_API: finding_rows(files, {FindingKind.UNKNOWN, FindingKind.REVIEW}),
        CUDA_OP_LIST: native_rows(outcome.native),
        PRECISION_ADVICE: advice_rows(files, AdviceKind.PRECISION),
        PERFORMANCE_ADVICE: performance_rows(files),
        AFFINITY_CALLS: affinity_rows(files),
        FINDING_GROUPS: group_rows(files),
    }


def csv_bytes(header: Row, rows: Iterable[Row]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(header)
    writer.writerows([_writable(defused(cell)) for cell in row] for row in rows)
    return text.getvalue().encode("utf-8", "backslashreplace")


def _writable(cell: _Cell) -> _Cell | str:
    """The cell, with `\\x00` for a NUL, which the csv module of Python 3.10 neither writes nor reads."""
    return cell.replace("\0", r"\x00") if isinstance(cell, str) else cell


def defused(cell: _Cell) -> _Cell | str:
    """The cell, with an apostrophe before it where a spreadsheet would take it for a formula."""
    return f"'{cell}" if isinstance(cell, str) and _FORMULA.match(cell) else cell


def raw_cell(cell: str) -> str:
    """The text of a cell of these files, without the apostrophe that keeps a spreadsheet from evaluating it."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def header_line(table: str) -> bytes:
    """The first line that the CSV file of this name has."""
    return csv_bytes(HEADERS[table], ())


def change_rows(files: Iterable[MigratedFile | CheckedFile]) -> list[Row]:
    entries = [(file.path, change) for file in files for change in file.changes]
    return [_change_row(path, change) for path, change in sorted(entries, key=_place)]


def _change_row(path: str, change: Change) -> Row:
    what = (change.operation.value, shown(change.message), change.rule, change.before, change.after)
    return (*_lines(path, change.span), *what)


def _lines(path: str, span: Span) -> tuple[str, int, int]:
    """The file, and the first and the last line: the first three columns."""
    return file_and_cell(path, span), span.start_line, span.end_line


def finding_rows(files: Iterable[MigratedFile], kinds: set[FindingKind]) -> list[Row]:
    entries = [(file.path, finding) for file in files for finding in file.findings if finding.kind in kinds]
    return [_finding_row(path, finding) for path, finding in sorted(entries, key=_place)]


def _finding_row(path: str, finding: Finding) -> Row:
    what = (finding.api, shown(finding.message), finding.severity.value, group_of(finding))
    return (*_lines(path, finding.span), *what)


def place_rows(places: Iterable[tuple[str, Finding, Part]]) -> list[Row]:
    """One row a finding, of every kind, in the order given: for a table in memory, see PLACE_HEADER."""
    return [
        (*_finding_row(path, finding), finding.kind.value, finding.rule, part.value) for path, finding, part in places
    ]


def group_rows(files: Iterable[MigratedFile]) -> list[Row]:
    """One row a cause of findings, the worst first; names and places share a cell, one a line."""
    places = sorted(((file.path, finding) for file in files for finding in file.findings), key=_place)
    return [
        (
            cause.group,
            cause.severity.value,
            cause.kind.value,
            "\n".join(f"{name} ({count})" for name, count in cause.names),
            shown(cause.advice),
            "\n".join(cause.rules),
            cause.places,
            cause.files,
            "\n".join(cause.first),
        )
        for cause in causes_of((path, finding, Part.PROGRAM) for path, finding in places)
    ]


def advice_rows(files: Iterable[MigratedFile], kind: AdviceKind) -> list[Row]:
    return [_advice_row(path, advice, advice.message) for path, advice in _advice(files, kind)]


def _advice_row(path: str, advice: Advice, message: str) -> Row:
    return (*_lines(path, advice.span), advice.api, shown(message), Severity.ADVICE.value, group_of(advice))


def performance_rows(files: Iterable[MigratedFile]) -> list[Row]:
    """The rows for what runs on the CPU, then one for each other cause: its first place, and how many there are."""
    files = tuple(files)
    causes: dict[str, list[tuple[str, Advice]]] = {}
    for path, advice in _advice(files, AdviceKind.PERFORMANCE):
        causes.setdefault(advice.rule, []).append((path, advice))
    rows = [_advice_row(*places[0], f"{places[0][1].message}{_more(places)}") for places in causes.values()]
    return [*finding_rows(files, {FindingKind.FALLBACK}), *rows]


def _more(places: Sequence[tuple[str, Advice]]) -> str:
    """The number of places of a cause, and of their files, where it has several."""
    paths = len({path for path, _ in places})
    where = f" in {paths} files" if paths > 1 else ""
    return f" {len(places)} places{where}." if len(places) > 1 else ""


def affinity_rows(
    files: Iterable[MigratedFile], written: Mapping[tuple[str, Advice], str] = MappingProxyType({})
) -> list[Row]:
    """Return a row for each place; `written` are the kinds of `--affinity` that follow its advice."""
    return [
        (
            *_lines(path, advice.span),
            advice.form,
            advice.api,
            advice.replacement,
            shown(f"{advice.message} Written by --affinity {kind}." if kind else advice.message),
            advice.rule,
            group_of(advice),
        )
        for path, advice in _advice(files, AdviceKind.AFFINITY)
        for kind in [written.get((path, advice))]
    ]


def _advice(files: Iterable[MigratedFile], kind: AdviceKind) -> list[tuple[str, Advice]]:
    return sorted(((file.path, advice) for file in files for advice in file.advice if advice.kind is kind), key=_place)


def _place(entry: tuple[str, Change | Finding | Advice]) -> tuple[object, ...]:
    path, record = entry
    return path, record.span, record.rule


def native_rows(places: Iterable[NativePlace]) -> list[Row]:
    """One row a place; the lines of Python code that call it share a cell, one a line."""
    return [
        (place.path, place.api, place.line, place.kind.value, "\n".join(place.called_from))
        for place in sorted(set(places))
    ]


def write_tables(outcome: Outcome, folder: Path, names: Mapping[str, str]) -> None:
    """Writes the CSV files into `folder`, each under the name that `names` gives it."""
    for table, content in tables(outcome).items():
        (folder / names[table]).write_bytes(content)


ANALYSIS_LOG = "pytorch_analysis.txt"


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
    (folder / ANALYSIS_LOG).write_bytes(text.encode("utf-8", "backslashreplace"))
