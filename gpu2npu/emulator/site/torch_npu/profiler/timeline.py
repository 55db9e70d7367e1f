"""The time of a device, divided into computing, communicating, and neither."""

from __future__ import annotations

from dataclasses import dataclass

from . import intervals
from .intervals import Interval
from .recording import Recording

LAUNCH = 1000  # nanoseconds that a launch is drawn to take; here it takes none


@dataclass(frozen=True)
class Timeline:
    """One NPU's time in a window: sorted intervals that do not touch, in nanoseconds.

    `free` is where it neither computes nor communicates, copies to and from the host included.
    """

    computing: list[Interval]
    communication: list[Interval]
    uncovered: list[Interval]
    free: list[Interval]

    @property
    def overlapped(self) -> int:
        """Nanoseconds in which it does both."""
        return intervals.total(self.communication) - intervals.total(self.uncovered)


def timeline(recording: Recording, device: int, window: Interval | None = None) -> Timeline:
    """An NPU's timeline, from its first to its last work or in a window."""
    computing = [(event.start, event.end) for event in recording.operators if event.device == device]
    communication = [(event.start, event.end) for event in recording.collectives if event.device == device]
    copies = [(event.start, event.end) for event in recording.copies if event.device == device]
    if window is None:
        busy = intervals.union((*computing, *communication, *copies))
        window = (busy[0][0], busy[-1][1]) if busy else (0, 0)
    start, end = window
    computed = intervals.clipped(computing, start, end)
    communicated = intervals.clipped(communication, start, end)
    return Timeline(
        computed,
        communicated,
        intervals.difference(communicated, computed),
        intervals.difference([window], (*computed, *communicated)),
    )


def microseconds(nanoseconds: int) -> str:
    """A time or a duration as the files write it: exact, which a float of today's time is not."""
    return f"{nanoseconds // 1000}.{nanoseconds % 1000:03d}"
