"""Many repositories by cause, package and owner, against the last run; as a page and as tables."""

import csv
import io
from html.parser import HTMLParser

import pytest
from msgspec.structs import replace

from gpu2npu.records import FindingKind, Severity
from gpu2npu.report.check.result import Cause, CheckedRepository, Effort, Part, Readiness, Reason, Verdict
from gpu2npu.report.check.rollup import LastRun, Trend, by_cause, by_owner, by_package, trend
from gpu2npu.report.check.rollup_tables import (
    ROWS,
    csv_table,
    excel_workbook,
    parquet_table,
    rollup_page,
    rollup_tables,
)

EVIL = "</script><img src=x onerror=alert(1)>"


def cause(group: str, severity: Severity, *names: str, rule: str = "cuda-x", part: Part = Part.PROGRAM) -> Cause:
    counts = tuple((name, 2) for name in names)
    first, places = ("a.py:1",), 2 * len(names)
    return Cause(
        group,
        severity,
        FindingKind.UNSUPPORTED,
        f"Advice {group}.",
        "m",
        counts,
        (rule,),
        places,
        1,
        first,
        ((part, 1),),
    )


FLASH = cause("f" * 8, Severity.BLOCKER, "flash_attn.flash_attn_func", "flash_attn", rule="package-flash-attn")
APART = cause("f" * 8, Severity.BLOCKER, "flash_attn", rule="package-flash-attn", part=Part.TESTS)
GRAPH = cause("a" * 8, Severity.BLOCKER, "torch.cuda.x")
PIN = cause("b" * 8, Severity.ENVIRONMENT, "=torch==2.0", "NVIDIA-NCCL-cu12==2.1", rule="cuda-build-requirement")


def repository(name: str, verdict: Verdict, *causes: Cause, owner: str = "") -> CheckedRepository:
    effort = Effort(tuple(Reason("r", 1, 1.0, 10.0, "b", each.group) for each in causes))
    blocking = sum(each.blocks for each in causes)
    readiness = Readiness(verdict, 4, 1, blocking, effort, tuple(each for each in causes if each.blocks))
    return CheckedRepository(f"/r/{name}", name, "2.1.0", 3, 9, readiness=readiness, owner=owner, causes=causes)


ONE = repository("one", Verdict.BLOCKED, FLASH, GRAPH, owner="@org/a")
TWO = repository("two", Verdict.BLOCKED, FLASH, owner="@org/a")
THREE = repository("three", Verdict.REVIEW, APART, PIN, owner="org")
FOUR = repository(EVIL, Verdict.NO_CUDA)
GONE = CheckedRepository("/r/gone", "gone", error="=it does not exist\ud800")
ALL = (ONE, TWO, THREE, FOUR, GONE)


def test_a_cause_over_all_repositories() -> None:
    causes = [
        (each.group[0], each.repositories, each.blocks, each.only_cause, each.places, each.high)
        for each in by_cause(ALL)
    ]
    assert causes == [("f", 3, 2, 1, 10, 30.0), ("a", 1, 1, 0, 2, 10.0), ("b", 1, 0, 0, 4, 10.0)]
    assert by_cause(ALL)[0].names == "flash_attn, flash_attn.flash_attn_func"


def test_packages_are_those_of_rules_about_packages() -> None:
    packages = [(each.package, each.repositories, each.blocks, each.severity.value) for each in by_package(ALL)]
    assert packages == [("flash-attn", 3, 2, "blocker"), ("nvidia-nccl-cu12", 1, 0, "environment")]


def test_owners() -> None:
    owners = {each.owner: (each.repositories, each.blocked, each.no_cuda, each.not_checked) for each in by_owner(ALL)}
    assert owners == {"@org/a": (2, 2, 0, 0), "org": (1, 0, 0, 0), "": (2, 0, 1, 1)}


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        (None, Trend("new")),
        (LastRun("blocked", 2, 20.0), Trend("same", "blocked")),
        (LastRun("review", 9, 99.0), Trend("worse", "review", -7, -79.0)),
        (LastRun("blocked", 1, 20.0), Trend("worse", "blocked", 1)),
        (LastRun("blocked", 2, 25.5), Trend("better", "blocked", 0, -5.5)),
        (LastRun("", 0, 0.0), Trend("better")),
    ],
)
def test_the_verdict_decides_then_blockers_then_hours(before: LastRun | None, expected: Trend) -> None:
    assert trend(ONE, {ONE.path: before} if before is not None else {}) == expected


