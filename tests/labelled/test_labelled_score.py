"""The tool against labels that were written before it ran (see README.md here)."""

from __future__ import annotations

import pytest

from benchmarks.labels import TREES, format_problems, format_scores, judge_packages, score


@pytest.mark.long
def test_edits_are_right_and_few_are_missing() -> None:
    judged = judge_packages(TREES, jobs=1)
    result = score(judged)
    report = f"{format_problems(judged)}\n{format_scores(judged)}"
    assert result.precision >= 0.995, report
    assert result.recall >= 0.97, report
    assert result.silent <= 0.02 * result.places, report
