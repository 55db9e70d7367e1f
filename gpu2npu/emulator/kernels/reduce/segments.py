"""Reductions of consecutive segments along one axis (torch.segment_reduce), and their gradient.

Segments are given for each index of the axes before, by their lengths or by their offsets.
"""

from __future__ import annotations

from itertools import pairwise
from math import inf, nan, prod

import numpy as np

from gpu2npu.emulator.kernels.promotion import I64, Array, rounded, wide
from gpu2npu.emulator.kernels.registry import kernel

_REDUCTIONS: dict[str, tuple[np.ufunc, float]] = {
    "sum": (np.add, 0.0),
    "mean": (np.add, 0.0),
    "prod": (np.multiply, 1.0),
    "max": (np.maximum, -inf),
    "min": (np.minimum, inf),
}


def _bounds(lengths: Array | None, offsets: Array | None, axis: int) -> Array:
    """The offsets (groups, segments + 1), whichever is given.

    Raises:
        ValueError: Neither is given.
    """
    if offsets is not None:
        return offsets.reshape(prod(offsets.shape[:axis]), -1).astype(I64)
    if lengths is None:
        raise ValueError("segment_reduce needs lengths or offsets")
    flat = lengths.reshape(prod(lengths.shape[:axis]), lengths.shape[axis]).astype(I64)
    return np.concatenate((np.zeros((len(flat), 1), I64), np.cumsum(flat, axis=1)), axis=1)


def _groups(x: Array, axis: int) -> Array:
    """Axes before, the axis, and axes after: (groups, size, rest)."""
    return x.reshape(prod(x.shape[:axis]), x.shape[axis], prod(x.shape[axis + 1 :]))


@kernel("aten::segment_reduce")
def segment_reduce(
    data: Array,
    reduce: str,
    *,
    lengths: Array | None = None,
    indices: Array | None = None,
    offsets: Array | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Array:
    """Each segment's sum, mean, product, maximum or minimum, begun with `initial`; a mean of nothing is NaN."""
    bounds = _bounds(lengths, offsets, axis)
    x = _groups(wide(data), axis)
    function, start = _REDUCTIONS[reduce]
    out = np.empty((len(x), bounds.shape[1] - 1, x.shape[2]), x.dtype)
    for group, edges in enumerate(bounds):
        for i, (low, high) in enumerate(pairwise(edges)):
            value = function.reduce(x[group, low:high], axis=0, initial=start if initial is None else initial)
            if reduce == "mean":
                value = value / (high - low) if high > low else (nan if initial is None else value)
            out[group, i] = value
    return rounded(out.reshape(*data.shape[:axis], -1, *data.shape[axis + 1 :]), data.dtype)


def _product_gradient(values: Array, initial: float) -> Array:
    """The product of all other values of the segment, for each: exact where some are zero."""
    before = np.cumprod(np.concatenate((np.full_like(values[:1], initial), values[:-1])), axis=0)
    after = np.cumprod(np.concatenate((np.ones_like(values[:1]), values[:0:-1])), axis=0)[::-1]
    return np.asarray(before * after)


def _segment_gradient(reduce: str, values: Array, result: Array, initial: float | None) -> Array:
    """The derivative of a segment's result by each of its values; equal extremes share it."""
    if reduce == "sum":
        return np.ones_like(values)
    if reduce == "mean":
        return np.full_like(values, 1 / len(values))
    if reduce == "prod":
        return _product_gradient(values, 1.0 if initial is None else initial)
    chosen = (values == result) | np.isnan(values)
    return chosen / np.maximum(chosen.sum(axis=0), 1).astype(values.dtype)


@kernel("aten::_segment_reduce_backward")
def segment_reduce_backward(
    grad: Array,
    output: Array,
    data: Array,
    reduce: str,
    *,
    lengths: Array | None = None,
    offsets: Array | None = None,
    axis: int = 0,
    initial: float | None = None,
) -> Array:
    """The gradient for `data`; 0 outside of all segments."""
    bounds = _bounds(lengths, offsets, axis)
    x, upper, result = (_groups(wide(each), axis) for each in (data, grad, output))
    out = np.zeros_like(x)
    for group, edges in enumerate(bounds):
        for i, (low, high) in enumerate(pairwise(edges)):
            if high > low:
                slope = _segment_gradient(reduce, x[group, low:high], result[group, i], initial)
                out[group, low:high] = upper[group, i] * slope
    return rounded(out.reshape(data.shape), data.dtype)
