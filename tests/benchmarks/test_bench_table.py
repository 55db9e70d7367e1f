"""Tests of what the benchmark prints."""

import pytest

from benchmarks.table import Row, format_startup, format_table

OURS = Row("gpu2npu", 120_000, (4.0, 2.0, 3.0))
YARDSTICK = Row("libcst", 120_000, (8.0,))


def test_a_row_is_judged_by_its_median_round():
    assert OURS.median == 3.0
    assert OURS.speed == pytest.approx(40_000)


def test_the_table_shows_the_speed_as_a_multiple_of_the_yardstick():
    header, ours, yardstick = format_table([OURS, YARDSTICK], YARDSTICK).splitlines()
    assert header.split() == ["median", "s", "min", "s", "max", "s", "lines", "lines/s", "x", "libcst"]
    assert ours.split() == ["gpu2npu", "3.00", "2.00", "4.00", "120,000", "40,000", "2.67"]
    assert yardstick.split() == ["libcst", "8.00", "8.00", "8.00", "120,000", "15,000", "1.00"]
    assert len({len(header), len(ours), len(yardstick)}) == 1


def test_start_up_is_stated_by_best_and_median():
    assert format_startup("gpu2npu --help", [0.3, 0.1, 0.2]) == "gpu2npu --help: best 0.100 s, median 0.200 s of 3 runs"
