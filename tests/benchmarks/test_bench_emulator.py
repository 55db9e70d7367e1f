"""The emulator's benchmark prints each measured step beside its goal, a multiple of torch's time."""

import pytest

from benchmarks.emulator import GOALS, NAMES, row
from benchmarks.emulator_steps import CALLS


def test_every_step_has_a_goal():
    assert GOALS.keys() == NAMES.keys()


@pytest.mark.parametrize(("name", "goal"), GOALS.items())
def test_rows_end_with_ratio_and_goal(name, goal):
    assert row(name, 0.002, 0.005).split()[-3:] == ["2.50", f"{goal:.1f}", "x"]


def test_the_small_operator_is_shown_in_microseconds_a_call():
    assert "2.0 us" in row("small operator", 2e-6 * CALLS, 5e-6 * CALLS)


def test_goals_are_those_of_the_documentation(request):
    page = (request.config.rootpath / "docs" / "emulator.md").read_text()
    for name, goal in GOALS.items():
        subject = NAMES[name].replace("x + y", "`x + y`")
        assert f"| {subject} | {goal:.1f} x |" in page
