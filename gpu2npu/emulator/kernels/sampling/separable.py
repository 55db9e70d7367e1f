"""Linear maps applied to each spatial dimension in turn: what resizing, padding and adaptive averaging have in common.

A map from `size` to `out` elements is a matrix (out, size); its gradient is the transposed matrix. A large one is
sparse: of a signal of a million samples, a dense one would have that number squared.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, TypeAlias

import numpy as np

from gpu2npu.emulator.kernels.promotion import Array

Matrix: TypeAlias = Any  # an array, or one of scipy.sparse
_DENSE = 1 << 20  # elements that a dense matrix may have


def matrix_of(rows: Array, columns: Array, values: Array | float, shape: tuple[int, int]) -> Matrix:
    """The matrix with values at these places; those of one place add up."""
    values = np.broadcast_to(np.asarray(values, np.float32), rows.shape)
    if shape[0] * shape[1] > _DENSE:
        return import_module("scipy.sparse").coo_array((values, (rows, columns)), shape).tocsr()
    matrix = np.zeros(shape, np.float32)
    np.add.at(matrix, (rows, columns), values)
    return matrix


def applied(x: Array, matrices: Sequence[Matrix]) -> Array:
    """One matrix to each of the last dimensions, contiguous."""
    for axis, matrix in zip(range(x.ndim - len(matrices), x.ndim), matrices, strict=True):
        if isinstance(matrix, np.ndarray):
            moved = np.matmul(np.moveaxis(x, axis, -1), matrix.T.astype(x.dtype, copy=False))
            x = np.moveaxis(moved, -1, axis)
        else:
            first = np.moveaxis(x, axis, 0)
            moved = matrix.astype(x.dtype, copy=False) @ first.reshape(first.shape[0], -1)
            x = np.moveaxis(moved.reshape(-1, *first.shape[1:]), 0, axis)
    return np.ascontiguousarray(x)


def selection(indices: Array, size: int) -> Matrix:
    """The matrix (len(indices), size) that picks these elements."""
    return matrix_of(np.arange(indices.size), indices, 1, (indices.size, size))


def taken(x: Array, indices: Sequence[Array]) -> Array:
    """The elements that `selection` would pick along each of the last dimensions."""
    for axis, each in zip(range(x.ndim - len(indices), x.ndim), indices, strict=True):
        x = np.take(x, each, axis=axis)
    return x
