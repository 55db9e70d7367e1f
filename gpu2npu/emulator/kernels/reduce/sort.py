"""Sorting, the largest k, unique elements, searching and counting. NaN sorts as the largest element."""

from __future__ import annotations

from math import prod
from typing import Literal

import numpy as np

from gpu2npu.emulator.kernels.promotion import (
    F32,
    F64,
    I32,
    I64,
    Array,
    Number,
    cast,
    promote_types,
    rounded,
    wide,
)
from gpu2npu.emulator.kernels.registry import kernel


def _order(x: Array, dim: int, descending: bool) -> Array:
    """Stable sorting indices along a dimension."""
    keys = wide(x)
    if not descending:
        return np.argsort(keys, axis=dim, kind="stable")
    # Reversed before and after, equal elements keep their order.
    order = np.argsort(np.flip(keys, dim), axis=dim, kind="stable")
    return np.flip(x.shape[dim] - 1 - order, dim)


@kernel("aten::sort.stable")
def sort_stable(
    self: Array, *, stable: bool | None = None, dim: int = -1, descending: bool = False
) -> tuple[Array, Array]:
    """Sorted along a dimension, and the indices; always stable."""
    if not self.ndim:
        return self.copy(), np.zeros((), I64)
    indices = np.ascontiguousarray(_order(self, dim, descending))
    return np.take_along_axis(self, indices, dim), indices


@kernel("aten::sort")
def sort(self: Array, dim: int = -1, descending: bool = False) -> tuple[Array, Array]:
    """Sorted along a dimension, and the indices."""
    return sort_stable(self, dim=dim, descending=descending)


@kernel("aten::topk")
def topk(
    self: Array,
    k: int,
    dim: int = -1,
    largest: bool = True,
    sorted: bool = True,  # noqa: A002
) -> tuple[Array, Array]:
    """The k largest (or smallest) along a dimension, sorted, and their indices.

    Raises:
        RuntimeError: k is larger than the dimension.
    """
    if not self.ndim:
        return self.copy(), np.zeros((), I64)
    if not 0 <= k <= self.shape[dim]:
        raise RuntimeError("selected index k out of range")
    order = _order(self, dim, largest)
    indices = np.ascontiguousarray(np.take(order, np.arange(k), axis=dim))
    return np.take_along_axis(self, indices, dim), indices


def _unique(self: Array, axis: int | None, inverse: bool, counts: bool) -> tuple[Array, Array, Array]:
    """Unique elements or slices, always with places for the inverse and the counts."""
    if axis is None:
        keys = wide(self).reshape(-1)
        values, places, numbers = np.unique(keys, return_inverse=True, return_counts=True, equal_nan=False)
        places = places.reshape(self.shape)
    else:
        values, places, numbers = np.unique(wide(self), return_inverse=True, return_counts=True, axis=axis)
        places = places.reshape(-1)
    empty = np.empty(0, I64)
    return (
        rounded(values, self.dtype),
        places.astype(I64, copy=False) if inverse else empty,
        numbers.astype(I64, copy=False) if counts else empty.copy(),
    )


@kernel("aten::_unique2")
def unique2(
    self: Array,
    sorted: bool = True,  # noqa: A002
    return_inverse: bool = False,
    return_counts: bool = False,
) -> tuple[Array, Array, Array]:
    """Sorted unique elements, where each element of self is among them, and how often each occurs."""
    return _unique(self, None, return_inverse, return_counts)


@kernel("aten::_unique")
def unique(
    self: Array,
    sorted: bool = True,  # noqa: A002
    return_inverse: bool = False,
) -> tuple[Array, Array]:
    """Sorted unique elements, and where each element of self is among them."""
    return _unique(self, None, return_inverse, False)[:2]


@kernel("aten::unique_dim")
def unique_dim(
    self: Array,
    dim: int,
    sorted: bool = True,  # noqa: A002
    return_inverse: bool = False,
    return_counts: bool = False,
) -> tuple[Array, Array, Array]:
    """Sorted unique slices along a dimension."""
    if not self.shape[dim]:
        return self.copy(), np.empty(0, I64), np.empty(0, I64)
    return _unique(self, dim, True, True)


