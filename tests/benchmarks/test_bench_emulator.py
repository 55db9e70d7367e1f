"""The emulator's benchmark prints each measured step beside its goal, a multiple of torch's time."""

import pytest

from benchmarks.emulator import GOALS, NAMES, SMALL, row
from benchmarks.emulator_steps import CALLS, small_operators


def test_every_step_has_a_goal():
    assert GOALS.keys() == NAMES.keys() and SMALL.keys() == small_operators("cpu").keys()


@pytest.mark.parametrize(("name", "goal"), GOALS.items())
def test_rows_end_with_ratio_and_goal(name, goal):
    assert row(name, 0.002, 0.005).split()[-3:] == ["2.50", f"{goal:.1f}", "x"]


@pytest.mark.parametrize(("name", "goal"), SMALL.items())
def test_small_operators_are_shown_in_microseconds_a_call(name, goal):
    assert row(name, 2e-6 * CALLS, 5e-6 * CALLS).split()[-7:] == ["2.0", "us", "5.0", "us", "2.50", f"{goal:.1f}", "us"]


def test_goals_are_those_of_the_documentation(request):
    page = (request.config.rootpath / "docs" / "emulator.md").read_text()
    for name, goal in GOALS.items():
        assert f"| {NAMES[name]} | {goal:.1f} x |" in page
    for name, goal in SMALL.items():
        assert f"| `{name}` | {goal:g} us |" in page
