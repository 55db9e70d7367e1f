"""Sums, products, means, variances and norms along dimensions.

float16 and bfloat16 accumulate in float32 and round once. float32 sums are pairwise, or in float64 where NumPy would
add more than a thousand terms one after another, so that they agree with torch's within 1e-6 relative to the sum of
magnitudes. Variances accumulate in float64, as torch's do on the CPU. Integers sum in int64.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpu2npu.emulator.kernels.promotion import (
    BOOL,
    F32,
    F64,
    I64,
    U8,
    Array,
    Number,
    cast,
    compute_dtype,
    float_dtype,
    is_integral,
    real_dtype,
    rounded,
    wide,
    wide_float,
)
from gpu2npu.emulator.kernels.registry import kernel

Dims = int | Sequence[int] | None
# So many float32 terms may be added naively: the error stays below 1e-6.
_NAIVE_TERMS = 1024


def axes(x: Array, dim: Dims) -> tuple[int, ...] | None:
    """The dimensions as NumPy's `axis`: None, for all, of an absent or empty list or a 0-dim array.

    Raises:
        IndexError: A dimension is out of range.
        RuntimeError: A dimension appears twice.
    """
    if dim is None or (not isinstance(dim, int) and not dim):
        return None
    ndim = max(x.ndim, 1)
    found = []
    for each in (dim,) if isinstance(dim, int) else dim:
        if not -ndim <= each < ndim:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], but got {each})"
            )
        if each % ndim in found:
            raise RuntimeError(f"dim {each % ndim} appears multiple times in the list of dims")
        found.append(each % ndim)
    return tuple(found) if x.ndim else None


def total(x: Array, axis: tuple[int, ...] | None, keepdim: bool = False) -> Array:
    """The sum of a float32 or wider array along axes, accurate as this module promises."""
    if x.dtype is F32 and x.ndim and axis is not None:
        fastest = min(range(x.ndim), key=lambda d: abs(x.strides[d]) if x.shape[d] > 1 else 1 << 62)
        if fastest not in axis:
            terms = 1
            for each in axis:
                terms *= x.shape[each]
            if terms > _NAIVE_TERMS:
                return np.asarray(np.sum(x, axis=axis, keepdims=keepdim, dtype=F64)).astype(F32)
    return np.asarray(np.sum(x, axis=axis, keepdims=keepdim, dtype=x.dtype))


def parameter_sum(x: Array, axis: tuple[int, ...]) -> Array:
    """The sum over batch and positions that gives a parameter's gradient; long ones in float64."""
    return np.asarray(np.sum(x, axis=axis, dtype=F64 if x.size > _NAIVE_TERMS else x.dtype)).astype(x.dtype)


def _count(x: Array, axis: tuple[int, ...] | None) -> int:
    if axis is None:
        return x.size
    count = 1
    for each in axis:
        count *= x.shape[each]
    return count


def _summed_dtype(self: Array, dtype: np.dtype | None) -> np.dtype:
    if dtype is not None:
        return dtype
    return I64 if is_integral(self.dtype) else self.dtype


@kernel("aten::sum.dim_IntList")
def sum_dim(self: Array, dim: Dims = None, keepdim: bool = False, *, dtype: np.dtype | None = None) -> Array:
    """The sum along dimensions; of integers and bool in int64."""
    target = _summed_dtype(self, dtype)
    return rounded(total(cast(self, compute_dtype(target)), axes(self, dim), keepdim), target)


@kernel("aten::sum")
def sum_all(self: Array, *, dtype: np.dtype | None = None) -> Array:
    """The sum of all elements; of integers and bool in int64."""
    return sum_dim(self, None, dtype=dtype)


@kernel("aten::mean.dim")
def mean_dim(self: Array, dim: Dims, keepdim: bool = False, *, dtype: np.dtype | None = None) -> Array:
    """The mean along dimensions.

    Raises:
        RuntimeError: Integers, for which torch wants a floating dtype too.
    """
    target = dtype or self.dtype
    if is_integral(target):
        raise RuntimeError(
            "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype."
        )
    x = cast(self, compute_dtype(target))
    axis = axes(self, dim)
    count = _count(x, axis)
    return rounded(np.asarray(total(x, axis, keepdim) / x.dtype.type(count)), target)


@kernel("aten::mean")
def mean_all(self: Array, *, dtype: np.dtype | None = None) -> Array:
    """The mean of all elements."""
    return mean_dim(self, None, dtype=dtype)


@kernel("aten::prod.dim_int")
def prod_dim(self: Array, dim: Dims, keepdim: bool = False, *, dtype: np.dtype | None = None) -> Array:
    """The product along a dimension; of integers and bool in int64."""
    target = _summed_dtype(self, dtype)
    x = cast(self, compute_dtype(target))
    return rounded(np.asarray(np.prod(x, axis=axes(self, dim), keepdims=keepdim, dtype=x.dtype)), target)


@kernel("aten::prod")
def prod_all(self: Array, *, dtype: np.dtype | None = None) -> Array:
    """The product of all elements."""
    return prod_dim(self, None, dtype=dtype)


