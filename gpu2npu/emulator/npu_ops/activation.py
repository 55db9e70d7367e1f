"""torch_npu's activations: gated linear units, fast GELU, and fused forms of SiLU and Mish."""

from __future__ import annotations

import numpy as np

from gpu2npu.emulator.kernels.pointwise.activation import gelu, gelu_backward, silu, silu_backward
from gpu2npu.emulator.kernels.pointwise.unary import logistic
from gpu2npu.emulator.kernels.promotion import Array, rounded, wide
from gpu2npu.emulator.kernels.registry import kernel
from gpu2npu.emulator.npu_ops.arguments import Arguments, by_schema

_FAST_GELU = 1.702


@kernel("npu::fast_gelu", "npu::npu_fast_gelu")
def fast_gelu(self: Array) -> Array:
    """self * sigmoid(1.702 * self), CANN's FastGelu."""
    x = wide(self)
    return rounded(x * logistic(x * x.dtype.type(_FAST_GELU)), self.dtype)


@kernel("npu::npu_fast_gelu_backward")
def fast_gelu_backward(grad: Array, self: Array) -> Array:
    """The gradient of `fast_gelu`."""
    x = wide(self)
    return rounded(silu_backward(wide(grad), x * x.dtype.type(_FAST_GELU)), self.dtype)


kernel("npu::npu_gelu")(gelu)
kernel("npu::npu_gelu_backward")(gelu_backward)
kernel("npu::npu_silu")(silu)


def _halves(x: Array, dim: int) -> tuple[Array, Array]:
    first, second = np.split(wide(x), 2, axis=dim)
    return first, second


@kernel("npu::npu_swiglu")
def npu_swiglu(self: Array, dim: int = -1) -> Array:
    """silu(a) * b of the halves a and b of self along `dim`."""
    a, b = _halves(self, dim)
    return rounded(silu(a) * b, self.dtype)


@kernel("npu::npu_swiglu_backward")
def npu_swiglu_backward(grad_output: Array, self: Array, dim: int = -1) -> Array:
    """The gradient of `npu_swiglu`."""
    a, b = _halves(self, dim)
    grad = wide(grad_output)
    return rounded(np.concatenate((silu_backward(grad * b, a), grad * silu(a)), axis=dim), self.dtype)


@by_schema(kernel, "npu::npu_clipped_swiglu")
def npu_clipped_swiglu(given: Arguments) -> Array:
    """a * sigmoid(alpha * a) * (b + bias), a at most `limit` and b within it; a and b are alternate entries or halves.

    With `group_index`, the counts of rows, only their sum of rows is computed; the rest is 0.
    """
    axis = given.dim % given.x.ndim
    flat = wide(given.x).reshape(int(np.prod(given.x.shape[:axis], dtype=int)), -1)
    kind = flat.dtype.type
    half = flat.shape[1] // 2
    a, b = (flat[:, ::2], flat[:, 1::2]) if given.interleaved else (flat[:, :half], flat[:, half:])
    a, b = np.minimum(a, kind(given.limit)), np.clip(b, kind(-given.limit), kind(given.limit))
    y = a * logistic(a * kind(given.alpha)) * (b + kind(given.bias))
    if given.group_index is not None:
        y[int(given.group_index.sum()) :] = 0
    return rounded(
        y.reshape(*given.x.shape[:axis], given.x.shape[axis] // 2, *given.x.shape[axis + 1 :]), given.x.dtype
    )


def _gate_first(x: Array, dim: int, activate_left: bool) -> tuple[Array, Array]:
    """The half that the activation is applied to, and the other; the second half unless `activate_left`."""
    first, second = _halves(x, dim)
    return (first, second) if activate_left else (second, first)


@kernel("npu::npu_geglu")
def npu_geglu(self: Array, dim: int = -1, approximate: int = 1, activate_left: bool = False) -> tuple[Array, Array]:
    """gelu(b) * a of the halves a and b along `dim`, and gelu(b); `approximate` 1 takes the tanh form."""
    gate, value = _gate_first(self, dim, activate_left)
    activated = gelu(gate, approximate="tanh" if approximate else "none")
    return rounded(activated * value, self.dtype), rounded(activated, self.dtype)


@by_schema(kernel, "npu::npu_geglu_grad")
def npu_geglu_grad(a: Arguments) -> Array:
    """The gradient of `npu_geglu` from its second result."""
    gate, value = _gate_first(a.self, a.dim, a.activate_left)
    grad = wide(a.grad_output)
    through = gelu_backward(grad * value, gate, approximate="tanh" if a.approximate else "none")
    grads = (through, grad * wide(a.gelu))
    return rounded(np.concatenate(grads if a.activate_left else grads[::-1], axis=a.dim), a.self.dtype)


@kernel("npu::npu_gelu_mul")
def npu_gelu_mul(input: Array, *, approximate: str = "none") -> Array:  # noqa: A002
    """gelu(a) * b of the halves a and b of the last dimension."""
    a, b = _halves(input, -1)
    return rounded(gelu(a, approximate=approximate) * b, input.dtype)


@kernel("npu::npu_silu_backward")
def npu_silu_backward(grad_output: Array, x0: Array, x1: Array) -> Array:
    """The gradient of `npu_silu` at x0; x1, its result, is not needed."""
    return silu_backward(grad_output, x0)


@kernel("npu::npu_mish")
def npu_mish(self: Array) -> Array:
    """self * tanh(log(1 + exp(self)))."""
    x = wide(self)
    return rounded(x * np.tanh(np.logaddexp(x, x.dtype.type(0))), self.dtype)


@kernel("npu::npu_mish_backward")
def npu_mish_backward(grad: Array, input: Array) -> Array:  # noqa: A002
    """The gradient of `npu_mish`."""
    x = wide(input)
    t = np.tanh(np.logaddexp(x, x.dtype.type(0)))
    return rounded(wide(grad) * (t + x * logistic(x) * (1 - t * t)), input.dtype)
