"""The parts of events and streams that `torch.npu` and `torch.cuda` share where all work is done at once."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any


class TimedEvent:
    """A moment on a stream. With `enable_timing`, `elapsed_time` measures real time."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        self._timed = enable_timing
        self._seconds: float | None = None

    def record(self, stream: object = None) -> None:
        """Mark this moment."""
        self._seconds = time.perf_counter()

    def wait(self, stream: object = None) -> None:
        """Work that follows on the stream waits for the event; it has happened already."""

    def query(self) -> bool:
        """Return whether all work before the event is done."""
        return True

    def synchronize(self) -> None:
        """Wait for the event."""

    def elapsed_time(self, end_event: TimedEvent) -> float:
        """Milliseconds from this event to the other.

        Raises:
            RuntimeError: One of the two measures no time or was not recorded.
        """
        if not (self._timed and end_event._timed):
            raise RuntimeError("Both events must be created with argument 'enable_timing=True'.")
        if self._seconds is None or end_event._seconds is None:
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        return (end_event._seconds - self._seconds) * 1000


class StreamContext:
    """Context manager that makes a stream and its device current; None changes nothing."""

    def __init__(self, stream: AbstractContextManager[Any] | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            self.stream.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.stream is not None:
            self.stream.__exit__(kind, error, trace)