@kernel("aten::any", "aten::any.dim", "aten::any.dims")
def any_true(self: Array, dim: Dims = None, keepdim: bool = False) -> Array:
    """Return whether any element along the dimensions is nonzero; uint8 stays uint8."""
    if dim is not None and not isinstance(dim, int) and not dim:
        return rounded(cast(self, BOOL).copy(), U8 if self.dtype == U8 else BOOL)
    result = np.asarray(np.any(cast(self, BOOL), axis=axes(self, dim), keepdims=keepdim))
    return result.astype(U8) if self.dtype == U8 else result


@kernel("aten::all", "aten::all.dim", "aten::all.dims")
def all_true(self: Array, dim: Dims = None, keepdim: bool = False) -> Array:
    """Return whether all elements along the dimensions are nonzero; uint8 stays uint8."""
    if dim is not None and not isinstance(dim, int) and not dim:
        return rounded(cast(self, BOOL).copy(), U8 if self.dtype == U8 else BOOL)
    result = np.asarray(np.all(cast(self, BOOL), axis=axes(self, dim), keepdims=keepdim))
    return result.astype(U8) if self.dtype == U8 else result


@kernel("aten::count_nonzero", "aten::count_nonzero.dim_IntList")
def count_nonzero(self: Array, dim: Dims = None) -> Array:
    """Count the elements along the dimensions that are nonzero, int64."""
    return np.asarray(np.count_nonzero(cast(self, BOOL), axis=axes(self, dim))).astype(I64)


def moments(x: Array, axis: tuple[int, ...] | None) -> tuple[Array, Array]:
    """Mean and sum of squared deviations along axes, kept dimensions, in float64 (complex: complex128 mean)."""
    mean = np.mean(x, axis=axis, keepdims=True, dtype=np.complex128 if x.dtype.kind == "c" else F64)
    deviation = np.subtract(x, mean)
    squared = np.square(np.abs(deviation)) if x.dtype.kind == "c" else np.multiply(deviation, deviation)
    return np.asarray(mean), np.asarray(np.sum(squared, axis=axis, keepdims=True))


def _squeezed(x: Array, axis: tuple[int, ...] | None, keepdim: bool) -> Array:
    return x if keepdim else x.reshape(()) if axis is None else np.squeeze(x, axis=axis)


@kernel("aten::var_mean.correction")
def var_mean(
    self: Array, dim: Dims = None, *, correction: Number | None = None, keepdim: bool = False
) -> tuple[Array, Array]:
    """Variance and mean along dimensions; the divisor is the count less `correction` (1)."""
    x = wide(self)
    axis = axes(self, dim)
    mean, deviations = moments(x, axis)
    divisor = max(_count(x, axis) - (1 if correction is None else float(correction.real)), 0)
    variance = np.asarray(np.divide(deviations, divisor))
    return (
        _squeezed(variance, axis, keepdim).astype(real_dtype(self.dtype)),
        _squeezed(mean, axis, keepdim).astype(self.dtype),
    )


@kernel("aten::var.correction")
def var(self: Array, dim: Dims = None, *, correction: Number | None = None, keepdim: bool = False) -> Array:
    """The variance along dimensions."""
    return var_mean(self, dim, correction=correction, keepdim=keepdim)[0]


@kernel("aten::std.correction")
def std(self: Array, dim: Dims = None, *, correction: Number | None = None, keepdim: bool = False) -> Array:
    """The standard deviation along dimensions."""
    variance, _ = var_mean(wide(self), dim, correction=correction, keepdim=keepdim)
    return np.asarray(np.sqrt(variance)).astype(real_dtype(self.dtype))


@kernel("aten::linalg_vector_norm")
def vector_norm(
    self: Array,
    ord: Number = 2,  # noqa: A002
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: np.dtype | None = None,
) -> Array:
    """The `ord`-norm along dimensions: sum(|x|^ord)^(1/ord), inf and -inf the extremes, 0 the count of nonzeros."""
    target = real_dtype(dtype or self.dtype)
    x = np.abs(cast(self, compute_dtype(dtype)) if dtype else wide(self))
    axis = axes(self, dim)
    if ord == np.inf:
        result = np.max(x, axis=axis, keepdims=keepdim)
    elif ord == -np.inf:
        result = np.min(x, axis=axis, keepdims=keepdim)
    elif ord == 0:
        result = total((x != 0).astype(x.dtype), axis, keepdim)
    elif ord == 1:
        result = total(x, axis, keepdim)
    elif ord == 2:
        result = np.sqrt(total(np.multiply(x, x), axis, keepdim))
    else:
        # Other orders multiply the error of a float32 power by 1 / ord.
        wide_powers = np.power(x.astype(F64), float(ord.real))
        result = np.power(total(wide_powers, axis, keepdim), 1 / float(ord.real))
    return rounded(np.asarray(result), target)


@kernel("aten::logsumexp")
def logsumexp(self: Array, dim: Dims, keepdim: bool = False) -> Array:
    """log(sum(exp(self))) along dimensions, without overflow."""
    x = wide_float(self)
    axis = axes(self, dim)
    if not x.size:
        result = np.log(np.sum(np.exp(x), axis=axis, keepdims=keepdim))
    else:
        largest = np.max(x, axis=axis, keepdims=True)
        shift = np.where(np.isfinite(largest), largest, x.dtype.type(0))
        result = np.log(total(np.exp(x - shift), axis, True)) + shift
        result = _squeezed(np.asarray(result), axis, keepdim)
    return rounded(np.asarray(result), float_dtype(self.dtype))
