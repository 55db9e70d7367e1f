"""Many repositories as tables for spreadsheets and data frames, by pandas, and as one web page."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any

import pandas as pd
from msgspec import Struct
from msgspec.structs import asdict

from gpu2npu.language import message, shown
from gpu2npu.report.check.html import SHARES, VERDICT_WORDS, shares_of, shares_of_all
from gpu2npu.report.check.result import SEVERITIES, CheckedRepository, Verdict
from gpu2npu.report.check.rollup import (
    CauseTotal,
    LastRun,
    OwnerTotal,
    PackageTotal,
    by_cause,
    by_owner,
    by_package,
    trend,
)
from gpu2npu.report.tables import defused
from gpu2npu.report.text import counted, encodable
from gpu2npu.report.webpage import render

# What a row of each table is.
ROWS = ("repository", "cause", "package", "owner")
_MOST_CHARACTERS = 32_000  # of a cell in Excel, which takes 32,767


def rollup_tables(repositories: Sequence[CheckedRepository], last: Mapping[str, LastRun]) -> dict[str, pd.DataFrame]:
    """A table for each of ROWS; the repositories that cost most come first."""
    costly = sorted(repositories, key=lambda each: (-_high(each), each.path))
    totals: dict[str, tuple[type[Struct], Iterable[Any]]] = {
        "cause": (CauseTotal, by_cause(repositories)),
        "package": (PackageTotal, by_package(repositories)),
        "owner": (OwnerTotal, by_owner(repositories)),
    }
    tables = {"repository": pd.DataFrame([_row(each, last) for each in costly])}
    for name, (kind, listed) in totals.items():
        columns = kind.__struct_fields__  # a table without rows has its header, too
        table = pd.DataFrame([_plain(asdict(each)) for each in listed], columns=columns)
        tables[name] = table.rename(columns={"only_cause": "alone"})  # as people's files have it
    return tables


def _high(repository: CheckedRepository) -> float:
    return repository.readiness.effort.high if repository.readiness is not None else 0.0


def _row(repository: CheckedRepository, last: Mapping[str, LastRun]) -> dict[str, Any]:
    ready, change = repository.readiness, trend(repository, last)
    severities = {severity.value: dict(repository.severities).get(severity, 0) for severity in SEVERITIES}
    return _plain(
        {
            "repository": repository.name,
            "path": repository.path,
            "owner": repository.owner,
            "verdict": ready.verdict if ready is not None else "not checked",
            "error": repository.error or "",
            "uses": ready.uses if ready is not None else 0,
            "automatic": ready.automatic if ready is not None else 0,
            "review": ready.review if ready is not None else 0,
            "blocking": ready.blocking if ready is not None else 0,
            "hours_low": round(ready.effort.low, 1) if ready is not None else 0.0,
            "hours_high": round(_high(repository), 1),
            **severities,
            "causes": len(repository.causes),
            "files": repository.files,
            "lines": repository.lines,
            "failures": repository.failures,
            "trend": change.word if last else "",
            "verdict_before": change.before,
            "blocking_added": change.blocking,
            "hours_added": change.hours,
        }
    )


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """The row with words for members of enumerations, and text that UTF-8 can hold."""
    plain = {name: value.value if isinstance(value, Enum) else value for name, value in row.items()}
    return {name: encodable(value) if isinstance(value, str) else value for name, value in plain.items()}


def csv_table(table: pd.DataFrame) -> bytes:
    """As the CSV files of a migration: UTF-8, CRLF, no cell that a spreadsheet would evaluate."""
    text: str = table.map(defused).to_csv(index=False, lineterminator="\r\n")
    return text.encode("utf-8")


def parquet_table(table: pd.DataFrame) -> bytes:
    """Raises ImportError where pandas finds no library for it."""
    content = io.BytesIO()
    table.to_parquet(content, index=False)
    return content.getvalue()


def excel_workbook(tables: Mapping[str, pd.DataFrame]) -> bytes:
    """A sheet for each table, with a header that stays. Raises ImportError where pandas finds no library for it."""
    content = io.BytesIO()
    with pd.ExcelWriter(content) as writer:
        for name, table in tables.items():
            table.map(_cell).to_excel(writer, sheet_name=name, index=False, freeze_panes=(1, 1))
    return content.getvalue()


def _cell(cell: Any) -> Any:
    """A cell without characters that the format cannot hold, nor what would be a formula."""
    if not isinstance(cell, str):
        return cell
    printable = "".join(each if each.isprintable() or each == "\n" else repr(each)[1:-1] for each in cell)
    return defused(printable[:_MOST_CHARACTERS])


_TRENDS = (message("better"), message("worse"), message("new"))
_MOST = 100  # causes that the page shows


def rollup_page(
    repositories: Sequence[CheckedRepository],
    pages: Mapping[str, str],
    last: Mapping[str, LastRun],
) -> str:
    """`pages` are addresses of the repositories' own pages, by path; `last` is what the last run said of each."""
    checked = [each.readiness for each in repositories if each.readiness is not None]
    counts = {verdict: sum(each.verdict is verdict for each in checked) for verdict in Verdict}
    costly = sorted(repositories, key=lambda each: (-(each.readiness.effort.high if each.readiness else 0), each.path))
    causes, owners = by_cause(repositories), by_owner(repositories)
    trends = {each.path: trend(each, last) for each in repositories} if last else {}
    low, high = (sum(getattr(each.effort, side) for each in checked) for side in ("low", "high"))
    return render(
        "rollup.html",
        title=shown(f"{counted(len(repositories), 'repository', 'repositories')} on an NPU"),
        rows=[(each, VERDICT_WORDS[each.readiness.verdict] if each.readiness else "") for each in costly],
        verdicts=[(VERDICT_WORDS[verdict], verdict.value, count) for verdict, count in counts.items()],
        failed=len(repositories) - len(checked),
        shares=shares_of_all([sum(getattr(each, name) for each in checked) for name, _ in SHARES]),
        days=f"{low / 8:.0f} to {high / 8:.0f}",
        share_of=shares_of,
        causes=causes[:_MOST],
        other_causes=shown(f"and {len(causes) - _MOST} others, which --format csv --by cause lists.")
        if len(causes) > _MOST
        else "",
        packages=by_package(repositories),
        owners=owners if any(each.owner for each in owners) else (),
        pages=pages,
        trends=trends,
        changes=[(word, sum(each.word == word for each in trends.values())) for word in _TRENDS],
    )
