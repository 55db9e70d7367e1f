"""Activations and their gradients. Halves are computed in float32 and rounded once."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from gpu2npu.emulator.kernels.indexing.select import chosen, retained
from gpu2npu.emulator.kernels.parallel import by_rows, in_cpp
from gpu2npu.emulator.kernels.pointwise.special import erf
from gpu2npu.emulator.kernels.pointwise.unary import logistic
from gpu2npu.emulator.kernels.promotion import F32, Array, float_dtype, rounded, wide, wide_float
from gpu2npu.emulator.kernels.registry import kernel

_SQRT_HALF = math.sqrt(0.5)
_SQRT_2_PI = math.sqrt(2 / math.pi)
_INV_SQRT_2PI = 1 / math.sqrt(2 * math.pi)
_TANH_CUBIC = 0.044715


@kernel("aten::relu")
def relu(self: Array) -> Array:
    """max(self, 0); NaN stays NaN."""
    if self.dtype is F32:
        return np.maximum(self, np.float32(0))
    return rounded(np.maximum(wide(self), wide(self).dtype.type(0)), self.dtype)


@kernel("aten::threshold")
def threshold(self: Array, threshold: float, value: float) -> Array:
    """`value` where self <= threshold, self elsewhere."""
    return np.where(wide(self) <= threshold, self.dtype.type(value), self)


@kernel("aten::threshold_backward")
def threshold_backward(grad_output: Array, self: Array, threshold: float) -> Array:
    """The gradient where self > threshold, 0 elsewhere; self may be the activation's result."""
    x = wide(self)
    return retained(~np.less_equal(x, x.dtype.type(threshold)), grad_output)


@kernel("aten::leaky_relu")
def leaky_relu(self: Array, negative_slope: float = 0.01) -> Array:
    """self where positive, negative_slope * self elsewhere."""
    x = wide(self)
    return rounded(chosen(x > 0, x, x * x.dtype.type(negative_slope)), self.dtype)


@kernel("aten::leaky_relu_backward")
def leaky_relu_backward(grad_output: Array, self: Array, negative_slope: float, self_is_result: bool) -> Array:
    """The gradient, scaled by negative_slope where self <= 0."""
    grad = wide(grad_output)
    return rounded(chosen(wide(self) > 0, grad, grad * grad.dtype.type(negative_slope)), grad_output.dtype)


