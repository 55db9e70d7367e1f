"""The GPUs that there are, and the current one, per thread as with CUDA."""

from __future__ import annotations

import os
import threading
from types import TracebackType
from typing import Any

import torch

_count = 0


class _Current(threading.local):
    index = 0


_current = _Current()


def set_count(gpus: int) -> None:
    """Let the machine have that many GPUs."""
    global _count
    _count = gpus


def device_count() -> int:
    """Count the visible GPUs: all, less what CUDA_VISIBLE_DEVICES hides."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is None:
        return _count
    visible = 0
    for word in chosen.split(","):
        if not word.strip().isdigit() or int(word) >= _count:
            break  # CUDA sees those before the first that it does not know
        visible += 1
    return visible


def current_device() -> int:
    """The number of this thread's current GPU."""
    return _current.index


def index_of(device: Any) -> int:
    """The number that a device, an index, or None (the current one) means.

    Raises:
        ValueError: The device is of another type.
        RuntimeError: There is no such GPU.
    """
    if device is None:
        return _current.index
    if isinstance(device, str):
        device = torch.device(device)
    if isinstance(device, torch.device):
        if device.type != "cuda":
            raise ValueError(f"Expected a cuda device, but got: {device}")
        if device.index is None:
            return _current.index
        device = device.index
    index = int(device)
    if not 0 <= index < device_count():
        raise RuntimeError("CUDA error: invalid device ordinal")
    return index


def set_device(device: Any) -> None:
    """Make a GPU the thread's current one; a negative number changes nothing."""
    if isinstance(device, int) and device < 0:
        return
    _current.index = index_of(device)


class device:  # noqa: N801
    """Context manager that changes the current GPU; None or a negative number changes nothing."""

    def __init__(self, device: Any) -> None:
        self.idx = -1 if device is None or (isinstance(device, int) and device < 0) else index_of(device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        self.prev_idx = _current.index
        set_device(self.idx)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _current.index = self.prev_idx


class device_of(device):  # noqa: N801
    """Context manager that makes the GPU of a tensor current; nothing for one that is not on a GPU."""

    def __init__(self, tensor: torch.Tensor) -> None:
        super().__init__(tensor.get_device() if tensor.is_cuda else -1)
