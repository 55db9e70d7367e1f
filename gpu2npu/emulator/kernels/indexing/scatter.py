"""gather, and scatter with its reductions: elements addressed by an index along one dimension."""

from __future__ import annotations

import numpy as np

from gpu2npu.emulator.kernels.promotion import F64, I64, Array, Number, cast, is_integral, rounded, wide
from gpu2npu.emulator.kernels.registry import kernel


def _places(index: Array, dim: int, shape: tuple[int, ...]) -> Array:
    """The row-major position in an array of `shape` that each element of the index names.

    Raises:
        RuntimeError: The index is out of range.
    """
    axis = dim % len(shape)
    if index.size and (index.min() < 0 or index.max() >= shape[axis]):
        wrong = index.max() if index.max() >= shape[axis] else index.min()
        raise RuntimeError(f"index {wrong} is out of bounds for dimension {axis} with size {shape[axis]}")
    place = np.zeros((1,) * len(shape), I64)
    for each, size in enumerate(shape):
        line = [1] * len(shape)
        line[each] = -1
        at = index if each == axis else np.arange(index.shape[each], dtype=I64).reshape(line)
        place = place * size + at
    return place


def _region(src: Array, index: Array) -> Array:
    """The part of src that the index covers."""
    return src[tuple(slice(size) for size in index.shape)]


def _lifted(x: Array) -> Array:
    return x if x.ndim else x.reshape(1)


@kernel("aten::gather")
def gather(self: Array, dim: int, index: Array, *, sparse_grad: bool = False) -> Array:
    """Elements of self whose position along `dim` the index gives; the result has the index's shape."""
    if not index.size:
        return np.empty(index.shape, self.dtype)
    x, places = _lifted(self), _lifted(index)
    axis = dim % x.ndim
    if all(size == x.shape[each] for each, size in enumerate(places.shape) if each != axis):
        return np.take_along_axis(x, places, axis).reshape(index.shape)
    return np.take(np.ascontiguousarray(x).reshape(-1), _places(places, axis, x.shape)).reshape(index.shape)


@kernel("aten::scatter.src")
def scatter(self: Array, dim: int, index: Array, src: Array) -> Array:
    """A copy of self with src's elements at the positions along `dim` that the index gives."""
    out = np.array(self, order="C")
    if index.size:
        places, source = _lifted(index), _region(_lifted(src), _lifted(index))
        out.reshape(-1)[_places(places, dim, _lifted(out).shape)] = source
    return out


@kernel("aten::scatter.value")
def scatter_value(self: Array, dim: int, index: Array, value: Number) -> Array:
    """A copy of self with the value at the positions along `dim` that the index gives."""
    out = np.array(self, order="C")
    if index.size:
        out.reshape(-1)[_places(_lifted(index), dim, _lifted(out).shape)] = cast(value, self.dtype)
    return out


def _added(self: Array, dim: int, index: Array, src: Array) -> Array:
    """self + src at the index, float sums in float64."""
    if not index.size:
        return self.copy()
    places = _places(_lifted(index), dim, _lifted(self).shape).reshape(-1)
    source = np.ascontiguousarray(_region(_lifted(src), _lifted(index))).reshape(-1)
    if is_integral(self.dtype) or self.dtype.kind == "c":
        out = np.array(self, order="C")
        np.add.at(out.reshape(-1), places, source)
        return out
    added = np.bincount(places, weights=source.astype(F64), minlength=self.size).reshape(self.shape)
    return rounded(np.asarray(wide(self) + added), self.dtype)


@kernel("aten::scatter_add")
def scatter_add(self: Array, dim: int, index: Array, src: Array) -> Array:
    """A copy of self with src's elements added at the positions along `dim` that the index gives."""
    return _added(self, dim, index, src)


_UFUNCS = {"prod": np.multiply, "multiply": np.multiply, "amax": np.maximum, "amin": np.minimum}


def _neutral(reduce: str, dtype: np.dtype) -> float | int:
    if reduce in ("prod", "multiply"):
        return 1
    if reduce not in ("amax", "amin"):
        return 0
    if dtype.kind == "f":
        return -np.inf if reduce == "amax" else np.inf
    if dtype.kind == "b":
        return reduce == "amin"
    limits = np.iinfo(dtype)
    return int(limits.min if reduce == "amax" else limits.max)


@kernel("aten::scatter_reduce.two")
def scatter_reduce(self: Array, dim: int, index: Array, src: Array, reduce: str, *, include_self: bool = True) -> Array:
    """A copy of self with src's elements reduced into the positions that the index gives.

    Args:
        reduce: "sum", "prod", "mean", "amax" or "amin".
        include_self: Whether the old element takes part.
    """
    if not index.size:
        return self.copy()
    out = np.array(wide(self), order="C")
    flat = out.reshape(-1)
    places = _places(_lifted(index), dim, _lifted(self).shape).reshape(-1)
    source = cast(np.ascontiguousarray(_region(_lifted(src), _lifted(index))).reshape(-1), out.dtype)
    if not include_self:
        flat[places] = _neutral(reduce, out.dtype)
    if reduce in ("sum", "mean"):
        np.add.at(flat, places, source)
    else:
        _UFUNCS[reduce].at(flat, places, source)
    if reduce == "mean":
        counts = np.bincount(places, minlength=flat.size) + (1 if include_self else 0)
        counts = np.maximum(counts, 1)
        flat[:] = flat // counts if is_integral(out.dtype) else flat / counts.astype(out.dtype)
    return rounded(out, self.dtype)
