"""The events that an active profile notes.

Times are nanoseconds of `time.time_ns`. Light to import: `torch.npu.mstx` needs it.
"""

from __future__ import annotations

import bisect
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class OperatorEvent:
    """One operator on an NPU, which is one kernel here: shapes and dtypes of its tensors, and the step it ran in.

    `on_cpu` says that the NPU lacks the operator, so that it ran on the CPU.
    """

    name: str
    start: int
    end: int
    device: int
    step: int | None
    input_shapes: tuple[str, ...] = ()
    input_types: tuple[str, ...] = ()
    output_shapes: tuple[str, ...] = ()
    output_types: tuple[str, ...] = ()
    on_cpu: bool = False


@dataclass(frozen=True)
class CopyEvent:
    """A copy between host and device of `size` bytes; `to_device` gives its direction."""

    start: int
    end: int
    device: int
    step: int | None
    size: int
    to_device: bool


@dataclass
class CollectiveEvent:
    """One collective of this rank: called at `start`, begun when all ranks had called it, over at `end`.

    `sent` is the bytes that the rank has for each rank of the group, whose global ranks are `ranks`.
    """

    name: str
    group: str
    rank: int
    ranks: tuple[int, ...]
    sent: tuple[int, ...]
    device: int
    step: int | None
    start: int
    begun: int = 0
    end: int = 0

    @property
    def is_message(self) -> bool:
        """Return whether it is between two ranks."""
        return self.name in ("send", "receive")


@dataclass(frozen=True)
class HostEvent:
    """An event of the host that PyTorch's profiler saw; `kind` is the category in the trace."""

    name: str
    kind: str
    start: int
    end: int
    thread: int
    shapes: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    sequence: int = -1
    forward_thread: int = 0
    flops: int = 0
    stack: tuple[str, ...] = ()


@dataclass
class BlockEvent:
    """The life of a block of device memory, in bytes; totals are those of its NPU when it was made and freed.

    `allocated` and `freed` are times; one of them is 0 when it lies outside the profile.
    """

    size: int
    device: int
    step: int | None = None
    allocated: int = 0
    freed: int = 0
    total_then: int = 0
    reserved_then: int = 0
    total_after: int = 0
    reserved_after: int = 0


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
    copies: list[CopyEvent] = field(default_factory=list)
    collectives: list[CollectiveEvent] = field(default_factory=list)
    host: list[HostEvent] = field(default_factory=list)
    blocks: list[BlockEvent] = field(default_factory=list)
    ranges: list[Range] = field(default_factory=list)
    steps: list[tuple[int, int, int]] = field(default_factory=list)  # number, start, end
    window: tuple[int, int] = (0, 0)  # of the whole profile

    @property
    def devices(self) -> list[int]:
        """The NPUs that something happened on."""
        events: list[OperatorEvent | CopyEvent | CollectiveEvent] = [*self.operators, *self.copies]
        return sorted({event.device for event in [*events, *self.collectives]})


class Callers:
    """Finds the innermost operator of the host that runs at a moment, among events in order of time."""

    _DEEPEST = 64  # events that begin between an operator and what it calls

    def __init__(self, events: Sequence[HostEvent]) -> None:
        self._places = [place for place, event in enumerate(events) if event.kind == "cpu_op"]
        self._spans = [(events[place].start, events[place].end) for place in self._places]

    def place(self, moment: int) -> int | None:
        """Return the place, among those given, of the innermost event that runs at `moment`, or None."""
        last = bisect.bisect_right(self._spans, (moment, sys.maxsize))
        for i in range(last - 1, max(last - self._DEEPEST, 0) - 1, -1):
            if self._spans[i][1] >= moment:
                return self._places[i]
        return None


def forward_and_backward(events: Sequence[HostEvent]) -> Iterator[tuple[int, int]]:
    """The places of operators that autograd recorded and of what ran backward for them."""
    forward: dict[tuple[int, int], int] = {}
    for place, event in enumerate(events):
        if event.sequence < 0:
            continue
        if not event.forward_thread:
            forward[event.thread, event.sequence] = place  # the innermost comes last
            continue
        begun = forward.pop((event.forward_thread, event.sequence), None)
        if begun is not None:
            yield begun, place


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
