"""Histograms of values and of points, with edges given or spread evenly."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpu2npu.emulator.kernels.promotion import F64, Array, wide
from gpu2npu.emulator.kernels.registry import kernel


def _even_edges(values: Array, bins: int, bounds: Sequence[float] | None) -> Array:
    """bins + 1 edges in float64 between the bounds, or the extremes of the values; widened where they are one."""
    low, high = (float(each) for each in bounds) if bounds else (0.0, 1.0)
    if not bounds and values.size:
        low, high = float(values.min()), float(values.max())
    if low == high:
        low, high = low - 0.5, high + 0.5
    return np.linspace(low, high, bins + 1)


def _counted(points: Array, edges: Sequence[Array], weight: Array | None, density: bool, dtype: np.dtype) -> Array:
    """Count the points (n, dimensions) that fall into each box; the last of each dimension has both its edges.

    Raises:
        NotImplementedError: Edges do not ascend, for which torch counts something all the same.
    """
    if any(np.any(np.diff(wide(each)) < 0) for each in edges):
        raise NotImplementedError("edges that do not ascend")
    flat_weight = None if weight is None else wide(weight).astype(F64).reshape(-1)
    found, _ = np.histogramdd(
        wide(points).astype(F64), bins=[wide(each).astype(F64) for each in edges], weights=flat_weight, density=density
    )
    return np.asarray(found).astype(dtype)


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
