"""The NPUs that a process sees, the current one, and the number that a device argument means."""

from __future__ import annotations

import os
import threading
from types import TracebackType
from typing import TypeAlias

import torch

DeviceLike: TypeAlias = torch.device | int | str | None

_MOST = 128  # torch numbers devices with eight bits


class _Current(threading.local):
    """As with a real NPU, the current device belongs to the thread."""

    index = 0


_current = _Current()
_count: int | None = None


def device_count() -> int:
    """Count the visible NPUs: GPU2NPU_NPUS (8), limited by ASCEND_RT_VISIBLE_DEVICES."""
    global _count
    if _count is None:
        _count = len(visible_npus())
    return _count


def visible_npus() -> tuple[int, ...]:
    """The physical numbers of the visible NPUs; like CUDA's, the list ends at the first number that does not exist."""
    text = os.environ.get("GPU2NPU_NPUS", "8")
    if not text.isdecimal() or int(text) > _MOST:
        raise RuntimeError(f"GPU2NPU_NPUS is {text!r}: give the number of emulated NPUs, 0 to {_MOST}")
    installed = int(text)
    chosen = os.environ.get("ASCEND_RT_VISIBLE_DEVICES")
    if chosen is None:
        return tuple(range(installed))
    visible: list[int] = []
    for item in chosen.split(","):
        if not item.strip().isdecimal() or int(item) >= installed or int(item) in visible:
            break
        visible.append(int(item))
    return tuple(visible)


def current_device() -> int:
    """The number of the thread's current NPU."""
    return _current.index


def set_device(device: DeviceLike) -> None:
    """Make the device the thread's current one; a negative number changes nothing, as in torch.cuda."""
    if isinstance(device, int) and device < 0:
        return
    _current.index = index_of(device)


def index_of(device: DeviceLike) -> int:
    """The number that a device, a string or a number names; None and a bare "npu" name the current device.

    Raises:
        ValueError: It is not an NPU.
        RuntimeError: There is no such NPU.
    """
    if device is None:
        return _current.index
    if isinstance(device, str):
        device = torch.device(device)
    if isinstance(device, torch.device):
        if device.type != "npu":
            raise ValueError(f"Expected a npu device, but got: {device}")
        if device.index is None:
            return _current.index
        device = device.index
    return check(int(device))


def check(index: int) -> int:
    """The number itself, if there is such an NPU; otherwise the runtime's error."""
    if not 0 <= index < device_count():
        raise RuntimeError(
            f"Invalid NPU device ordinal: npu:{index} (visible NPUs: {device_count()}). Check GPU2NPU_NPUS and "
            "ASCEND_RT_VISIBLE_DEVICES"
        )
    return index


class device:  # noqa: N801
    """Context manager that changes the current NPU; None or a negative number changes nothing."""

    def __init__(self, device: DeviceLike) -> None:
        self.idx = -1 if device is None else device if isinstance(device, int) and device < 0 else index_of(device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        self.prev_idx = _current.index
        set_device(self.idx)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _current.index = self.prev_idx


class device_of(device):  # noqa: N801
    """Context manager that makes the NPU of a tensor or storage current; nothing for one that is not on an NPU."""

    def __init__(self, tensor: torch.Tensor | torch.UntypedStorage | torch.TypedStorage) -> None:
        super().__init__(tensor.device.index if tensor.device.type == "npu" else -1)
