"""Softmax, log-softmax and their gradients, along one dimension; computed in float32 at least."""

from __future__ import annotations

import numpy as np

from gpu2npu.emulator.kernels.promotion import Array, rounded, wide, wide_float
from gpu2npu.emulator.kernels.registry import kernel


def _shifted(self: Array, dim: int) -> Array:
    x = wide_float(self)
    if not x.ndim or not x.size:
        return x - x
    largest = np.maximum.reduce(x, axis=dim, keepdims=True)
    return np.subtract(x, largest)


def _axis(x: Array, dim: int) -> int | None:
    return dim if x.ndim else None


@kernel("aten::_softmax")
def softmax(self: Array, dim: int, half_to_float: bool = False) -> Array:
    """exp(self) over its sum along `dim`; float32 of a half input where `half_to_float`."""
    y = np.asarray(_shifted(self, dim))
    np.exp(y, out=y)
    y /= np.add.reduce(y, axis=_axis(y, dim), keepdims=True)
    return y if half_to_float else rounded(y, self.dtype)


@kernel("aten::_log_softmax")
def log_softmax(self: Array, dim: int, half_to_float: bool = False) -> Array:
    """The logarithm of softmax along `dim`; float32 of a half input where `half_to_float`."""
    y = np.asarray(_shifted(self, dim))
    y -= np.log(np.add.reduce(np.exp(y), axis=_axis(y, dim), keepdims=True))
    return y if half_to_float else rounded(y, self.dtype)


@kernel("aten::_softmax_backward_data")
def softmax_backward(grad_output: Array, output: Array, dim: int, input_dtype: np.dtype) -> Array:
    """output * (grad - sum(grad * output)), in the input's dtype."""
    y = np.asarray(wide(output))
    result = np.asarray(wide(grad_output) * y)
    result -= y * np.add.reduce(result, axis=_axis(y, dim), keepdims=True)
    return rounded(result, input_dtype)


@kernel("aten::_log_softmax_backward_data")
def log_softmax_backward(grad_output: Array, output: Array, dim: int, input_dtype: np.dtype) -> Array:
    """grad - exp(output) * sum(grad), in the input's dtype."""
    grad = wide(grad_output)
    result = np.asarray(np.exp(wide(output)))
    result *= np.add.reduce(grad, axis=_axis(grad, dim), keepdims=True)
    return rounded(np.subtract(grad, result), input_dtype)
