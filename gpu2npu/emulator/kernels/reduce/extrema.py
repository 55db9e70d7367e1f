"""Largest and smallest elements, where they are, and medians. NaN counts as the extreme, wherever it is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpu2npu.emulator.kernels.promotion import I64, Array, rounded, wide
from gpu2npu.emulator.kernels.reduce.reduce import Dims, axes
from gpu2npu.emulator.kernels.registry import kernel


def _check_not_empty(x: Array, name: str) -> None:
    if not x.size:
        raise RuntimeError(f"{name}(): Expected reduction dim to be specified for input.numel() == 0.")


def _check_dim(x: Array, dim: int, name: str) -> int:
    (axis,) = axes(x, dim) or (0,)
    if x.ndim and not x.shape[axis]:
        raise IndexError(f"{name}(): Expected reduction dim {axis} to have non-zero size.")
    return axis


def _extreme(reduce: Callable[..., Array], argument: Callable[..., Array], name: str) -> None:
    """Register max or min: of everything, along a dimension with its indices, and over dimensions."""

    @kernel(f"aten::{name}")
    def of_all(self: Array) -> Array:
        _check_not_empty(self, name)
        return rounded(np.asarray(reduce(wide(self))), self.dtype)

    @kernel(f"aten::{name}.dim")
    def along(self: Array, dim: int, keepdim: bool = False) -> tuple[Array, Array]:
        axis = _check_dim(self, dim, name)
        if not self.ndim:
            return self.copy(), np.zeros((), I64)
        indices = argument(wide(self), axis=axis, keepdims=True)
        values = np.take_along_axis(self, indices, axis)
        return (values, indices) if keepdim else (np.squeeze(values, axis), np.squeeze(indices, axis))

    @kernel(f"aten::a{name}")
    def over(self: Array, dim: Dims = (), keepdim: bool = False) -> Array:
        return rounded(np.asarray(reduce(wide(self), axis=axes(self, dim), keepdims=keepdim)), self.dtype)

    @kernel(f"aten::arg{name}")
    def position(self: Array, dim: int | None = None, keepdim: bool = False) -> Array:
        if dim is None:
            if not self.size:
                raise IndexError(f"arg{name}(): Expected reduction dim to be specified for input.numel() == 0.")
            index = np.asarray(argument(wide(self))).astype(I64)
            return index.reshape((1,) * self.ndim) if keepdim else index
        axis = _check_dim(self, dim, f"arg{name}")
        return np.asarray(argument(wide(self), axis=axis, keepdims=keepdim)) if self.ndim else np.zeros((), I64)


_extreme(np.max, np.argmax, "max")
_extreme(np.min, np.argmin, "min")


@kernel("aten::aminmax", "aten::_aminmax", "aten::_aminmax.dim")
def aminmax(self: Array, *args: int | bool, dim: int | None = None, keepdim: bool = False) -> tuple[Array, Array]:
    """Smallest and largest, of everything or along a dimension."""
    if args:
        dim, keepdim = int(args[0]), bool(args[1]) if len(args) > 1 else keepdim
    if dim is None:
        _check_not_empty(self, "aminmax")
    x, axis = wide(self), axes(self, dim)
    smallest = np.asarray(np.min(x, axis=axis, keepdims=keepdim)).astype(self.dtype)
    return smallest, np.asarray(np.max(x, axis=axis, keepdims=keepdim)).astype(self.dtype)


def kth(self: Array, k: int, axis: int, keepdim: bool) -> tuple[Array, Array]:
    """The k-th smallest (from 0) along an axis and its index; NaN counts as the largest."""
    if not self.ndim:
        return self.copy(), np.zeros((), I64)
    order = np.argsort(wide(self), axis=axis, kind="stable")
    indices = np.take(order, [k], axis=axis)
    values = np.take_along_axis(self, indices, axis)
    return (values, indices) if keepdim else (np.squeeze(values, axis), np.squeeze(indices, axis))


@kernel("aten::kthvalue")
def kthvalue(self: Array, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Array, Array]:
    """The k-th smallest (from 1) along a dimension, and its index.

    Raises:
        RuntimeError: k is out of range.
    """
    axis = _check_dim(self, dim, "kthvalue")
    if not 1 <= k <= (self.shape[axis] if self.ndim else 1):
        raise RuntimeError("kthvalue(): selected number k out of range for dimension " + str(axis))
    return kth(self, k - 1, axis, keepdim)


@kernel("aten::median.dim")
def median_dim(self: Array, dim: int, keepdim: bool = False) -> tuple[Array, Array]:
    """The lower median along a dimension and its index; NaN where there is one."""
    axis = _check_dim(self, dim, "median")
    if not self.ndim:
        return self.copy(), np.zeros((), I64)
    values, indices = kth(self, (self.shape[axis] - 1) // 2, axis, True)
    if self.dtype.kind not in "bui":
        missing = np.isnan(wide(self))
        found = np.any(missing, axis=axis, keepdims=True)
        indices = np.where(found, np.argmax(missing, axis=axis, keepdims=True), indices)
        values = np.take_along_axis(self, indices, axis)
    return (values, indices) if keepdim else (np.squeeze(values, axis), np.squeeze(indices, axis))


@kernel("aten::median")
def median(self: Array) -> Array:
    """The lower median of all elements; NaN where there is one or where the tensor is empty."""
    if not self.size:
        return np.array(np.nan).astype(self.dtype)
    return median_dim(self.reshape(-1), 0)[0]


@kernel("aten::nanmedian.dim")
def nanmedian_dim(self: Array, dim: int, keepdim: bool = False) -> tuple[Array, Array]:
    """The lower median along a dimension of what is not NaN, and its index; NaN where all is."""
    axis = _check_dim(self, dim, "nanmedian")
    if not self.ndim:
        return self.copy(), np.zeros((), I64)
    x = wide(self)
    present = np.sum(~np.isnan(x), axis=axis, keepdims=True) if x.dtype.kind == "f" else self.shape[axis]
    order = np.argsort(x, axis=axis, kind="stable")
    middle = np.maximum(np.asarray(present) - 1, 0) // 2
    shape = [1 if each == axis else size for each, size in enumerate(self.shape)]
    indices = np.take_along_axis(order, np.broadcast_to(middle, shape), axis)
    values = np.take_along_axis(self, indices, axis)
    return (values, indices) if keepdim else (np.squeeze(values, axis), np.squeeze(indices, axis))


@kernel("aten::nanmedian")
def nanmedian(self: Array) -> Array:
    """The lower median of all elements that are not NaN."""
    flat = self.reshape(-1)
    retained = flat[~np.isnan(wide(flat))] if self.dtype.kind not in "bui" else flat
    return median(retained)
