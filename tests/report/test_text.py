from hypothesis import given
from hypothesis import strategies as st

from gpu2npu.records import Span
from gpu2npu.report.text import counted, file_and_cell, one_line


@given(st.text())
def test_it_is_one_printable_line(text: str) -> None:
    line = one_line(text)
    assert line.isprintable()
    assert len(line.splitlines()) <= 1


def test_what_can_be_shown_stays() -> None:
    assert one_line("caf\u00e9: \u6a21\u578b") == "caf\u00e9: \u6a21\u578b"
    assert one_line("a\nb\x1b[31m\udce9") == "a\\nb\\x1b[31m\\udce9"
    assert one_line("x" * 3_000) == "x" * 2_000 + "..."


def test_one_is_no_plural() -> None:
    assert [counted(number, "file") for number in (0, 1, 2)] == ["0 files", "1 file", "2 files"]
    assert [counted(number, "entry", "entries") for number in (1, 3)] == ["1 entry", "3 entries"]


def test_the_cell_of_a_notebook_stands_behind_its_path() -> None:
    assert file_and_cell("a.ipynb", Span(1, 0, 1, 1, cell=3)) == "a.ipynb:cell_3"
    assert file_and_cell("a.py", Span(1, 0, 1, 1)) == "a.py"
    assert sorted([Span(9, 0, 9, 1, cell=1), Span(1, 0, 1, 1, cell=2)])[0].cell == 1
