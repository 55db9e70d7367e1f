"""A check on a terminal, without one: rich writes to text."""

import io

import pytest
from msgspec.structs import replace
from rich.console import Console

from gpu2npu.records import Finding, FindingKind, Severity, Span
from gpu2npu.report.check.causes import causes_of
from gpu2npu.report.check.result import CheckedFile, CheckedFinding, CheckResult, Effort, NativeCode, Readiness, Verdict
from gpu2npu.report.check.terminal import print_report
from gpu2npu.report.check.text import text_report

LINES = ("def f(x):", "    # [bold]前[/bold]", "\tx.cuda(\x1b)", "    return x")


def result(*spans: Span) -> CheckResult:
    found = tuple(
        CheckedFinding(
            Finding(span, "no-graphs", FindingKind.UNSUPPORTED, "torch.x", "Write [it] anew.", Severity.BLOCKER),
            span.start_line,
            "",
            LINES,
            8,
            "",
            "f" * 32,
        )
        for span in spans
    )
    readiness = Readiness(Verdict.BLOCKED, 0, 0, len(found), Effort())
    files = (CheckedFile("a.py", 11, findings=found), CheckedFile("b.py", failure="cut short"))
    return CheckResult("p", "2.7.1", "torch_npu-2.7.1", "0.1.0", "/p", "", files, readiness)


def printed(of: CheckResult, colour: bool = False) -> str:
    text = io.StringIO()
    print_report(
        of,
        Console(
            file=text, width=40, highlight=False, force_terminal=colour, color_system="standard" if colour else None
        ),
    )
    return text.getvalue()


def test_each_cause_has_its_code() -> None:
    lines = printed(result(Span(10, 1, 10, 7), Span(11, 4, 11, 10))).splitlines()
    assert lines[11].startswith("p: blocked: ")
    assert lines[:11] == [
        "blocker [unsupported, no-graphs] torch.x",
        "  --> a.py:10:2",
        " 8 | def f(x):",
        " 9 |     # [bold]前[/bold]",
        "10 |     x.cuda(\\x1b)",
        "   |     ^^^^^^",
        "11 |     return x",
        "   = Write [it] anew.",
        "   = 2 places in 1 file, also a.py:11",
        "",
        "b.py: not checked: cut short",
    ]


def test_all_places_are_from_the_current_folder() -> None:
    elsewhere = replace(result(Span(10, 1, 10, 7), Span(11, 4, 11, 10)), shown_root="/p/")
    blocked = replace(elsewhere, readiness=replace(elsewhere.readiness, blockers=causes_of(elsewhere.places())))
    assert "  --> /p/a.py:10:2\n" in printed(blocked) and "in 1 file, also /p/a.py:11\n" in printed(blocked)
    for text in (printed(blocked), text_report(blocked)):
        assert "  2 x torch.x, first at /p/a.py:10\n" in text


def test_there_are_no_more_places_than_lines() -> None:
    twice = result(Span(10, 1, 10, 7), Span(10, 2, 10, 7))
    assert "2 places in 1 file: a.py:10\n" in text_report(twice)


@pytest.mark.parametrize(
    ("span", "mark"),
    [
        (Span(9, 12, 9, 13), " " * 12 + "^^"),
        (Span(9, 13, 9, 14), " " * 14 + "^"),  # the character before it is two columns wide
        (Span(8, 4, 9, 2), " " * 4 + "^" * 5),  # to the end of its line
        (Span(8, 0, 8, 0), "^"),
    ],
)
def test_the_mark_stands_below_its_span(span: Span, mark: str) -> None:
    (marked,) = [line for line in printed(result(span)).splitlines() if line.rstrip().endswith("^")]
    assert marked.rstrip() == f"   | {mark}"


def test_colours_are_for_terminals_that_have_some() -> None:
    assert "\x1b[1;31mblocker\x1b[0m" in printed(result(Span(10, 1, 10, 7)), colour=True)
    assert "\x1b" not in printed(result(Span(10, 1, 10, 7)))


def test_a_place_without_its_line_is_shown_without_code() -> None:
    assert " | " not in printed(result(Span(1, 0, 1, 1)))


def test_kernels_that_block_are_reported() -> None:
    blocked = replace(result(), native=NativeCode(kernels=3, apart=1))
    assert "CUDA kernels of the program's own, to be written for an NPU: 2\n" in printed(blocked)
    assert "CUDA kernels" not in printed(replace(result(), native=NativeCode(kernels=1, apart=1)))
