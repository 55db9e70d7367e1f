"""Streams and events. The emulated NPU finishes each operator before it returns, so that all orders are kept.

Collectives alone go on in the background, as on streams of their own: the device's synchronization waits for them,
that of another stream does not.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

import torch

from gpu2npu.emulator.device import visible_npus
from gpu2npu.emulator.device.events import StreamContext, TimedEvent
from gpu2npu.emulator.registration import untraced

_PRIVATEUSE1 = torch._C._autograd.DeviceType.PrivateUse1.value
_numbers = itertools.count(1)


class Stream(torch.Stream):
    """A queue of work on one NPU."""

    def __new__(cls, device: visible_npus.DeviceLike = None, priority: int = 0, **kwargs: Any) -> Stream:
        number = kwargs.get("stream_id")
        index = kwargs.get("device_index")
        return super().__new__(  # type: ignore[call-overload, no-any-return]
            cls,
            stream_id=next(_numbers) if number is None else number,
            device_index=visible_npus.index_of(device) if index is None else index,
            device_type=_PRIVATEUSE1,
        )

    def wait_stream(self, stream: torch.Stream) -> None:
        """Work that follows waits for the other stream; it is done already."""

    def wait_event(self, event: Any) -> None:
        """Work that follows waits for the event; it has happened already."""

    def record_event(self, event: Event | None = None) -> Event:  # type: ignore[override]
        """Record an event here and return it."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def query(self) -> bool:
        """Return whether all work is done."""
        return True

    def synchronize(self) -> None:
        """Wait for all work."""

    @property
    def priority(self) -> int:
        """0 whatever was asked for: nothing waits, so nothing is first."""
        return 0

    @property
    def npu_stream(self) -> int:
        """The stream's number, where a real one has a pointer."""
        return int(self.stream_id)

    def __enter__(self) -> Stream:  # type: ignore[override]
        _entered().append((visible_npus.current_device(), current_stream(self.device_index)))
        visible_npus.set_device(self.device_index)
        set_stream(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        device, previous = _entered().pop()
        set_stream(previous)
        visible_npus.set_device(device)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, torch.Stream)
            and other.stream_id == self.stream_id
            and other.device_index == self.device_index
            and other.device_type == self.device_type
        )

    def __hash__(self) -> int:
        return hash((self.device_index, self.stream_id))

    def __repr__(self) -> str:
        return f"<torch_npu.npu.Stream device=npu:{self.device_index} npu_stream={self.stream_id:#x}>"


class _Streams(threading.local):
    def __init__(self) -> None:
        self.current: dict[int, Stream] = {}
        self.entered: list[tuple[int, Stream]] = []


_streams = _Streams()


def _entered() -> list[tuple[int, Stream]]:
    return _streams.entered


def default_stream(device: visible_npus.DeviceLike = None) -> Stream:
    """The device's stream number 0."""
    return Stream(stream_id=0, device_index=visible_npus.index_of(device))


@untraced  # Dynamo asks for it at each function that it looks at
def current_stream(device: visible_npus.DeviceLike = None) -> Stream:
    """The thread's current stream on the device."""
    index = visible_npus.index_of(device)
    return _streams.current.get(index) or default_stream(index)


def set_stream(stream: Stream | None) -> None:
    """Make a stream the thread's current one on its device."""
    if stream is not None:
        _streams.current[stream.device_index] = stream


def set_stream_with_device(stream: Stream) -> None:
    """Make a stream the thread's current one, and its device the current device, as `torch.accelerator` does."""
    visible_npus.set_device(stream.device_index)
    set_stream(stream)


def stream(stream: Stream | None) -> StreamContext:
    """The context manager `torch.npu.stream(s)`."""
    return StreamContext(stream)


_background: list[Callable[[], None]] = []


def on_synchronize(wait: Callable[[], None]) -> None:
    """Have `synchronize` call what waits for work that goes on in the background."""
    _background.append(wait)


def synchronize(device: visible_npus.DeviceLike = None) -> None:
    """Wait for all work on the device: operators are done already, collectives perhaps not.

    Raises:
        torch.distributed.DistBackendError: A collective failed.
    """
    visible_npus.index_of(device)
    for wait in _background:
        wait()


class Event(TimedEvent):
    """A moment on a stream. With `enable_timing`, `elapsed_time` measures real time."""

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, external: bool = False
    ) -> None:
        super().__init__(enable_timing, blocking, interprocess)

    @property
    def device(self) -> torch.device:
        """The kind of device that it is of, without a number, as torch_npu's tests have it."""
        return torch.device("npu")

    def recorded_time(self) -> int:
        """The microseconds of the clock at which it was recorded. Raises RuntimeError where it was not."""
        if self._seconds is None:
            raise RuntimeError("The event was not recorded.")
        return int(self._seconds * 1e6)

    def __repr__(self) -> str:
        return f"<torch_npu.npu.Event {'uninitialized' if self._seconds is None else 'recorded'}>"


class _AlsoOfNPUs(type(torch.Event)):  # type: ignore[misc]
    def __instancecheck__(cls, instance: object) -> bool:
        """Return whether an object is an event of PyTorch or of an NPU."""
        return isinstance(instance, (torch._C.Event, Event))

    def __subclasscheck__(cls, subclass: type) -> bool:
        """Return whether a class is one of events of PyTorch or of an NPU."""
        return issubclass(subclass, (torch._C.Event, Event))


class AnyEvent(torch.Event, metaclass=_AlsoOfNPUs):
    """`torch.Event`, whose C++ asks the guard of a device written in Python, which has no events."""

    def __new__(cls, device: Any = None, **options: Any) -> Any:
        """Make the event of an NPU where that is the device, and that of PyTorch otherwise."""
        kind = torch.accelerator.current_accelerator() if device is None else torch.device(device)
        if kind is not None and kind.type == "npu":
            return Event(**options)
        return torch._C.Event.__new__(torch._C.Event, device, **options)