@kernel("aten::unique_consecutive")
def unique_consecutive(
    self: Array, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> tuple[Array, Array, Array]:
    """self with runs of equal elements (or slices along `dim`) reduced to one."""
    x = self.reshape(-1) if dim is None else np.moveaxis(self, dim, 0)
    keys = wide(x).reshape(x.shape[0], prod(x.shape[1:]))
    starts = np.ones(x.shape[0], bool)
    starts[1:] = np.any(keys[1:] != keys[:-1], axis=1)
    first = np.flatnonzero(starts)
    values = x[first] if dim is None else np.ascontiguousarray(np.moveaxis(x[first], 0, dim))
    inverse = np.cumsum(starts) - 1
    counts = np.diff(np.append(first, x.shape[0]))
    empty = np.empty(0, I64)
    return (
        values,
        (inverse.reshape(self.shape) if dim is None else inverse).astype(I64) if return_inverse else empty,
        counts.astype(I64) if return_counts else empty.copy(),
    )


@kernel("aten::searchsorted.Tensor", "aten::searchsorted.Scalar")
def searchsorted(
    sorted_sequence: Array,
    self: Array | Number,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Array | None = None,
) -> Array:
    """Return the index at which each value would be inserted along the last dimension to keep it sorted."""
    values = self if isinstance(self, np.ndarray) else np.array(self)
    from_right = right or side == "right"
    wider = promote_types(wide(sorted_sequence).dtype, wide(values).dtype)
    sequence, wanted = cast(sorted_sequence, wider), cast(values, wider)
    if sorter is not None:
        sequence = np.take_along_axis(sequence, sorter, -1)
    where: Literal["left", "right"] = "right" if from_right else "left"
    dtype = I32 if out_int32 else I64
    if sequence.ndim <= 1:
        return np.asarray(np.searchsorted(sequence, wanted, side=where)).astype(dtype)
    rows = sequence.reshape(prod(sequence.shape[:-1]), sequence.shape[-1])
    lines = wanted.reshape(len(rows), wanted.shape[-1])
    found = [np.searchsorted(row, line, side=where) for row, line in zip(rows, lines, strict=True)]
    return np.array(found, dtype).reshape(wanted.shape)


@kernel("aten::bucketize.Tensor", "aten::bucketize.Scalar")
def bucketize(self: Array | Number, boundaries: Array, *, out_int32: bool = False, right: bool = False) -> Array:
    """The bucket of each value among sorted boundaries."""
    return searchsorted(boundaries, self, out_int32=out_int32, right=right)


@kernel("aten::bincount")
def bincount(self: Array, weights: Array | None = None, minlength: int = 0) -> Array:
    """Count how often each integer occurs, int64, or sum its weights, float32 or float64.

    Raises:
        RuntimeError: An integer is negative.
    """
    if self.size and self.min() < 0:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if weights is None or not self.size:
        return np.bincount(self, minlength=minlength)
    counted = np.bincount(self, weights=weights.astype(F64), minlength=minlength)
    return counted.astype(F32 if weights.dtype == F32 else F64)


@kernel("aten::histc")
def histc(self: Array, bins: int = 100, min: float = 0, max: float = 0) -> Array:  # noqa: A002
    """Counts in equal bins over [min, max], or over the data's range where both are equal; in self's dtype."""
    x = wide(self).reshape(-1)
    low, high = float(min), float(max)
    if low == high and x.size:
        low, high = float(x.min()), float(x.max())
    if low == high:
        low, high = low - 1, high + 1
    inside = x[(x >= low) & (x <= high)]
    place = ((inside - inside.dtype.type(low)) * (bins / (high - low))).astype(I64)
    return np.bincount(np.minimum(place, bins - 1), minlength=bins).astype(self.dtype)


@kernel("aten::isin.Tensor_Tensor", "aten::isin.Tensor_Scalar", "aten::isin.Scalar_Tensor")
def isin(
    elements: Array | Number, test_elements: Array | Number, *, assume_unique: bool = False, invert: bool = False
) -> Array:
    """Return whether each element is among the test elements, or is not where `invert`."""
    a, b = (wide(each) if isinstance(each, np.ndarray) else np.array(each) for each in (elements, test_elements))
    return np.asarray(np.isin(a, b, invert=invert))


@kernel("aten::repeat_interleave.Tensor")
def repeat_interleave(repeats: Array, *, output_size: int | None = None) -> Array:
    """[0] * repeats[0] + [1] * repeats[1] + ..."""
    return np.repeat(np.arange(repeats.size, dtype=repeats.dtype), repeats)
