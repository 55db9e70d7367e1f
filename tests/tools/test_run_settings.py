"""`make test-settings`: settings that hold together, and runs that are not repeated."""

from pathlib import Path

import pytest

from tools.run_settings import Record, Run, combined


def test_settings_joined_hold_in_one_run() -> None:
    setting = combined("omp-8+aten-avx2+busy+python-3.12")
    assert setting.environment == {"OMP_NUM_THREADS": "8", "ATEN_CPU_CAPABILITY": "avx2"}
    assert (setting.python, setting.busy) == ("3.12", True)
    assert not combined("omp-8").busy


@pytest.mark.parametrize("name", ["omp-1+omp-8", "aten-default+sse", "python-3.10+python-3.12"])
def test_settings_that_exclude_each_other(name: str) -> None:
    with pytest.raises(ValueError, match="exclude each other"):
        combined(name)


def test_unknown_settings_are_named() -> None:
    with pytest.raises(ValueError, match=r"no such setting: omp-3; choose from as-it-is, omp-1"):
        combined("omp-1+omp-3")


def test_recorded_runs_of_another_commit_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "runs"
    first = Record(path, "a")
    first.add(Run("omp-1", 1, passed=True, line="3 passed"))
    first.add(Run("omp-2", 1, passed=False, line="1 failed"))
    assert Record(path, "a").of("omp-1") == [Run("omp-1", 1, passed=True, line="3 passed")]
    assert [run.passed for run in Record(path, "a").of("omp-2")] == [False]
    assert not Record(path, "b").of("omp-1")
