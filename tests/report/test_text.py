from hypothesis import given
from hypothesis import strategies as st

from gpu2npu.report.text import one_line


@given(st.text())
def test_it_is_one_printable_line(text: str) -> None:
    line = one_line(text)
    assert line.isprintable()
    assert len(line.splitlines()) <= 1


def test_what_can_be_shown_stays() -> None:
    assert one_line("caf\u00e9: \u6a21\u578b") == "caf\u00e9: \u6a21\u578b"
    assert one_line("a\nb\x1b[31m\udce9") == "a\\nb\\x1b[31m\\udce9"
    assert one_line("x" * 3_000) == "x" * 2_000 + "..."
