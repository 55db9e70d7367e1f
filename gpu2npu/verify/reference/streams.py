"""CUDA's streams and events, where all work is done at once and in order."""

from __future__ import annotations

import itertools
from types import TracebackType
from typing import Any

import torch

from gpu2npu.emulator.device.events import TimedEvent
from gpu2npu.verify.reference import visible_gpus

_CUDA = torch._C._autograd.DeviceType.CUDA.value
_numbers = itertools.count(1)


class Stream(torch.Stream):
    """A stream: work on it is done when it is asked for."""

    def __new__(cls, device: Any = None, priority: int = 0, *, stream_id: int | None = None, **other: Any) -> Stream:
        number = next(_numbers) if stream_id is None else stream_id
        index = visible_gpus.index_of(device)
        return super().__new__(cls, stream_id=number, device_index=index, device_type=_CUDA)  # type: ignore[call-overload, no-any-return]

    def __init__(self, device: Any = None, priority: int = 0, **other: Any) -> None:
        self.priority = priority
        self._previous: list[Stream] = []

    @property
    def cuda_stream(self) -> int:
        return self.stream_id

    def query(self) -> bool:
        return True

    def is_capturing(self) -> bool:
        return False

    def synchronize(self) -> None:
        """All work is done."""

    def wait_event(self, event: Any) -> None:
        """All events have happened."""

    def wait_stream(self, stream: torch.Stream) -> None:
        """All work is done."""

    def record_event(self, event: Event | None = None) -> Event:  # type: ignore[override]
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
    index = visible_gpus.index_of(device)
    return _current.get(index) or default_stream(index)


def set_stream(stream: Stream | None) -> None:
    """Make a stream its GPU's current one."""
    if stream is not None:
        _current[stream.device_index] = stream


def synchronize(device: Any = None) -> None:
    """All work is done: this only checks that there is such a GPU."""
    visible_gpus.index_of(device)


class Event(TimedEvent):
    """A moment on a stream."""
