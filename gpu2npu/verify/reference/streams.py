"""CUDA's streams and events, where all work is done at once and in order."""

from __future__ import annotations

import itertools
import time
from types import TracebackType
from typing import Any

from gpu2npu.verify.reference import device_index

_numbers = itertools.count(1)


class Stream:
    """A stream: work on it is done when it is asked for."""

    def __init__(self, device: Any = None, priority: int = 0, *, stream_id: int | None = None, **other: Any) -> None:
        self.device_index = device_index.index_of(device)
        self.stream_id = next(_numbers) if stream_id is None else stream_id
        self.priority = priority
        self._previous: list[Stream] = []

    @property
    def cuda_stream(self) -> int:
        return self.stream_id

    @property
    def device(self) -> Any:
        import torch

        return torch.device("cuda", self.device_index)

    def query(self) -> bool:
        return True

    def is_capturing(self) -> bool:
        return False

    def synchronize(self) -> None:
        """All work is done."""

    def wait_event(self, event: Event) -> None:
        """All events have happened."""

    def wait_stream(self, stream: Stream) -> None:
        """All work is done."""

    def record_event(self, event: Event | None = None) -> Event:
        event = event or Event()
        event.record(self)
        return event

    def __enter__(self) -> Stream:
        self._previous.append(current_stream(self.device_index))
        set_stream(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        set_stream(self._previous.pop())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and (other.device_index, other.stream_id) == (
            self.device_index,
            self.stream_id,
        )

    def __hash__(self) -> int:
        return hash((self.device_index, self.stream_id))

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device=cuda:{self.device_index} cuda_stream={self.stream_id:#x}>"


_current: dict[int, Stream] = {}


def default_stream(device: Any = None) -> Stream:
    """The GPU's stream number 0."""
    return Stream(device, stream_id=0)


def current_stream(device: Any = None) -> Stream:
    """The GPU's current stream."""
    index = device_index.index_of(device)
    return _current.get(index) or default_stream(index)


def set_stream(stream: Stream | None) -> None:
    """Make a stream its GPU's current one."""
    if stream is not None:
        _current[stream.device_index] = stream


class StreamContext:
    """Context manager that makes a stream current; None changes nothing."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            self.stream.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.stream is not None:
            self.stream.__exit__(kind, error, trace)


def synchronize(device: Any = None) -> None:
    """All work is done: this only checks that there is such a GPU."""
    device_index.index_of(device)


class Event:
    """A moment on a stream."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        self._timed = enable_timing
        self._seconds: float | None = None

    def record(self, stream: Any = None) -> None:
        self._seconds = time.perf_counter()

    def wait(self, stream: Any = None) -> None:
        """It has happened."""

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        """It has happened."""

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds to another event.

        Raises:
            RuntimeError: One of the two measures no time or was not recorded.
        """
        if not (self._timed and end_event._timed):
            raise RuntimeError("Both events must be created with argument 'enable_timing=True'.")
        if self._seconds is None or end_event._seconds is None:
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        return (end_event._seconds - self._seconds) * 1000
