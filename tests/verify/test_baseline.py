"""Holding a program against its baseline: what is reported, what is too small to be, and files that cannot be read."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu2npu.verify.baseline import Run, StoredRuns, against, read_baseline, run_of, write_baseline
from gpu2npu.verify.recording.records import RecordedEvent, Recording, RecordingError, Tensor


def baseline(times: tuple[float, ...] = (1.0, 1.02, 0.98), loss: float = 2.0, memory: int = 1000) -> StoredRuns:
    """Three runs of three steps, the first of which takes ten times as long."""
    runs = tuple(Run((loss, loss / 2, loss / 3), (10 * time, time, time), (memory,) * 3) for time in times)
    return StoredRuns("the emulated Ascend910B2", "2.13.0", ("train.py",), runs)


BEFORE = baseline()


def what(now: StoredRuns, rounding: dict[int, float] | None = None) -> list[str]:
    return [change.what for change in against(BEFORE, now, rounding or {}).changes]


def test_the_same_program_changes_nothing() -> None:
    held = against(BEFORE, BEFORE, {})
    assert (held.changes, held.notes, held.runs) == ((), (), 3)


def test_a_slower_program_is_reported_with_ratio_and_noise() -> None:
    (change,) = against(BEFORE, baseline((1.5, 1.5, 1.56)), {}).changes
    assert (change.what, change.ratio, change.noise) == ("time", pytest.approx(1.5), pytest.approx(0.04 + 0.04))
    assert change.sentence == "A step is slower: 1.50 times as long as before; runs differ by 8%."
    assert "faster: 0.50" in against(BEFORE, baseline((0.5,)), {}).changes[0].sentence


@given(st.floats(0.7, 1.4), st.floats(0, 0.3))
def test_what_is_below_noise_is_not_reported(factor: float, spread: float) -> None:
    now = baseline((factor, factor * (1 - spread / 2), factor * (1 + spread / 2)))
    noise = max(0.05, 0.04 + spread)
    assert what(now) == (["time"] if abs(factor - 1) > noise else []) or abs(abs(factor - 1) - noise) < 1e-6


def test_memory_and_losses() -> None:
    assert what(baseline(memory=1040)) == [] and what(baseline(memory=1100)) == ["memory"]
    assert "1.20 times" in against(BEFORE, baseline(memory=1200), {}).changes[0].sentence
    (change,) = against(BEFORE, baseline(loss=2.001), {}).changes
    assert (change.what, change.step, change.before, change.now) == ("loss", 0, 2.0, 2.001)
    assert what(baseline(loss=2.001), dict.fromkeys(range(3), 1e-3)) == []  # as rounding may make it
    assert what(baseline(loss=float("nan"))) == ["loss"]


def test_times_of_another_device_are_not_compared() -> None:
    held = against(BEFORE, replace(baseline((9.0,)), device="Ascend910B4", command=("other.py",)), {})
    assert not held.changes
    assert "made on the emulated Ascend910B2" in held.notes[1] and "another command: train.py" in held.notes[0]


def test_a_run_is_the_first_ranks_with_the_memory_of_the_largest() -> None:
    def rank(memory: int) -> Recording:
        loss = Tensor((), "float32", 3.0, 3.0, 3.0, 0, (3.0,), None)  # type: ignore[arg-type]
        return Recording("", (RecordedEvent(0, "loss", "loss", tensor=loss),), (2.0,), cpu=(1.0,), memory=(memory,))

    ranks = (rank(5), rank(7))
    assert run_of(ranks, emulated=True) == Run((3.0,), (1.0,), (7,))
    assert run_of(ranks, emulated=False) == Run((3.0,), (2.0,), (7,))


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "baseline.json"
    write_baseline(file, BEFORE)
    assert read_baseline(file) == BEFORE
    assert [each.name for each in tmp_path.iterdir()] == ["baseline.json"]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"version": 2}, "is of version 2, and this gpu2npu reads up to 1"),
        ({"format": "gpu2npu reference"}, "is not a baseline"),
        ({"runs": []}, "it holds no run"),
        ({"runs": [{}]}, "is damaged"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(fields: dict[str, object], words: str, tmp_path: Path) -> None:
    file = tmp_path / "baseline.json"
    write_baseline(file, BEFORE)
    file.write_text(json.dumps(json.loads(file.read_text()) | fields))
    with pytest.raises(RecordingError, match=words):
        read_baseline(file)
    file.write_bytes(b"\xff")
    with pytest.raises(RecordingError, match="is not a baseline"):
        read_baseline(file)
