from pathlib import Path

from gpu2npu.records import (
    Advice,
    AdviceKind,
    Change,
    Finding,
    FindingKind,
    MigratedFile,
    Operation,
    Outcome,
    PathNote,
    Span,
)
from gpu2npu.report.summary import largest_causes, next_steps, problem_lines, summary_rows

SPAN = Span(1, 0, 1, 1)
CHANGE = Change(SPAN, "r", Operation.MODIFY, "m", "a", "b")
FINDINGS = (Finding(SPAN, "r", FindingKind.REVIEW, "x", "t"), Finding(SPAN, "r", FindingKind.UNSUPPORTED, "x", "t"))
ADVICE = Advice(SPAN, "r", AdviceKind.AFFINITY, "x", "faster")
OUTCOME = Outcome(
    "p",
    files=(
        MigratedFile("a.py", b"", (CHANGE, CHANGE), FINDINGS, advice=(ADVICE,)),
        MigratedFile("b.py"),
        MigratedFile(
            "c.py",
            findings=(Finding(Span(1, 0, 1, 0), "unread-file", FindingKind.UNKNOWN, "c.py", "syntax error"),),
            failure="syntax error",
        ),
    ),
    copied=("x.txt", "y.txt"),
    notes=(PathNote("link", "left out", failed=False), PathNote("shut", "cannot be read", failed=True)),
    seconds=0.456,
    looked_into=4,
)


def test_the_numbers() -> None:
    assert [value for _, value in summary_rows(OUTCOME)] == [
        *("3", "1", "1", "2", "0", "2", "2"),
        *("2", "1", "0", "0", "1", "1"),
        "0.46",
    ]


def test_the_largest_causes_and_what_to_do_next() -> None:
    assert list(largest_causes(OUTCOME)) == [
        "2 findings of 2 causes in 1 file (4 looked at). The largest causes:",
        "  1 x x, first at a.py:1",
        "  1 x x, first at a.py:1",
    ]
    assert list(next_steps(OUTCOME, "p", "out/p_msft")) == [
        "Open first: finding_groups.csv (what is left to do, each cause once) and change_list.csv, in out/p_msft; "
        "their line numbers are those of p",
        "Next: gpu2npu verify -i p --migrated out/p_msft -- SCRIPT.py  # a script that trains",
    ]
    assert not list(largest_causes(Outcome("p", (MigratedFile("a.py"),))))


def test_problems_are_sorted_and_say_which_are_failures() -> None:
    assert problem_lines(OUTCOME) == [
        ("c.py: syntax error", True),
        ("link: left out", False),
        ("shut: cannot be read", True),
    ]
    assert not OUTCOME.complete
    assert Outcome("p", (MigratedFile("a.py"),), notes=OUTCOME.notes[:1]).complete


def test_one_file_is_run_next(tmp_path: Path) -> None:
    (tmp_path / "tiny.py").touch()
    (line,) = next_steps(Outcome("tiny.py", ()), str(tmp_path / "tiny.py"), "out/tiny_msft")
    assert line == "Next: cd out/tiny_msft && gpu2npu run tiny.py"


def test_commands_have_paths_with_blanks_in_quotes() -> None:
    (line,) = next_steps(Outcome("my p", ()), "my p", "out/my p_msft")
    assert line.startswith("Next: gpu2npu verify -i 'my p' --migrated 'out/my p_msft' -- ")


def test_that_code_beside_that_for_npus_stays_is_reported() -> None:
    files = (MigratedFile("a.py", traits=frozenset({"knows-npus"})), MigratedFile("b.py"))
    assert list(largest_causes(Outcome("p", files))) == [
        "1 file with code for NPUs already: what is for CUDA beside it stays as it is."
    ]
