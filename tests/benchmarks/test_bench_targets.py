"""Tests of the targets of the migration and the check, and of how they are printed."""

import subprocess
import sys

import pytest

from benchmarks.run import Run, run
from benchmarks.targets import Target, _ratio, _seconds, format_targets


def test_a_run_is_measured_by_clock_processors_and_memory() -> None:
    taken = run([sys.executable, "-c", "x = b'x' * 200_000_000; sum(range(1_000_000))"])
    assert taken.cpu > 0 and taken.seconds > 0
    assert 0.2e9 < taken.peak < 0.4e9


def test_a_command_that_fails_says_so() -> None:
    with pytest.raises(subprocess.CalledProcessError):
        run([sys.executable, "-c", "raise SystemExit(3)"])
    run([sys.executable, "-c", "raise SystemExit(3)"], accepted=(3,))


def test_a_ratio_says_how_many_times_as_fast_ours_is() -> None:
    found = _ratio("x", [Run(6.0, 8.0, 1)] * 2, [Run(2.0, 4.0, 1), Run(2.0, 4.0, 1)], 5)
    assert (found.value, found.by_cpu) == (3.0, 2.0)


def test_seconds_are_those_of_the_median_round() -> None:
    found = _seconds("x", [Run(9.0, 3.0, 1), Run(5.0, 2.0, 1), Run(4.0, 1.0, 1)], 20)
    assert (found.value, found.by_cpu) == (5.0, 2.0)


def test_the_table_is_aligned() -> None:
    lines = format_targets([Target("migration", 2.5, 2.25, 3, "times"), Target("memory", 0.15, 0.15, 0.3, "GB")])
    assert lines.splitlines() == [
        "           measured  by cpu  asked",
        "migration      2.50    2.25      3  times",
        "memory         0.15    0.15    0.3  GB",
    ]
