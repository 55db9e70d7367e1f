"""The devices of one type that a process sees, and the current one of each thread: those of torch.npu or torch.cuda."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import ClassVar, TypeAlias

import torch

DeviceLike: TypeAlias = torch.device | int | str | None


class _Current(threading.local):
    index = 0


class VisibleDevices:
    """`kind` is the type of device by torch's name, "npu" or "cuda"; `count` gives their number, and `missing` the
    message for a number that no device has."""

    def __init__(self, kind: str, count: Callable[[], int], missing: Callable[[int], str]) -> None:
        self.kind, self._count, self._missing = kind, count, missing
        self._current = _Current()

    def current_device(self) -> int:
        """The number of the thread's current device."""
        return self._current.index

    def set_device(self, device: DeviceLike) -> None:
        """Make the device the thread's current one; a negative number changes nothing."""
        if isinstance(device, int) and device < 0:
            return
        self._current.index = self.index_of(device)

    def restore(self, index: int) -> None:
        """Make a number that `current_device` gave the current one again, also where there are no devices."""
        self._current.index = index

    def index_of(self, device: DeviceLike) -> int:
        """The number that a device, a string or a number names; None and a bare type name the current device.

        Raises:
            ValueError: The device is of another type.
            RuntimeError: There is no such device.
        """
        if device is None:
            return self._current.index
        if isinstance(device, str):
            device = torch.device(device)
        if isinstance(device, torch.device):
            if device.type != self.kind:
                raise ValueError(f"Expected a {self.kind} device, but got: {device}")
            if device.index is None:
                return self._current.index
            device = device.index
        return self.check(int(device))

    def check(self, index: int) -> int:
        """The number itself. Raises RuntimeError, as the runtime does, where there is no such device."""
        if not 0 <= index < self._count():
            raise RuntimeError(self._missing(index))
        return index


class DeviceContext:
    """Context manager that changes the current device of a type; None or a negative number changes nothing."""

    devices: ClassVar[VisibleDevices]

    def __init__(self, device: DeviceLike) -> None:
        negative = device is None or (isinstance(device, int) and device < 0)
        self.idx = -1 if negative else self.devices.index_of(device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        self.prev_idx = self.devices.current_device()
        self.devices.set_device(self.idx)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.devices.restore(self.prev_idx)