@kernel("aten::elu")
def elu(self: Array, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Array:
    """scale * self where positive, scale * alpha * (exp(input_scale * self) - 1) elsewhere."""
    x = wide(self)
    kind = x.dtype.type
    negative = kind(alpha * scale) * np.expm1(x * kind(input_scale))
    return rounded(np.where(x < 0, negative, x * kind(scale)), self.dtype)


@kernel("aten::gelu")
def gelu(self: Array, *, approximate: str = "none") -> Array:
    """self * Phi(self); with "tanh", Phi by its tanh approximation.

    Raises:
        RuntimeError: `approximate` is neither "none" nor "tanh".
    """
    if approximate not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")
    x = np.asarray(wide(self))
    return rounded(by_rows(partial(_gelu, approximate == "tanh"), np.empty_like(x), x), self.dtype)


def _gelu(by_tanh: bool, y: Array, x: Array) -> None:
    if in_cpp("gelu_tanh" if by_tanh else "gelu", 0, y, x):
        return
    kind = x.dtype.type
    if by_tanh:
        np.multiply(x, x, out=y)
        y *= kind(_TANH_CUBIC * _SQRT_2_PI)
        y += kind(_SQRT_2_PI)
        y *= x
        np.tanh(y, out=y)
    else:
        y[...] = erf(np.asarray(x * kind(_SQRT_HALF)))
    y += 1
    y *= x
    y *= kind(0.5)


@kernel("aten::gelu_backward")
def gelu_backward(grad_output: Array, self: Array, *, approximate: str = "none") -> Array:
    """The gradient of gelu."""
    x = np.asarray(wide(self))
    slope = by_rows(partial(_gelu_slope, approximate == "tanh"), np.empty_like(x), x, np.asarray(wide(grad_output)))
    return rounded(slope, grad_output.dtype)


def _gelu_slope(by_tanh: bool, out: Array, x: Array, grad: Array) -> None:
    if in_cpp("gelu_tanh" if by_tanh else "gelu", 0, out, x, grad):
        return
    kind = x.dtype.type
    squared = np.asarray(np.multiply(x, x))
    if by_tanh:
        # 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner = 0.5 * (1 + t) * (1 + x * (1 - t) * inner)
        tanh = np.asarray(np.multiply(squared, kind(_TANH_CUBIC * _SQRT_2_PI)))
        tanh += kind(_SQRT_2_PI)
        tanh *= x
        np.tanh(tanh, out=tanh)
        slope = squared
        slope *= kind(3 * _TANH_CUBIC * _SQRT_2_PI)
        slope += kind(_SQRT_2_PI)
        slope *= x
        slope *= 1 - tanh
        slope += 1
        tanh += 1
        slope *= tanh
        slope *= kind(0.5)
    else:
        slope = erf(np.asarray(x * kind(_SQRT_HALF)))
        slope += 1
        slope *= kind(0.5)
        squared *= kind(-0.5)
        density = np.exp(squared, out=squared)
        density *= x
        density *= kind(_INV_SQRT_2PI)
        slope += density
    np.multiply(slope, grad, out=out)


@kernel("aten::silu")
def silu(self: Array) -> Array:
    """self * sigmoid(self)."""
    x = np.asarray(wide(self))
    return rounded(by_rows(_silu, np.empty_like(x), x), self.dtype)


def _silu(y: Array, x: Array) -> None:
    if not in_cpp("silu", 0, y, x):
        np.multiply(x, logistic(x), out=y)


@kernel("aten::silu_backward")
def silu_backward(grad_output: Array, self: Array) -> Array:
    """The gradient of silu."""
    x = np.asarray(wide(self))
    return rounded(by_rows(_silu_slope, np.empty_like(x), x, np.asarray(wide(grad_output))), grad_output.dtype)


def _silu_slope(out: Array, x: Array, grad: Array) -> None:
    if in_cpp("silu", 0, out, x, grad):
        return
    sigmoid = logistic(x)
    slope = np.subtract(1, sigmoid, out=out)
    slope *= x
    slope += 1
    slope *= sigmoid
    slope *= grad


@kernel("aten::hardtanh")
def hardtanh(self: Array, min_val: float = -1, max_val: float = 1) -> Array:
    """self within [min_val, max_val]."""
    x = wide(self)
    kind = x.dtype.type
    return rounded(np.minimum(np.maximum(x, kind(min_val)), kind(max_val)), self.dtype)


@kernel("aten::hardtanh_backward")
def hardtanh_backward(grad_output: Array, self: Array, min_val: float, max_val: float) -> Array:
    """The gradient strictly inside the bounds, 0 elsewhere."""
    x = wide(self)
    return retained(~((x <= min_val) | (x >= max_val)), grad_output)


@kernel("aten::hardsigmoid")
def hardsigmoid(self: Array) -> Array:
    """self / 6 + 1/2 within [0, 1]."""
    x = wide(self)
    return rounded(np.clip(x + 3, 0, 6) / 6, self.dtype)


@kernel("aten::hardsigmoid_backward")
def hardsigmoid_backward(grad_output: Array, self: Array) -> Array:
    """A sixth of the gradient within (-3, 3), 0 elsewhere."""
    x, grad = wide(self), wide(grad_output)
    return rounded(retained((x > -3) & (x < 3), grad / 6), grad_output.dtype)


@kernel("aten::hardswish")
def hardswish(self: Array) -> Array:
    """self * hardsigmoid(self)."""
    x = wide(self)
    return rounded(x * np.clip(x + 3, 0, 6) / 6, self.dtype)


@kernel("aten::softplus")
def softplus(self: Array, beta: float = 1, threshold: float = 20) -> Array:
    """log(1 + exp(beta * self)) / beta; self itself where beta * self > threshold."""
    x = wide(self)
    scaled = x * x.dtype.type(beta)
    return rounded(np.where(scaled > threshold, x, np.log1p(np.exp(scaled)) / x.dtype.type(beta)), self.dtype)


@kernel("aten::softshrink_backward", "aten::hardshrink_backward")
def shrink_backward(grad_output: Array, self: Array, lambd: float) -> Array:
    """The gradient outside [-lambd, lambd], 0 within."""
    x = wide(self)
    return np.where((x >= -lambd) & (x <= lambd), grad_output.dtype.type(0), grad_output)


def _glu_halves(self: Array, dim: int) -> tuple[Array, Array]:
    if self.shape[dim] % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {dim % self.ndim} is size {self.shape[dim]}")
    first, second = np.split(wide(self), 2, axis=dim)
    return first, second


@kernel("aten::glu")
def glu(self: Array, dim: int = -1) -> Array:
    """The first half along `dim`, gated by the sigmoid of the second.

    Raises:
        RuntimeError: The dimension is odd.
    """
    first, second = _glu_halves(self, dim)
    return rounded(first * logistic(second), self.dtype)


@kernel("aten::log_sigmoid_backward")
def log_sigmoid_backward(grad_output: Array, self: Array, buffer: Array) -> Array:
    """The gradient of log_sigmoid."""
    return rounded(wide(grad_output) * logistic(-wide(self)), grad_output.dtype)


@kernel("aten::tanh_backward")
def tanh_backward(grad_output: Array, output: Array) -> Array:
    """grad * (1 - output^2)."""
    y = wide(output)
    return rounded(wide(grad_output) * (1 - y * y), grad_output.dtype)


@kernel("aten::sigmoid_backward")
def sigmoid_backward(grad_output: Array, output: Array) -> Array:
    """grad * output * (1 - output)."""
    y = wide(output)
    return rounded(wide(grad_output) * ((1 - y) * y), grad_output.dtype)


@kernel("aten::logit")
def logit(self: Array, eps: float | None = None) -> Array:
    """log(self / (1 - self)), self first brought within [eps, 1 - eps] where eps is given."""
    x = wide_float(self)
    if eps is not None:
        x = np.clip(x, x.dtype.type(eps), x.dtype.type(1 - eps))
    return rounded(np.log(x / (1 - x)), float_dtype(self.dtype))
