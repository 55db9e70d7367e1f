"""Linear maps applied to each spatial dimension in turn: what resizing, padding and adaptive averaging have in common.

A map from `size` to `out` elements is a matrix (out, size); its gradient is the transposed matrix.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpu2npu.emulator.kernels.promotion import Array


def applied(x: Array, matrices: Sequence[Array]) -> Array:
    """One matrix to each of the last dimensions, contiguous."""
    for axis, matrix in zip(range(x.ndim - len(matrices), x.ndim), matrices, strict=True):
        moved = np.matmul(np.moveaxis(x, axis, -1), matrix.T.astype(x.dtype, copy=False))
        x = np.moveaxis(moved, -1, axis)
    return np.ascontiguousarray(x)


def selection(indices: Array, size: int) -> Array:
    """The matrix (len(indices), size) that picks these elements."""
    matrix = np.zeros((indices.size, size), np.float32)
    matrix[np.arange(indices.size), indices] = 1
    return matrix


def taken(x: Array, indices: Sequence[Array]) -> Array:
    """The elements that `selection` would pick along each of the last dimensions."""
    for axis, each in zip(range(x.ndim - len(indices), x.ndim), indices, strict=True):
        x = np.take(x, each, axis=axis)
    return x
