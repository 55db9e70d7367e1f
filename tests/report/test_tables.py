import csv
import io

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gpu2npu.records import (
    Change,
    Finding,
    FindingKind,
    MigratedFile,
    NativeKind,
    NativePlace,
    Operation,
    Outcome,
    Severity,
    Span,
)
from gpu2npu.report.check.causes import group_of
from gpu2npu.report.tables import HEADERS, csv_bytes, header_line, raw_cell, tables, write_tables

# Text as it can be in a source file: any Unicode but lone surrogates and NUL.
SOURCE_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


def change(line: int, before: str = "a", after: str = "b", rule: str = "r") -> Change:
    return Change(Span(line, 0, line, 1), rule, Operation.MODIFY, "m", before, after)


def finding(line: int, kind: FindingKind, api: str = "torch.cuda.x") -> Finding:
    return Finding(Span(line, 0, line + 1, 1), "r", kind, api, "do this")


def rows(content: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(content.decode("utf-8"), newline="")))


@given(st.lists(st.tuples(SOURCE_TEXT, SOURCE_TEXT)))
def test_any_text_survives(cells: list[tuple[str, str]]) -> None:
    content = csv_bytes(("one", "two"), cells)
    assert [list(map(raw_cell, row)) for row in rows(content)] == [["one", "two"], *map(list, cells)]


@given(st.text(st.sampled_from("=+-@\t\r'\"ax\n"), max_size=5))
def test_no_cell_is_a_formula(cell: str) -> None:
    """And nothing but an apostrophe is added, only where it has to be."""
    written = rows(csv_bytes(("one", "two"), [(cell, cell)]))[1][0]
    assert not written.startswith(tuple("=+-@\t\r"))
    assert raw_cell(written) == cell
    assert written == cell or cell.lstrip("'").startswith(tuple("=+-@\t\r"))


def test_characters_that_no_table_can_have_are_escaped() -> None:
    assert rows(csv_bytes(("one", "two"), [("a\0", "\udc80")]))[1] == [r"a\x00", r"\udc80"]


@given(st.lists(st.tuples(SOURCE_TEXT.filter(bool), SOURCE_TEXT)))
def test_rfc_4180(cells: list[tuple[str, str]]) -> None:
    """Outside quotes there are only separators and CRLF row ends; inside, quotes are doubled."""
    text = csv_bytes(("one", "two"), cells).decode("utf-8")
    outside = "".join(text.replace('""', "").split('"')[::2])
    assert outside.count("\r\n") == outside.count("\r") == outside.count("\n") == len(cells) + 1
    assert text.endswith("\r\n")


def test_a_header_even_without_rows() -> None:
    written = tables(Outcome("p", ()))
    assert written == {name: header_line(name) for name in HEADERS}
    assert written["change_list.csv"] == b"File,Start Line,End Line,Operation Type,Message,Rule,Before,After\r\n"
    assert (
        written["unsupported_api.csv"]
        == written["unknown_api.csv"]
        == b"File,Start Line,End Line,OP,Tips,Severity,Group\r\n"
    )
    assert written["cuda_op_list.csv"] == b"File,Api,Line,Kind,Called From\r\n"


def test_rows_are_sorted_by_file_and_line() -> None:
    files = (MigratedFile("b.py", b"", (change(10), change(9))), MigratedFile("a.py", b"", (change(200),)))
    content = tables(Outcome("p", files))["change_list.csv"]
    assert [row[:3] for row in rows(content)[1:]] == [["a.py", "200", "200"], ["b.py", "9", "9"], ["b.py", "10", "10"]]


def test_findings_go_to_the_file_of_their_kind() -> None:
    findings = tuple(finding(line, kind) for line, kind in enumerate(FindingKind, start=1))
    written = tables(Outcome("p", (MigratedFile("a.py", findings=findings),)))
    (row,) = rows(written["unsupported_api.csv"])[1:]
    assert row == ["a.py", "1", "2", "torch.cuda.x", "do this", "change", group_of(findings[0])]
    assert [row[1] for row in rows(written["unknown_api.csv"])[1:]] == ["3", "4"]


def test_each_cause_is_one_row_that_names_its_places() -> None:
    blocker = replace(finding(9, FindingKind.UNSUPPORTED, "lib_cuda"), severity=Severity.BLOCKER)
    others = (finding(1, FindingKind.REVIEW), finding(3, FindingKind.REVIEW, "=x"), finding(5, FindingKind.REVIEW))
    files = (MigratedFile("a.py", findings=(*others, blocker)), MigratedFile("b.py", findings=others[:1]))
    written = tables(Outcome("p", files))
    first, second = rows(written["finding_groups.csv"])[1:]
    assert first[:4] == [group_of(blocker), "blocker", "unsupported", "lib_cuda (1)"]
    assert second[3:] == ["torch.cuda.x (3)\n=x (1)", "do this", "r", "4", "2", "a.py:1\na.py:3\na.py:5\nb.py:1"]
    assert {row[-1] for row in rows(written["unknown_api.csv"])[1:]} == {second[0]}


def test_cells_are_the_exact_source_but_for_the_apostrophe_before_a_formula() -> None:
    files = (MigratedFile("a.py", b"", (change(1, "@torch.cuda.amp.custom_fwd", ' =x"y",\n\t-z'),)),)
    cells = rows(tables(Outcome("p", files))["change_list.csv"])[1][6:]
    assert cells == ["'@torch.cuda.amp.custom_fwd", ' =x"y",\n\t-z']


def test_a_negative_number_is_no_text() -> None:
    assert csv_bytes(("one",), [(-1,)]) == b"one\r\n-1\r\n"


def test_an_undecodable_path_is_written_escaped() -> None:
    place = NativePlace("caf\udce9.cu", 3, NativeKind.OPERATOR, "x.f", ("a.py:1", "b.py:2"))
    content = tables(Outcome("p", (), native=(place, place)))["cuda_op_list.csv"]
    assert content == b'File,Api,Line,Kind,Called From\r\ncaf\\udce9.cu,x.f,3,operator,"a.py:1\nb.py:2"\r\n'


def test_each_table_is_written_under_its_chosen_name(tmp_path) -> None:
    names = {name: name for name in HEADERS} | {"change_list.csv": "other.csv"}
    write_tables(Outcome("p", ()), tmp_path, names)
    assert {path.name for path in tmp_path.iterdir()} == set(names.values())
