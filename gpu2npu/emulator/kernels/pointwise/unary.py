"""Functions of one tensor, element by element: exponentials, roots, trigonometry, rounding, signs.

Functions that yield floats compute integers and bool in float32; float16 and bfloat16 are computed in float32 and
rounded once. Functions that keep the dtype (neg, abs, floor ...) keep it for integers too.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpu2npu.emulator.kernels.promotion import (
    BOOL,
    F32,
    Array,
    float_dtype,
    is_complex,
    is_floating,
    is_integral,
    real_dtype,
    rounded,
    wide,
    wide_float,
)
from gpu2npu.emulator.kernels.registry import Kernel, kernel


def _ufunc(function: Callable[[Array], Array]) -> np.ufunc | None:
    return function if isinstance(function, np.ufunc) else None


def float_unary(function: Callable[[Array], Array], *names: str) -> Kernel:
    """Register a function whose result is floating; returns it as a kernel of any dtype."""

    @kernel(*names, function=_ufunc(function))
    def run(self: Array) -> Array:
        if self.dtype is F32:
            return function(self)
        return rounded(function(wide_float(self)), float_dtype(self.dtype))

    return run


def _same_unary(function: Callable[[Array], Array], *names: str) -> Kernel:
    """Register a function whose result has the operand's dtype."""

    @kernel(*names, function=_ufunc(function))
    def run(self: Array) -> Array:
        return rounded(function(wide(self)), self.dtype)

    return run


def _integers_unchanged(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    return lambda x: function(x) if is_floating(x.dtype) else x.copy()


def logistic(x: Array) -> Array:
    """1 / (1 + exp(-x)) of a float32 or float64 array."""
    y = np.negative(x, out=np.empty(np.shape(x), x.dtype))
    np.exp(y, out=y)
    y += 1
    return np.reciprocal(y, out=y)


def _sinc(x: Array) -> Array:
    scaled = x * x.dtype.type(np.pi)
    return np.where(x == 0, x.dtype.type(1), np.sin(scaled) / scaled)


for _function, *_names in (
    (np.exp, "exp"),
    (np.exp2, "exp2"),
    (np.expm1, "expm1"),
    (np.log, "log"),
    (np.log2, "log2"),
    (np.log10, "log10"),
    (np.log1p, "log1p"),
    (np.sqrt, "sqrt"),
    (lambda x: 1 / np.sqrt(x), "rsqrt"),
    (lambda x: 1 / x, "reciprocal"),
    (np.sin, "sin"),
    (np.cos, "cos"),
    (np.tan, "tan"),
    (np.arcsin, "asin"),
    (np.arccos, "acos"),
    (np.arctan, "atan"),
    (np.sinh, "sinh"),
    (np.cosh, "cosh"),
    (np.tanh, "tanh"),
    (np.arcsinh, "asinh"),
    (np.arccosh, "acosh"),
    (np.arctanh, "atanh"),
    (logistic, "sigmoid"),
    (_sinc, "sinc"),
    (np.deg2rad, "deg2rad"),
    (np.rad2deg, "rad2deg"),
):
    float_unary(_function, *(f"aten::{_name}" for _name in _names))

for _function, *_names in (
    (np.negative, "neg"),
    (_integers_unchanged(np.floor), "floor"),
    (_integers_unchanged(np.ceil), "ceil"),
    (_integers_unchanged(np.trunc), "trunc"),
    (_integers_unchanged(np.rint), "round"),
    (lambda x: x - np.trunc(x), "frac"),
    (np.invert, "bitwise_not"),
):
    _same_unary(_function, *(f"aten::{_name}" for _name in _names))


@kernel("aten::abs")
def absolute(self: Array) -> Array:
    """The magnitude; real for complex numbers."""
    return rounded(np.abs(wide(self)), real_dtype(self.dtype))


@kernel("aten::sign", "aten::sgn")
def sign(self: Array) -> Array:
    """-1, 0 or 1; 0 for NaN; for complex numbers (sgn) the unit number of the same angle, 0 for 0."""
    if self.dtype == BOOL:
        return self.copy()
    if is_complex(self.dtype):
        return np.where(self == 0, self.dtype.type(0), self / np.abs(self))
    x = wide(self)
    return rounded(np.subtract(x > 0, x < 0, dtype=np.int8), self.dtype)


@kernel("aten::_conj_physical")
def conjugate(self: Array) -> Array:
    """The complex conjugate."""
    return np.conj(self) if is_complex(self.dtype) else self.copy()


@kernel("aten::conj_physical_")
def conjugate_in_place(self: Array) -> None:
    """The complex conjugate in its place."""
    np.conj(self, out=self)


@kernel("aten::angle")
def angle(self: Array) -> Array:
    """The angle of complex numbers; of real ones 0 or pi, NaN for NaN."""
    if is_complex(self.dtype):
        return np.angle(self)
    x = wide_float(self)
    turned = np.where(x < 0, x.dtype.type(np.pi), x.dtype.type(0))
    return rounded(np.where(np.isnan(x), x, turned), float_dtype(self.dtype))


@kernel("aten::round.decimals")
def round_decimals(self: Array, *, decimals: int) -> Array:
    """Rounded half to even at `decimals` digits after the point (before it where negative)."""
    if is_integral(self.dtype):
        return self.copy()
    x = wide(self)
    ten = x.dtype.type(10.0 ** abs(decimals))
    return rounded(np.rint(x * ten) / ten if decimals >= 0 else np.rint(x / ten) * ten, self.dtype)


@kernel("aten::signbit")
def signbit(self: Array) -> Array:
    """Return whether the sign bit is set; for -0.0 too."""
    return np.zeros(self.shape, BOOL) if self.dtype == BOOL else np.signbit(wide(self))


@kernel("aten::nan_to_num")
def nan_to_num(
    self: Array, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Array:
    """NaN as `nan` (0), infinities as `posinf` and `neginf` (the dtype's largest and smallest)."""
    if is_integral(self.dtype):
        return self.copy()
    x = wide(self)
    limit = float(np.finfo(np.float32).max) if self.dtype is F32 else _largest(self.dtype)
    y = np.nan_to_num(
        x, nan=nan or 0.0, posinf=limit if posinf is None else posinf, neginf=-limit if neginf is None else neginf
    )
    return rounded(np.asarray(y), self.dtype)


def _largest(dtype: np.dtype) -> float:
    import ml_dtypes

    return float(ml_dtypes.finfo(dtype).max)


@kernel("aten::frexp.Tensor")
def frexp(self: Array) -> tuple[Array, Array]:
    """Mantissas in [0.5, 1) and int32 exponents with self = mantissa * 2^exponent."""
    mantissa, exponent = np.frexp(wide(self))
    return rounded(np.asarray(mantissa), self.dtype), np.asarray(exponent).astype(np.int32)
