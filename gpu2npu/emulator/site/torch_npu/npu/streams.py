"""torch.npu.streams: queues of work and moments on them."""

from __future__ import annotations

from typing import Any

import torch

from gpu2npu.emulator.device.streams import Event, Stream
from gpu2npu.emulator.device.visible_npus import DeviceLike

__all__ = ["Event", "ExternalEvent", "ExternalStream", "Stream", "SyncLaunchStream"]


class SyncLaunchStream(Stream):
    """A stream whose work is launched at once, as on every stream of the emulated NPU."""


class ExternalStream(Stream):
    """A stream that another library made; its pointer becomes its number."""

    def __new__(cls, stream_ptr: int, device: DeviceLike = None, **kwargs: Any) -> ExternalStream:
        return super().__new__(cls, device, stream_id=stream_ptr, **kwargs)  # type: ignore[return-value]


class ExternalEvent(Event):
    """An event for work between graphs and what is outside of them; nothing ever waits here."""

    def __init__(self) -> None:
        super().__init__()

    def reset(self, stream: torch.Stream | None = None) -> None:
        """Let the event be recorded again."""
        self._seconds = None
