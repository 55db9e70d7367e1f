"""Distances between rows, and limits on them."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from gpu2npu.emulator.kernels.promotion import Array, rounded, wide
from gpu2npu.emulator.kernels.reduce.reduce import vector_norm
from gpu2npu.emulator.kernels.registry import kernel

_TOGETHER = 1 << 18  # differences that are in memory at once: every row of one with every row of the other is many


def _differences(x1: Array, x2: Array) -> Iterator[tuple[slice, Array]]:
    """Some rows of x1 at a time, and these less every row of x2: (*, rows, m, width)."""
    wide1, wide2 = wide(x1)[..., :, None, :], wide(x2)[..., None, :, :]
    batch = math.prod(np.broadcast_shapes(x1.shape[:-2], x2.shape[:-2]))
    rows = max(1, _TOGETHER // max(1, batch * x2.shape[-2] * x2.shape[-1]))
    for start in range(0, x1.shape[-2], rows):
        part = slice(start, start + rows)
        yield part, np.asarray(wide1[..., part, :, :] - wide2)


@kernel("aten::_cdist_forward")
def cdist(x1: Array, x2: Array, p: float, compute_mode: int | None) -> Array:
    """The p-norm distances of rows, (*, n, width) and (*, m, width) to (*, n, m)."""
    batch = np.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    found = np.zeros((*batch, x1.shape[-2], x2.shape[-2]), x1.dtype)
    if not x1.shape[-1]:
        return found
    for part, difference in _differences(x1, x2):
        found[..., part, :] = rounded(vector_norm(difference, p, [-1]), x1.dtype)
    return found


@kernel("aten::_cdist_backward")
def cdist_backward(grad: Array, x1: Array, x2: Array, p: float, cdist: Array) -> Array:
    """The gradient for x1; 0 where the distance is 0."""
    found = np.zeros((*np.broadcast_shapes(x1.shape[:-2], x2.shape[:-2]), *x1.shape[-2:]), x1.dtype)
    if not grad.size or not x1.size or p == 0:
        return found
    distances, scales = wide(cdist)[..., None], wide(grad)[..., None]
    for part, difference in _differences(x1, x2):
        distance, slope = distances[..., part, :, :], np.sign(difference)
        if p == np.inf:
            slope *= np.abs(difference) == distance
        elif p != 1:
            ratio = np.power(np.abs(difference) / distance, difference.dtype.type(p - 1))
            slope = np.where(distance == 0, difference.dtype.type(0), slope * ratio)
        found[..., part, :] = rounded(np.asarray((slope * scales[..., part, :, :]).sum(axis=-2)), x1.dtype)
    return found


@kernel("aten::_pdist_forward")
def pdist(self: Array, p: float = 2) -> Array:
    """The p-norm distances of every two different rows of (n, width): (n * (n - 1) / 2,)."""
    rows, x = self.shape[0], wide(self)
    found = np.empty(rows * (rows - 1) // 2, self.dtype)
    end = 0
    for row in range(rows - 1):
        start, end = end, end + rows - 1 - row
        found[start:end] = rounded(vector_norm(np.asarray(x[row] - x[row + 1 :]), p, [-1]), self.dtype)
    return found
