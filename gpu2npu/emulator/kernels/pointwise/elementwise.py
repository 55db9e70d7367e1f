"""Arithmetic of two or more tensors: add, multiply, divide, power, remainders, interpolation.

Every kernel broadcasts, promotes as torch does, computes float16 and bfloat16 in float32 and rounds once.
Integers wrap around.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpu2npu.emulator.kernels.promotion import (
    BOOL,
    F32,
    Array,
    Number,
    Operand,
    cast,
    compute_dtype,
    float_operands,
    is_integral,
    operands,
    result_type,
    rounded,
    wide,
)
from gpu2npu.emulator.kernels.registry import kernel


def _scaled(b: Array, alpha: Number) -> Array:
    if alpha.__class__ is float and is_integral(b.dtype):
        raise RuntimeError("For integral input tensors, argument alpha must not be a floating point number.")
    return b if alpha == 1 else b * cast(alpha, b.dtype)


@kernel("aten::add.Tensor", "aten::add.Scalar", function=np.add)
def add(self: Operand, other: Operand, alpha: Number = 1) -> Array:
    """self + alpha * other; of two bool tensors, their disjunction."""
    a, b, dtype = operands(self, other)
    return rounded(np.add(a, _scaled(b, alpha)), dtype)


def _check_subtraction(self: Operand, other: Operand) -> None:
    bools = _is_bool(self) + _is_bool(other)
    if bools == 2:
        raise RuntimeError(
            "Subtraction, the `-` operator, with two bool tensors is not supported. "
            "Use the `^` or `logical_xor()` operator instead."
        )
    if bools:
        raise RuntimeError(
            "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, "
            "use the `~` or `logical_not()` operator instead."
        )


def _is_bool(value: Operand) -> bool:
    return value.dtype == BOOL if isinstance(value, np.ndarray) else isinstance(value, bool)


@kernel("aten::sub.Tensor", "aten::sub.Scalar", function=np.subtract)
def sub(self: Operand, other: Operand, alpha: Number = 1) -> Array:
    """self - alpha * other.

    Raises:
        RuntimeError: One is bool, which torch refuses too.
    """
    _check_subtraction(self, other)
    a, b, dtype = operands(self, other)
    return rounded(np.subtract(a, _scaled(b, alpha)), dtype)


def _binary(*names: str) -> Callable[[np.ufunc], np.ufunc]:
    """Register a ufunc of two operands whose result has the promoted dtype."""

    def register(ufunc: np.ufunc) -> np.ufunc:
        @kernel(*names, function=ufunc)
        def run(self: Operand, other: Operand) -> Array:
            a, b, dtype = operands(self, other)
            return rounded(ufunc(a, b), dtype)

        return ufunc

    return register


def _float_binary(*names: str) -> Callable[[Callable[[Array, Array], Array]], Callable[[Array, Array], Array]]:
    """Register a function of two operands whose result is floating: integers are computed in float32."""

    def register(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
        @kernel(*names)
        def run(self: Operand, other: Operand) -> Array:
            a, b, dtype = float_operands(self, other)
            return rounded(function(a, b), dtype)

        return function

    return register


_binary("aten::mul.Tensor", "aten::mul.Scalar")(np.multiply)
_binary("aten::maximum")(np.maximum)
_binary("aten::minimum")(np.minimum)
_binary("aten::gcd")(np.gcd)
_float_binary("aten::atan2")(np.arctan2)
_float_binary("aten::logaddexp")(np.logaddexp)
_float_binary("aten::logaddexp2")(np.logaddexp2)


@_float_binary("aten::xlogy.Tensor", "aten::xlogy.Scalar_Self", "aten::xlogy.Scalar_Other")
def xlogy(a: Array, b: Array) -> Array:
    """a * log(b), 0 where a is 0 and b is not NaN."""
    return np.where((a == 0) & ~np.isnan(b), a.dtype.type(0), a * np.log(b))


def _check_divisor(a: Array, b: Array) -> None:
    if a.size and not np.all(b):
        raise RuntimeError("ZeroDivisionError")


def _divided(ufunc: np.ufunc, self: Operand, other: Operand) -> Array:
    a, b, dtype = operands(self, other)
    if is_integral(dtype):
        _check_divisor(a, b)
    return rounded(ufunc(a, b), dtype)


@kernel("aten::div.Tensor", "aten::div.Scalar", function=np.divide)
def div(self: Operand, other: Operand) -> Array:
    """self / other; integers divide in the default dtype."""
    if type(self) is np.ndarray and self.dtype is F32:
        a, b, dtype = operands(self, other)
        if dtype is F32:
            return np.divide(a, b)
    a, b, dtype = float_operands(self, other)
    return rounded(np.divide(a, b), dtype)


def _trunc_divide(self: Operand, other: Operand) -> Array:
    a, b, dtype = operands(self, other)
    if not is_integral(dtype):
        # torch rounds a half quotient to its dtype before it truncates, on every device.
        return rounded(np.trunc(wide(rounded(np.asarray(np.divide(a, b)), dtype))), dtype)
    _check_divisor(a, b)
    quotient = np.floor_divide(a, b)
    inexact_negative = (quotient < 0) & (quotient * b != a)
    return rounded(quotient + inexact_negative.astype(quotient.dtype), dtype)


@kernel("aten::div.Tensor_mode", "aten::div.Scalar_mode")
def div_mode(self: Operand, other: Operand, *, rounding_mode: str | None) -> Array:
    """self / other, rounded as `rounding_mode` says: None, "floor" or "trunc"."""
    if rounding_mode is None:
        return div(self, other)
    return _divided(np.floor_divide, self, other) if rounding_mode == "floor" else _trunc_divide(self, other)


@kernel("aten::remainder.Tensor", "aten::remainder.Scalar", "aten::remainder.Scalar_Tensor")
def remainder(self: Operand, other: Operand) -> Array:
    """The remainder with the divisor's sign.

    Raises:
        RuntimeError: An integer is divided by zero.
    """
    return _divided(np.remainder, self, other)


@kernel("aten::fmod.Tensor", "aten::fmod.Scalar")
def fmod(self: Operand, other: Operand) -> Array:
    """The remainder with the dividend's sign.

    Raises:
        RuntimeError: An integer is divided by zero.
    """
    return _divided(np.fmod, self, other)


def _integer_power(base: Array, exponent: Array) -> Array:
    negative = exponent < 0
    if not np.any(negative):
        return np.power(base, exponent)
    # 1 and -1 have integer reciprocals; anything else rounds to 0.
    power = np.power(base, np.where(negative, -exponent % 2, exponent))
    return np.where(negative & (np.abs(base) != 1), base.dtype.type(0), power)


@kernel("aten::pow.Tensor_Tensor", "aten::pow.Scalar")
def power(self: Operand, exponent: Operand) -> Array:
    """self ** exponent in the promoted dtype."""
    a, b, dtype = operands(self, exponent)
    if is_integral(dtype):
        return rounded(np.asarray(_integer_power(a, b)), dtype)
    return rounded(np.power(a, b), dtype)


@kernel("aten::pow.Tensor_Scalar")
def power_scalar(self: Array, exponent: Number) -> Array:
    """self ** exponent; squares, cubes, roots and reciprocals take the exact shortcut torch takes.

    Raises:
        RuntimeError: An integer tensor is raised to a negative integer.
    """
    dtype = result_type(self, exponent)
    x = cast(self, compute_dtype(dtype))
    if is_integral(dtype):
        if isinstance(exponent, int) and exponent < 0:
            raise RuntimeError("Integers to negative integer powers are not allowed.")
        return rounded(np.power(x, np.array(exponent).astype(x.dtype)), dtype)
    if exponent == 2:
        return rounded(np.multiply(x, x), dtype)
    if exponent == 3:
        return rounded(x * x * x, dtype)
    if exponent == 0.5:
        return rounded(np.sqrt(x), dtype)
    if exponent == -1:
        return rounded(1 / x, dtype)
    if exponent == -0.5:
        return rounded(1 / np.sqrt(x), dtype)
    return rounded(np.power(x, x.dtype.type(exponent)), dtype)


@kernel("aten::lerp.Scalar", "aten::lerp.Tensor")
def lerp(self: Array, end: Array, weight: Operand) -> Array:
    """self + weight * (end - self), taken from the nearer end so that weight 1 gives `end` exactly."""
    dtype = self.dtype
    compute = compute_dtype(dtype)
    a, b = cast(self, compute), cast(end, compute)
    if not isinstance(weight, np.ndarray):
        step = np.subtract(b, a)
        if abs(weight) < 0.5:
            return rounded(a + step * compute.type(weight), dtype)
        return rounded(b - step * compute.type(1 - weight), dtype)
    w = cast(weight, compute)
    step = b - a
    return rounded(np.where(np.abs(w) < 0.5, a + w * step, b - step * (1 - w)), dtype)


def _product_term(
    self: Array, tensor1: Array, tensor2: Array, value: Operand
) -> tuple[Array, Array, Array, Array, np.dtype]:
    dtype = result_type(self, tensor1, tensor2)
    compute = compute_dtype(dtype)
    return cast(self, compute), cast(tensor1, compute), cast(tensor2, compute), cast(value, compute), dtype


@kernel("aten::addcmul")
def addcmul(self: Array, tensor1: Array, tensor2: Array, *, value: Operand = 1) -> Array:
    """self + value * tensor1 * tensor2."""
    x, a, b, v, dtype = _product_term(self, tensor1, tensor2, value)
    return rounded(x + v * a * b, dtype)


@kernel("aten::addcdiv")
def addcdiv(self: Array, tensor1: Array, tensor2: Array, *, value: Operand = 1) -> Array:
    """self + value * tensor1 / tensor2.

    Raises:
        RuntimeError: The tensors are integers, which torch refuses too.
    """
    if is_integral(tensor1.dtype) and is_integral(tensor2.dtype):
        raise RuntimeError("Integer division with addcdiv is not supported; use addcmul or convert to float first.")
    x, a, b, v, dtype = _product_term(self, tensor1, tensor2, value)
    return rounded(x + v * a / b, dtype)