def test_rounded_hours_are_no_difference() -> None:
    effort = Effort((Reason("kernels", 1, 4.0, 16.75, ""),))
    same = replace(ONE, readiness=Readiness(Verdict.BLOCKED, 0, 0, 2, effort))
    before = LastRun("blocked", 2, round(effort.high, 1))
    assert trend(same, {ONE.path: before}) == Trend("same", "blocked")


def test_what_cannot_be_checked_any_more_is_worse() -> None:
    assert trend(GONE, {GONE.path: LastRun("ready", 0, 0.0)}) == Trend("worse", "ready")
    assert trend(GONE, {GONE.path: LastRun("", 0, 0.0)}) == Trend("same")


class Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += attrs


def test_the_page() -> None:
    text = rollup_page(ALL, {ONE.path: "all_pages/one.html"}, {TWO.path: LastRun("ready", 0, 4.0)})
    page = Elements()
    page.feed(text)
    assert "img" not in page.names
    verdicts = [value for name, value in page.attributes if name == "data-verdict"]
    assert verdicts == ["blocked", "review", "blocked", "no-cuda", "failed"]  # the costly first
    assert [value for name, value in page.attributes if name == "href"] == ["data:,", "all_pages/one.html"]
    assert {"repositories", "causes", "packages", "owners", "only"} <= {v for n, v in page.attributes if n == "id"}
    assert "<b>1</b>worse" in text and '<option value="failed">not checked (1)</option>' in text
    assert "Advice ffffffff." in text and "@org/a" in text


def test_a_page_without_owners_or_a_last_run_shows_neither() -> None:
    text = rollup_page((replace(FOUR, owner=""),), {}, {})
    assert "Owners</h2>" not in text and "Since the last run" not in text and "Causes</h2>" not in text


def test_tables_as_csv() -> None:
    tables = rollup_tables(ALL, {ONE.path: LastRun("blocked", 1, 20.0)})
    assert tuple(tables) == ROWS
    rows = {name: list(csv.DictReader(io.StringIO(csv_table(table).decode()))) for name, table in tables.items()}
    assert [row["repository"] for row in rows["repository"]] == ["one", "three", "two", EVIL, "gone"]
    assert rows["repository"][0]["trend"] == "worse" and rows["repository"][0]["verdict_before"] == "blocked"
    assert rows["repository"][4]["error"] == "'=it does not exist\\ud800"
    assert [row["blocks"] for row in rows["cause"]] == ["2", "1", "0"]
    assert rows["package"][0] | {"places": ""} == {
        "package": "flash-attn",
        "severity": "blocker",
        "repositories": "3",
        "blocks": "2",
        "places": "",
    }
    assert {row["owner"] for row in rows["owner"]} == {"@org/a", "'@org/a", "org", ""} - {"@org/a"}


def test_tables_as_parquet_and_excel() -> None:
    pytest.importorskip("pyarrow")
    openpyxl = pytest.importorskip("openpyxl")
    import pandas as pd

    tables = rollup_tables(ALL, {})
    read = pd.read_parquet(io.BytesIO(parquet_table(tables["repository"])))
    assert list(read["hours_high"]) == [20.0, 20.0, 10.0, 0.0, 0.0]
    book = openpyxl.load_workbook(io.BytesIO(excel_workbook(tables)))
    assert book.sheetnames == list(ROWS)
    assert all(cell.data_type != "f" for sheet in book for row in sheet.iter_rows() for cell in row)


def test_no_repository_has_anything() -> None:
    tables = rollup_tables((GONE,), {})
    assert (
        csv_table(tables["cause"]).strip()
        == b"group,severity,kind,names,advice,repositories,blocks,alone,places,low,high"
    )
