"""Histograms of values and of points, with edges given or spread evenly."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpu2npu.emulator.kernels.promotion import F64, I64, Array, wide
from gpu2npu.emulator.kernels.registry import kernel


def _even_edges(values: Array, bins: int, bounds: Sequence[float] | None) -> Array:
    """bins + 1 edges in float64 between the bounds, or the extremes of the values; widened where they are one."""
    low, high = (float(each) for each in bounds) if bounds else (0.0, 1.0)
    if not bounds and values.size:
        low, high = float(values.min()), float(values.max())
    if low == high:
        low, high = low - 0.5, high + 0.5
    return np.linspace(low, high, bins + 1)


def _boxes(values: Array, edges: Array) -> Array:
    """The number of the box that each value falls into, -1 outside; the last box has both its edges.

    Edges that do not ascend are searched as if they did, as PyTorch's CPU code searches them (std::upper_bound).
    """
    first, length = np.zeros(values.shape, I64), np.full(values.shape, len(edges))
    while np.any(length):
        half = length // 2
        beyond = (length > 0) & ~(values < edges[np.minimum(first + half, len(edges) - 1)])
        first = np.where(beyond, first + half + 1, first)
        length = np.where(beyond, length - half - 1, half)
    box = np.minimum(first - 1, len(edges) - 2)
    return np.where((values >= edges[0]) & (values <= edges[-1]), box, -1)


def _counted(points: Array, edges: Sequence[Array], weight: Array | None, density: bool, dtype: np.dtype) -> Array:
    """Count the points (n, dimensions) that fall into each box, or add up their weights."""
    bounds = [wide(each).astype(F64) for each in edges]
    values = wide(points).astype(F64)
    boxes = np.array([_boxes(values[:, axis], each) for axis, each in enumerate(bounds)], I64)
    inside = np.all(boxes >= 0, axis=0)
    weights = np.ones(len(values)) if weight is None else wide(weight).astype(F64).reshape(-1)
    found = np.zeros([len(each) - 1 for each in bounds])
    np.add.at(found, tuple(boxes[:, inside]), weights[inside])
    if density:
        found = found / found.sum()
        for axis, each in enumerate(bounds):
            found = found / np.diff(each).reshape(-1, *(1,) * (found.ndim - 1 - axis))
    return found.astype(dtype)


def _points(self: Array) -> Array:
    return self.reshape(-1, self.shape[-1])


@kernel("aten::histogram.bin_ct")
def histogram(
    self: Array,
    bins: int = 100,
    *,
    range: Sequence[float] | None = None,  # noqa: A002
    weight: Array | None = None,
    density: bool = False,
) -> tuple[Array, Array]:
    """Counts, or sums of weights, in even bins, and the edges."""
    edges = _even_edges(self, bins, range).astype(self.dtype)
    return _counted(self.reshape(-1, 1), [edges], weight, density, self.dtype), edges


@kernel("aten::histogram.bins_tensor")
def histogram_of_edges(
    self: Array, bins: Array, *, weight: Array | None = None, density: bool = False
) -> tuple[Array, Array]:
    """Counts, or sums of weights, between the given edges, and these."""
    return _counted(self.reshape(-1, 1), [bins], weight, density, self.dtype), bins.copy()


@kernel("aten::_histogramdd_bin_edges")
def histogramdd_edges(
    self: Array,
    bins: Sequence[int],
    *,
    range: Sequence[float] | None = None,  # noqa: A002
    weight: Array | None = None,
    density: bool = False,
) -> list[Array]:
    """The even edges along each dimension of points (*, dimensions)."""
    points = _points(self)
    found = []
    for axis, count in enumerate(bins):
        bounds = None if range is None else range[2 * axis : 2 * axis + 2]
        found.append(_even_edges(points[:, axis], count, bounds).astype(self.dtype))
    return found


@kernel("aten::_histogramdd_from_bin_cts")
def histogramdd(
    self: Array,
    bins: Sequence[int],
    *,
    range: Sequence[float] | None = None,  # noqa: A002
    weight: Array | None = None,
    density: bool = False,
) -> Array:
    """Counts, or sums of weights, of points (*, dimensions) in even boxes."""
    edges = histogramdd_edges(self, bins, range=range)
    return _counted(_points(self), edges, weight, density, self.dtype)


@kernel("aten::_histogramdd_from_bin_tensors")
def histogramdd_of_edges(
    self: Array, bins: Sequence[Array], *, weight: Array | None = None, density: bool = False
) -> Array:
    """Counts, or sums of weights, of points (*, dimensions) between the given edges."""
    return _counted(_points(self), bins, weight, density, self.dtype)
