"""Softmax, log-softmax and their gradients, along one dimension; computed in float32 at least."""

from __future__ import annotations

import numpy as np

from gpu2npu.emulator.kernels.promotion import Array, rounded, wide, wide_float
from gpu2npu.emulator.kernels.registry import kernel


def _shifted(self: Array, dim: int) -> Array:
    x = np.atleast_1d(wide_float(self))
    if not x.size:
        return x - x
    largest = np.maximum.reduce(x, axis=dim, keepdims=True)
    return np.subtract(x, largest)


@kernel("aten::_softmax")
def softmax(self: Array, dim: int, half_to_float: bool = False) -> Array:
    """exp(self) over its sum along `dim`; float32 of a half input where `half_to_float`."""
    y = _shifted(self, dim)
    np.exp(y, out=y)
    y /= np.add.reduce(y, axis=dim, keepdims=True)
    y = y.reshape(self.shape)
    return y if half_to_float else rounded(y, self.dtype)


@kernel("aten::_log_softmax")
def log_softmax(self: Array, dim: int, half_to_float: bool = False) -> Array:
    """The logarithm of softmax along `dim`; float32 of a half input where `half_to_float`."""
    y = _shifted(self, dim)
    y -= np.log(np.add.reduce(np.exp(y), axis=dim, keepdims=True))
    y = y.reshape(self.shape)
    return y if half_to_float else rounded(y, self.dtype)


@kernel("aten::_softmax_backward_data")
def softmax_backward(grad_output: Array, output: Array, dim: int, input_dtype: np.dtype) -> Array:
    """output * (grad - sum(grad * output)), in the input's dtype."""
    y = np.atleast_1d(wide(output))
    result = wide(grad_output) * y
    result -= y * np.add.reduce(result, axis=dim, keepdims=True)
    return rounded(result.reshape(output.shape), input_dtype)


@kernel("aten::_log_softmax_backward_data")
def log_softmax_backward(grad_output: Array, output: Array, dim: int, input_dtype: np.dtype) -> Array:
    """grad - exp(output) * sum(grad), in the input's dtype."""
    grad = np.atleast_1d(wide(grad_output))
    result = np.exp(np.atleast_1d(wide(output)))
    result *= np.add.reduce(grad, axis=dim, keepdims=True)
    return rounded(np.subtract(grad, result).reshape(output.shape), input_dtype)
