"""Tensors from numbers: ranges, identities, constants, triangle indices."""

from __future__ import annotations

import math

import numpy as np

from gpu2npu.emulator.kernels.promotion import (
    C128,
    F32,
    F64,
    I64,
    Array,
    Number,
    cast,
    compute_dtype,
    default_dtype,
    float_dtype,
    is_complex,
    is_integral,
    result_type,
    rounded,
)
from gpu2npu.emulator.kernels.registry import kernel


def _range(start: Number, end: Number, step: Number, dtype: np.dtype | None) -> Array:
    if dtype is None:
        dtype = I64 if all(isinstance(each, int) for each in (start, end, step)) else default_dtype()
    first, last, stride = (each.real for each in (start, end, step))
    if is_integral(dtype):
        first, last, stride = int(first), int(last), int(stride)
    if stride == 0:
        raise ValueError("step must be nonzero")
    if (last - first) * stride < 0:
        raise ValueError("upper bound and lower bound inconsistent with step sign")
    if is_integral(dtype):
        return np.arange(first, last, stride, dtype=I64).astype(dtype, copy=False)
    count = math.ceil((last - first) / stride)
    return (first + np.arange(count, dtype=F64) * stride).astype(dtype)


@kernel("aten::arange")
def arange(end: Number, *, dtype: np.dtype | None = None) -> Array:
    """0, 1, ... below end: int64 of an integer end, else the default dtype."""
    return _range(0, end, 1, dtype)


@kernel("aten::arange.start", "aten::arange.start_step")
def arange_from(start: Number, end: Number, step: Number = 1, *, dtype: np.dtype | None = None) -> Array:
    """start, start + step, ... before end: int64 of integers, else the default dtype, computed in float64.

    Raises:
        ValueError: The step is 0 or leads away from end.
    """
    return _range(start, end, step, dtype)


def _number(x: Number | Array) -> Number:
    return x.item() if isinstance(x, np.ndarray) else x


@kernel(
    "aten::linspace", "aten::linspace.Tensor_Tensor", "aten::linspace.Tensor_Scalar", "aten::linspace.Scalar_Tensor"
)
def linspace(start: Number | Array, end: Number | Array, steps: int, *, dtype: np.dtype | None = None) -> Array:
    """`steps` numbers from start to end inclusive, exact at both ends."""
    first, last = _number(start), _number(end)
    target = dtype or float_dtype(result_type(first, last))
    compute = F64 if is_integral(target) else compute_dtype(target)
    step = np.asarray((last - first) / (steps - 1) if steps > 1 else 0, compute)
    at = np.arange(steps, dtype=compute)
    forward = np.asarray(first, compute) + step * at
    backward = np.asarray(last, compute) - step * (steps - 1 - at)
    return rounded(np.where(at < max(steps // 2, 1), forward, backward).astype(compute, copy=False), target)


@kernel(
    "aten::logspace", "aten::logspace.Tensor_Tensor", "aten::logspace.Tensor_Scalar", "aten::logspace.Scalar_Tensor"
)
def logspace(
    start: Number | Array, end: Number | Array, steps: int, base: float = 10.0, *, dtype: np.dtype | None = None
) -> Array:
    """`steps` powers of base, exponents from start to end inclusive."""
    kind = float_dtype(result_type(_number(start), _number(end)))
    exponents = linspace(start, end, steps, dtype=C128 if is_complex(kind) else F64)
    return rounded(np.power(base, exponents), dtype or kind)


@kernel("aten::eye")
def eye(n: int, *, dtype: np.dtype | None = None) -> Array:
    """The identity matrix (n, n)."""
    return np.eye(n, dtype=dtype or default_dtype())


@kernel("aten::eye.m")
def eye_rectangular(n: int, m: int, *, dtype: np.dtype | None = None) -> Array:
    """The matrix (n, m) with ones on its diagonal."""
    return np.eye(n, m, dtype=dtype or default_dtype())


@kernel("aten::tril_indices")
def tril_indices(row: int, col: int, offset: int = 0, *, dtype: np.dtype | None = None) -> Array:
    """Rows and columns of the lower triangle, (2, count)."""
    return np.stack(np.tril_indices(row, offset, col)).astype(dtype or I64)


@kernel("aten::triu_indices")
def triu_indices(row: int, col: int, offset: int = 0, *, dtype: np.dtype | None = None) -> Array:
    """Rows and columns of the upper triangle, (2, count), row by row."""
    return np.stack(np.triu_indices(row, offset, col)).astype(dtype or I64)


@kernel("aten::fill.Scalar", "aten::fill.Tensor")
def fill(self: Array, value: Number | Array) -> Array:
    """The value in self's shape and dtype."""
    return np.full_like(self, cast(value, self.dtype))


@kernel("aten::zero")
def zero(self: Array) -> Array:
    """Zeros in self's shape and dtype."""
    return np.zeros_like(self)


@kernel("aten::complex")
def make_complex(real: Array, imag: Array) -> Array:
    """real + imag * i, complex64 of float32 and complex128 of float64; halves are declined.

    Raises:
        RuntimeError: The dtypes differ.
    """
    if real.dtype != imag.dtype:
        raise RuntimeError(f"Expected object of scalar type {real.dtype} but got scalar type {imag.dtype}")
    if real.dtype not in (F32, F64):
        raise NotImplementedError("NumPy has no complex numbers of float16")
    out = np.empty(np.broadcast_shapes(real.shape, imag.shape), np.complex64 if real.dtype == F32 else np.complex128)
    out.real, out.imag = real, imag
    return out


@kernel("aten::polar")
def polar(abs: Array, angle: Array) -> Array:  # noqa: A002
    """abs * exp(angle * i)."""
    return make_complex(np.asarray(abs * np.cos(angle)), np.asarray(abs * np.sin(angle)))
