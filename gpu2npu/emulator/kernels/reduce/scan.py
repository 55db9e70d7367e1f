"""Running sums, products and extremes along a dimension."""

from __future__ import annotations

import numpy as np

from gpu2npu.emulator.kernels.promotion import F64, I64, Array, cast, compute_dtype, is_integral, rounded, wide
from gpu2npu.emulator.kernels.reduce.reduce import axes
from gpu2npu.emulator.kernels.registry import kernel


def _accumulate(self: Array, ufunc: np.ufunc, dim: int, dtype: np.dtype | None) -> Array:
    target = dtype or (I64 if is_integral(self.dtype) else self.dtype)
    axis = axes(self, dim)
    x = cast(self, compute_dtype(target))
    if axis is None:
        return rounded(x.copy(), target)
    # A running float32 sum loses a digit every few thousand terms.
    accumulator = F64 if x.dtype.kind == "f" else x.dtype
    return ufunc.accumulate(x, axis=axis[0], dtype=accumulator).astype(target)


@kernel("aten::cumsum")
def cumsum(self: Array, dim: int, *, dtype: np.dtype | None = None) -> Array:
    """The running sum along a dimension; of integers and bool in int64."""
    return _accumulate(self, np.add, dim, dtype)


@kernel("aten::cumprod")
def cumprod(self: Array, dim: int, *, dtype: np.dtype | None = None) -> Array:
    """The running product along a dimension; of integers and bool in int64."""
    return _accumulate(self, np.multiply, dim, dtype)


@kernel("aten::logcumsumexp")
def logcumsumexp(self: Array, dim: int) -> Array:
    """The logarithm of the running sum of exponentials along a dimension."""
    return _accumulate(self, np.logaddexp, dim, None)


def _running_extreme(self: Array, ufunc: np.ufunc, dim: int) -> tuple[Array, Array]:
    axis = axes(self, dim)
    if axis is None:
        return self.copy(), np.zeros((), I64)
    x = wide(self)
    values = ufunc.accumulate(x, axis=axis[0])
    same = x == values
    if x.dtype.kind == "f":
        same |= np.isnan(x) & np.isnan(values)
    shape = [1] * x.ndim
    shape[axis[0]] = -1
    positions = np.arange(x.shape[axis[0]], dtype=I64).reshape(shape)
    indices = np.maximum.accumulate(np.where(same, positions, 0), axis=axis[0])
    return rounded(values, self.dtype), indices


@kernel("aten::cummax")
def cummax(self: Array, dim: int) -> tuple[Array, Array]:
    """The running maximum along a dimension, and the index of its last occurrence."""
    return _running_extreme(self, np.maximum, dim)


@kernel("aten::cummin")
def cummin(self: Array, dim: int) -> tuple[Array, Array]:
    """The running minimum along a dimension, and the index of its last occurrence."""
    return _running_extreme(self, np.minimum, dim)
