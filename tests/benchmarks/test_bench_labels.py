"""The judge sees what was done at a place; tests/labelled asks it about real packages."""

from __future__ import annotations

import pytest

from benchmarks.labels import (
    Judged,
    Label,
    format_problems,
    format_score,
    format_scores,
    judge,
    read_labels,
    read_packages,
    score,
)
from gpu2npu.records import Finding, FindingKind, Span

BEFORE = "import torch\nx = torch.cuda.foo('cuda', y.cuda())  # cuda\nif x: pass\n"


def label(line: int, column: int, word: str, answers: str, expected: str = "") -> Label:
    return Label("p", "a.py", line, column, word, frozenset(answers.split("+")), expected, 1)


def judged(after: str, one: Label, *findings: Finding) -> Judged:
    return judge([one], BEFORE, after, findings)[0]


def finding(line: int, start: int, end: int) -> Finding:
    return Finding(Span(line, start, line, end), "rule", FindingKind.REVIEW, "api", "message")


CASES = {
    "right": ("import torch\nimport torch_npu\nx = torch.npu.foo('cuda', y.cuda())  # cuda\nif x: pass\n", "npu"),
    "other": (BEFORE.replace("torch.cuda", "torch_npu.xpu"), "xpu"),
    "neighbours": (BEFORE.replace("'cuda'", "'npu:0'").replace("# cuda", "# npu"), "cuda"),
    "none": (BEFORE, "cuda"),
    "line gone": (BEFORE.replace("x = torch.cuda.foo('cuda', y.cuda())  # cuda\n", ""), ""),
}


@pytest.mark.parametrize(("after", "now"), CASES.values(), ids=CASES)
def test_what_stands_at_a_place_afterwards(after: str, now: str) -> None:
    place = judged(after, label(2, 10, "cuda", "migrate", "npu"))
    assert place.now == now
    assert place.edited == (now != "cuda")
    assert place.right_edit == (now == "npu")
    assert place.missed == (now != "npu")
    assert place.silent == (now == "cuda")


def test_a_word_of_several_parts() -> None:
    one = label(2, 4, "torch.cuda.foo", "migrate", "torch_npu.bar")
    assert judged(BEFORE.replace("torch.cuda.foo", "torch_npu.bar"), one).right_edit
    assert not judged(BEFORE.replace("torch.cuda.foo", "torch.npu.foo"), one).right_edit


def test_a_finding_counts_where_it_is_and_nowhere_else() -> None:
    one = label(2, 20, "cuda", "report")
    assert judged(BEFORE, one).silent
    assert judged(BEFORE, one, finding(2, 4, 19), finding(1, 20, 24)).silent
    assert not judged(BEFORE, one, finding(2, 19, 25)).silent
    assert judged(BEFORE.replace("'cuda'", "'npu'"), one).silent


def test_a_label_that_does_not_fit_the_file_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"p/a\.py:3:1: there is no cuda"):
        judged(BEFORE, label(3, 0, "cuda", "keep"))


def test_the_score() -> None:
    after = BEFORE.replace("torch.cuda", "torch.npu").replace("# cuda", "# npu")
    labels = [
        label(2, 10, "cuda", "migrate", "npu"),
        label(2, 20, "cuda", "migrate+report", "npu"),
        label(2, 29, "cuda", "migrate", "npu"),
        label(2, 40, "cuda", "keep"),
    ]
    places = judge(labels, BEFORE, after, [])
    result = score(places)
    assert (result.edits, result.right_edits, result.precision) == (2, 1, 0.5)
    assert (result.to_migrate, result.migrated, result.recall) == (2, 1, 0.5)
    assert (result.silent, result.reported_though_fine) == (2, 0)
    assert [line.split()[0] for line in format_problems(places).splitlines()] == ["silent", "missed", "wrong"]
    assert "50.00%  1 of 2 are right" in format_score(result)
    assert format_scores(places).startswith("round 1: 4 occurrences")


def test_the_labels_are_well_formed() -> None:
    labels = read_labels()
    assert len(labels) >= 400
    assert len({one.place for one in labels}) == len(labels)
    assert {one.package for one in labels} == {package.name for package in read_packages()}
    for one in labels:
        assert one.answers <= {"migrate", "keep", "report"}, one
        assert one.expected or "migrate" not in one.answers, one
        assert one.expected != one.word, one
