"""Memory of NPU tensors whose values nobody computes: address space that takes no memory until it is touched."""

from __future__ import annotations

import math
import mmap
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from gpu2npu.emulator.device.memory import memory
from gpu2npu.emulator.device.tensor import NUMPY_DTYPES, Array, adopt, on_npu

_SMALL = 1 << 16  # bytes; what is smaller shares pages with others
# Not counted against what the system lets a process have, where it counts at all (mmap(2), MAP_NORESERVE).
_FLAGS = getattr(mmap, "MAP_PRIVATE", 0) | getattr(mmap, "MAP_ANONYMOUS", 0) | getattr(mmap, "MAP_NORESERVE", 0x4000)


def untouched(shape: Sequence[int], dtype: np.dtype[Any], strides: Sequence[int] | None = None) -> Array:
    """An array of zeros that takes no memory until somebody reads or writes it; `strides` count elements."""
    steps = None if strides is None else tuple(step * dtype.itemsize for step in strides)
    if steps is None:
        size = math.prod(shape) * dtype.itemsize
    else:
        size = dtype.itemsize + sum((n - 1) * step for n, step in zip(shape, steps, strict=True)) if all(shape) else 0
    if size < _SMALL:
        buffer: Any = np.zeros(max(size, 1), np.uint8)
        if steps is None:
            return np.zeros(shape, dtype)
    else:
        buffer = mmap.mmap(-1, size, flags=_FLAGS)
    return np.ndarray(shape, dtype, buffer, strides=steps)


def new(shape: Sequence[int], dtype: torch.dtype, index: int, strides: Sequence[int] | None = None) -> torch.Tensor:
    """A tensor on npu:`index`, in C order unless it has `strides`.

    Raises:
        torch.OutOfMemoryError: The NPU has no room for it.
    """
    kind = NUMPY_DTYPES.get(dtype)
    if kind is None:
        memory.check_room(math.prod(shape) * dtype.itemsize, index)
        if strides is None:
            return adopt(torch.empty(shape, dtype=dtype, device="cpu"), index)
        return adopt(torch.empty_strided(shape, strides, dtype=dtype, device="cpu"), index)
    if strides is not None and not all(shape):
        strides = None
    return on_npu(untouched(shape, kind, strides), index)
