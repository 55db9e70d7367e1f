"""What an active profile notes: the operators that ran on the NPU, and marks and ranges of the user's own.

Times are nanoseconds of `time.time_ns`. Light to import: `torch.npu.mstx` needs it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass(frozen=True)
class OperatorEvent:
    """One operator on an NPU: shapes and dtypes of its tensors, and the step it ran in."""

    name: str
    start: int
    end: int
    device: int
    step: int | None
    input_shapes: tuple[str, ...] = ()
    input_types: tuple[str, ...] = ()
    output_shapes: tuple[str, ...] = ()
    output_types: tuple[str, ...] = ()
    allocated: int = 0  # bytes on the device afterwards


@dataclass
class Range:
    """A mark (start and end are equal) or a range by `torch.npu.mstx`."""

    message: str
    domain: str
    start: int
    end: int


@dataclass
class Recording:
    """All that one profile notes while it is active."""

    operators: list[OperatorEvent] = field(default_factory=list)
    ranges: list[Range] = field(default_factory=list)
    steps: list[tuple[int, int, int]] = field(default_factory=list)  # number, start, end


_active: list[Recording] = []
_open: dict[int, tuple[str, str, int]] = {}
_numbers = iter(range(1, 1 << 62))


def activate(recording: Recording) -> None:
    """Let a recording note what happens from now on."""
    _active.append(recording)


def deactivate(recording: Recording) -> None:
    """End what `activate` began."""
    if recording in _active:
        _active.remove(recording)


def mark(message: str, domain: str) -> None:
    """Note this moment."""
    now = time.time_ns()
    for recording in _active:
        recording.ranges.append(Range(message, domain, now, now))


def begin_range(message: str, domain: str) -> int:
    """Begin a range and return its number."""
    number = next(_numbers)
    _open[number] = (message, domain, time.time_ns())
    return number


def end_range(number: int) -> None:
    """End a range; an unknown number is ignored, as torch_npu does."""
    begun = _open.pop(number, None)
    if begun is None:
        return
    message, domain, start = begun
    for recording in _active:
        recording.ranges.append(Range(message, domain, start, time.time_ns()))
