"""Comparisons, logic and bits. Results of comparisons and of logical operators are bool."""

from __future__ import annotations

import numpy as np

from gpu2npu.emulator.kernels.indexing.select import chosen
from gpu2npu.emulator.kernels.promotion import (
    BOOL,
    F32,
    Array,
    Number,
    Operand,
    cast,
    compute_dtype,
    is_integral,
    operands,
    result_type,
    rounded,
    wide,
)
from gpu2npu.emulator.kernels.registry import kernel


def _compare(ufunc: np.ufunc, name: str) -> None:
    @kernel(f"aten::{name}.Tensor", f"aten::{name}.Scalar", function=ufunc)
    def run(self: Array, other: Operand) -> Array:
        if self.dtype is F32:
            a, b, _ = operands(self, other)
            return ufunc(a, b)
        dtype = result_type(self, other)
        compute = compute_dtype(dtype)
        # A scalar takes the tensors' dtype first: float16 0.1 equals the number 0.1.
        b = other if isinstance(other, np.ndarray) else cast(other, dtype)
        return ufunc(cast(self, compute), cast(b, compute))


_compare(np.equal, "eq")
_compare(np.not_equal, "ne")
_compare(np.less, "lt")
_compare(np.less_equal, "le")
_compare(np.greater, "gt")
_compare(np.greater_equal, "ge")


def _logical(ufunc: np.ufunc) -> None:
    @kernel(f"aten::{ufunc.__name__}")
    def run(self: Array, other: Array) -> Array:
        return ufunc(cast(self, BOOL), cast(other, BOOL))


_logical(np.logical_and)
_logical(np.logical_or)
_logical(np.logical_xor)


def _bitwise(ufunc: np.ufunc, of_bool: bool, *names: str) -> None:
    @kernel(*(f"aten::{name}" for name in names))
    def run(self: Operand, other: Operand) -> Array:
        a, b, dtype = operands(self, other)
        if not is_integral(dtype) or (dtype == BOOL and not of_bool):
            raise RuntimeError(f'"{ufunc.__name__}" not implemented for {dtype}')
        return ufunc(a, b)


def _overloads(name: str, *overloads: str) -> tuple[str, ...]:
    return tuple(f"{name}.{each}" for each in ("Tensor", *overloads))


for _ufunc in (np.bitwise_and, np.bitwise_or, np.bitwise_xor):
    _bitwise(_ufunc, True, *_overloads(_ufunc.__name__, "Scalar", "Scalar_Tensor"))
for _direction, _shift in (("left", np.left_shift), ("right", np.right_shift)):
    _named = _overloads(f"bitwise_{_direction}_shift", "Tensor_Scalar", "Scalar_Tensor")
    _bitwise(_shift, False, *_overloads(f"__{_direction[0]}shift__", "Scalar"), *_named)


@kernel("aten::logical_not")
def logical_not(self: Array) -> Array:
    """Return whether each element is zero."""
    return np.logical_not(wide(self))


@kernel("aten::isnan")
def isnan(self: Array) -> Array:
    """Return whether each element is NaN."""
    return np.zeros(self.shape, BOOL) if is_integral(self.dtype) else np.isnan(wide(self))


@kernel("aten::isinf")
def isinf(self: Array) -> Array:
    """Return whether each element is infinite."""
    return np.zeros(self.shape, BOOL) if is_integral(self.dtype) else np.isinf(wide(self))


@kernel("aten::isposinf")
def isposinf(self: Array) -> Array:
    """Return whether each element is positive infinity."""
    return np.zeros(self.shape, BOOL) if is_integral(self.dtype) else wide(self) == np.inf


@kernel("aten::isneginf")
def isneginf(self: Array) -> Array:
    """Return whether each element is negative infinity."""
    return np.zeros(self.shape, BOOL) if is_integral(self.dtype) else wide(self) == -np.inf


@kernel("aten::equal")
def equal(self: Array, other: Array) -> bool:
    """Return whether two tensors have the same shape and elements."""
    return self.shape == other.shape and bool(np.all(wide(self) == wide(other)))


def clamped(x: Array, low: Operand | None, high: Operand | None) -> Array:
    """The array within its bounds; where they cross, `high` wins; NaN stays NaN."""
    dtype = result_type(*(each for each in (x, low, high) if each is not None))
    compute = compute_dtype(dtype)
    y = cast(x, compute)
    if low is not None:
        y = np.maximum(y, cast(low, compute))
    if high is not None:
        y = np.minimum(y, cast(high, compute))
    return rounded(y.copy() if y is x else np.asarray(y), dtype)


@kernel("aten::clamp", "aten::clamp.Tensor")
def clamp(self: Array, min: Operand | None = None, max: Operand | None = None) -> Array:  # noqa: A002
    """Within [min, max], each of them a number, a tensor or absent."""
    return clamped(self, min, max)


@kernel("aten::clamp_min", "aten::clamp_min.Tensor")
def clamp_min(self: Array, min: Operand) -> Array:  # noqa: A002
    """At least `min`."""
    return clamped(self, min, None)


@kernel("aten::clamp_max", "aten::clamp_max.Tensor")
def clamp_max(self: Array, max: Operand) -> Array:  # noqa: A002
    """At most `max`."""
    return clamped(self, None, max)


@kernel("aten::where.self", function=chosen)
def where(condition: Array, self: Operand, other: Operand) -> Array:
    """`self` where the condition holds, `other` elsewhere, in their promoted dtype."""
    if not (isinstance(self, np.ndarray) and isinstance(other, np.ndarray) and self.dtype is other.dtype):
        dtype = result_type(self, other)
        self, other = cast(self, dtype), cast(other, dtype)
    return chosen(condition if condition.dtype is BOOL else cast(condition, BOOL), self, other)


@kernel("aten::masked_fill.Scalar", "aten::masked_fill.Tensor")
def masked_fill(self: Array, mask: Array, value: Number | Array) -> Array:
    """A copy of `self` with `value` where the mask is set; mask and tensor broadcast."""
    return chosen(cast(mask, BOOL), cast(value, self.dtype), self)
