"""Adaptive pooling: output cell i covers input rows floor(i * in / out) up to ceil((i + 1) * in / out)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from math import prod

import numpy as np

from gpu2npu.emulator.kernels.nn.pool import scattered
from gpu2npu.emulator.kernels.promotion import I64, Array, rounded, wide
from gpu2npu.emulator.kernels.registry import kernel
from gpu2npu.emulator.kernels.sampling.separable import Matrix, applied, matrix_of


def _cells(size: int, out: int) -> list[tuple[int, int]]:
    return [(i * size // out, -(-(i + 1) * size // out)) for i in range(out)]


@lru_cache(maxsize=64)
def _averaging(size: int, out: int) -> Matrix:
    """The matrix (out, size) that averages over the cells."""
    starts, ends = np.array(_cells(size, out), I64).reshape(out, 2).T
    widths = ends - starts
    rows = np.repeat(np.arange(out), widths)
    columns = np.arange(rows.size) - np.repeat(np.cumsum(widths) - widths, widths) + starts[rows]
    return matrix_of(rows, columns, 1 / widths[rows], (out, size))


def _whole(output_size: Sequence[int]) -> bool:
    return all(size == 1 for size in output_size)


@kernel("aten::_adaptive_avg_pool2d", "aten::_adaptive_avg_pool3d")
def adaptive_average_pool(self: Array, output_size: Sequence[int]) -> Array:
    """The mean of each cell, over the last two or three dimensions."""
    x, count = wide(self), len(output_size)
    if _whole(output_size):
        axes = tuple(range(x.ndim - count, x.ndim))
        return rounded(np.mean(x, axis=axes, keepdims=True), self.dtype)
    matrices = [_averaging(size, out) for size, out in zip(x.shape[x.ndim - count :], output_size, strict=True)]
    return rounded(applied(x, matrices), self.dtype)


def _average_backward(count: int, grad_output: Array, self: Array) -> Array:
    """The gradient of each cell's mean, spread over the cell, of `count` dimensions."""
    grad = wide(grad_output)
    spatial, out = self.shape[self.ndim - count :], grad.shape[grad.ndim - count :]
    if _whole(out):
        return rounded(
            np.ascontiguousarray(np.broadcast_to(grad / grad.dtype.type(prod(spatial)), self.shape)), self.dtype
        )
    matrices = [_averaging(size, each).T for size, each in zip(spatial, out, strict=True)]
    return rounded(applied(grad, matrices), self.dtype)


@kernel("aten::adaptive_max_pool2d", "aten::adaptive_max_pool3d")
def adaptive_max_pool(self: Array, output_size: Sequence[int]) -> tuple[Array, Array]:
    """The maximum of each cell and its index within the channel's plane."""
    count = len(output_size)
    spatial, lead = self.shape[self.ndim - count :], self.shape[: self.ndim - count]
    x = wide(self).reshape(prod(lead), *spatial)
    values = np.empty((x.shape[0], *output_size), x.dtype)
    indices = np.empty(values.shape, I64)
    positions = np.arange(prod(spatial), dtype=I64).reshape(spatial)
    cells = [_cells(size, out) for size, out in zip(spatial, output_size, strict=True)]
    for place in np.ndindex(*output_size):
        span = tuple(slice(*cells[axis][i]) for axis, i in enumerate(place))
        covered = (slice(None), *span)
        patch = x[covered].reshape(x.shape[0], positions[span].size)
        found = np.argmax(patch, axis=1)
        cell = (slice(None), *place)
        values[cell] = np.take_along_axis(patch, found[:, None], 1)[:, 0]
        indices[cell] = positions[span].reshape(-1)[found]
    shape = (*lead, *output_size)
    return rounded(values, self.dtype).reshape(shape), indices.reshape(shape)


def _max_backward(count: int, grad_output: Array, self: Array, indices: Array) -> Array:
    """The gradient of each cell's maximum, added up where the maxima came from, of `count` dimensions."""
    spatial = self.shape[self.ndim - count :]
    grad = scattered(grad_output, indices, prod(self.shape[: self.ndim - count]), prod(spatial))
    return grad.reshape(self.shape).astype(grad_output.dtype)


for _count in (2, 3):
    kernel(f"aten::_adaptive_avg_pool{_count}d_backward")(partial(_average_backward, _count))
    kernel(f"aten::adaptive_max_pool{_count}d_backward")(partial(_max_backward, _count))
