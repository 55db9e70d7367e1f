"""torch_npu's fused normalisations: RMS, layer, deep and group norm with what they are fused with.

Statistics are float32; gradients of gamma and beta are float32 where torch_npu's are.
"""

from __future__ import annotations

import numpy as np

from gpu2npu.emulator.kernels.nn.norm import (
    group_norm,
    group_norm_backward,
    layer_norm,
    layer_norm_backward,
    rms_norm,
    rms_norm_backward,
)
from gpu2npu.emulator.kernels.pointwise.unary import logistic
from gpu2npu.emulator.kernels.promotion import F32, Array, rounded, wide
from gpu2npu.emulator.kernels.registry import kernel
from gpu2npu.emulator.npu_ops.arguments import Arguments, by_schema

_ALL = (True, True, True)


@kernel("npu::npu_rms_norm")
def npu_rms_norm(self: Array, gamma: Array, epsilon: float = 1e-06) -> tuple[Array, Array]:
    """self over its root mean square along gamma's dimensions, times gamma; and 1 / rms in float32."""
    y, rstd = rms_norm(self, gamma.shape, gamma, epsilon)
    return y, rounded(rstd, F32)


@kernel("npu::npu_gemma_rms_norm")
def npu_gemma_rms_norm(self: Array, gamma: Array, epsilon: float = 1e-06) -> tuple[Array, Array]:
    """`npu_rms_norm` with 1 + gamma."""
    y, rstd = rms_norm(wide(self), gamma.shape, wide(gamma) + np.float32(1), epsilon)
    return rounded(y, self.dtype), rounded(rstd, F32)


@kernel("npu::npu_rms_norm_backward")
def npu_rms_norm_backward(dy: Array, self: Array, gamma: Array, rstd: Array) -> tuple[Array, Array]:
    """Gradients for self, in its dtype, and for gamma, in float32."""
    grad, grad_gamma = rms_norm_backward(dy, self, gamma.shape, rstd, wide(gamma), (True, True))
    assert grad is not None
    assert grad_gamma is not None
    return grad, rounded(grad_gamma, F32)


def _summed(x1: Array, x2: Array) -> Array:
    return rounded(wide(x1) + wide(x2), x1.dtype)


@kernel("npu::npu_add_rms_norm")
def npu_add_rms_norm(x1: Array, x2: Array, gamma: Array, epsilon: float = 1e-06) -> tuple[Array, Array, Array]:
    """RMS norm of x = x1 + x2: the result, 1 / rms in float32, and x."""
    x = _summed(x1, x2)
    y, rstd = npu_rms_norm(x, gamma, epsilon)
    return y, rstd, x


@kernel("npu::npu_add_rms_norm_cast")
def npu_add_rms_norm_cast(
    x1: Array, x2: Array, gamma: Array, epsilon: float = 1e-06
) -> tuple[Array, Array, Array, Array]:
    """RMS norm of x = x1 + x2: the result in float32 and in the input's dtype, 1 / rms in float32, and x."""
    x = _summed(x1, x2)
    y, rstd = npu_rms_norm(wide(x), gamma, epsilon)
    return y, rounded(y, x.dtype), rstd, x


@by_schema(kernel, "npu::npu_layer_norm_eval")
def npu_layer_norm_eval(a: Arguments) -> Array:
    """`torch.nn.functional.layer_norm`, without what a backward pass needs."""
    return layer_norm(a.input, a.normalized_shape, a.weight, a.bias, a.eps)[0]


@by_schema(kernel, "npu::npu_layernorm_grad")
def npu_layernorm_grad(a: Arguments) -> tuple[Array | None, Array | None, Array | None]:
    """Gradients of layer norm for input, weight and bias."""
    return layer_norm_backward(a.grad_out, a.input, a.normalized_shape, a.mean, a.rstd, a.weight, a.bias, _ALL)


@kernel("npu::npu_add_layer_norm")
def npu_add_layer_norm(
    x1: Array, x2: Array, gamma: Array, beta: Array, epsilon: float = 1e-05, additional_output: bool = False
) -> tuple[Array, Array, Array, Array]:
    """Layer norm of x = x1 + x2 over gamma's dimensions: the result, mean and 1 / deviation in float32, and x."""
    x = _summed(x1, x2)
    y, mean, rstd = layer_norm(x, gamma.shape, gamma, beta, epsilon)
    return y, rounded(mean, F32), rounded(rstd, F32), x


@kernel("npu::npu_add_layer_norm_backward")
def npu_add_layer_norm_backward(
    dy_opt: Array | None, x1: Array, x2: Array, rstd: Array, mean: Array, gamma: Array, dsum_opt: Array | None
) -> tuple[Array, Array, Array, Array]:
    """Gradients for x1, x2, gamma and beta; `dsum_opt` is the gradient of the sum x itself."""
    x = _summed(x1, x2)
    dy = np.zeros_like(x) if dy_opt is None else dy_opt
    dx, dgamma, dbeta = layer_norm_backward(dy, x, gamma.shape, mean, rstd, wide(gamma), wide(gamma), _ALL)
    assert dx is not None
    assert dgamma is not None
    assert dbeta is not None
    if dsum_opt is not None:
        dx = rounded(wide(dx) + wide(dsum_opt), x.dtype)
    return dx, dx.copy(), rounded(dgamma, F32), rounded(dbeta, F32)


@kernel("npu::npu_deep_norm")
def npu_deep_norm(
    x: Array, gx: Array, beta: Array, gamma: Array, alpha: float = 0.3, epsilon: float = 1e-06
) -> tuple[Array, Array, Array]:
    """Layer norm of alpha * x + gx: mean and 1 / deviation in float32, and the result."""
    y, mean, rstd = layer_norm(wide(x) * np.float32(alpha) + wide(gx), gamma.shape, gamma, beta, epsilon)
    return rounded(mean, F32), rounded(rstd, F32), rounded(y, x.dtype)


@kernel("npu::npu_deep_norm_backward")
def npu_deep_norm_backward(
    dy: Array, x: Array, gx: Array, gamma: Array, mean: Array, rstd: Array, alpha: float = 0.3
) -> tuple[Array, Array, Array, Array]:
    """Gradients for x, gx, beta and gamma."""
    inner = wide(x) * np.float32(alpha) + wide(gx)
    dinner, dgamma, dbeta = layer_norm_backward(dy, inner, gamma.shape, mean, rstd, wide(gamma), wide(gamma), _ALL)
    assert dinner is not None
    assert dgamma is not None
    assert dbeta is not None
    return rounded(dinner * np.float32(alpha), x.dtype), rounded(dinner, gx.dtype), dbeta, dgamma


def _group_norm(
    x: Array, groups: int, weight: Array | None, bias: Array | None, eps: float
) -> tuple[Array, Array, Array]:
    channels = x.shape[1]
    return group_norm(wide(x), weight, bias, x.shape[0], channels, x[0, 0].size, groups, eps)


@by_schema(kernel, "npu::npu_group_norm_silu")
def npu_group_norm_silu(a: Arguments) -> tuple[Array, Array, Array]:
    """SiLU of the group norm of (N, C, *); mean and 1 / deviation (N, group) in the input's dtype."""
    return npu_group_norm_swish(Arguments(**vars(a), num_groups=a.group, swish_scale=1.0))


@by_schema(kernel, "npu::npu_group_norm_swish")
def npu_group_norm_swish(a: Arguments) -> tuple[Array, Array, Array]:
    """y * sigmoid(swish_scale * y) of the group norm y; mean and 1 / deviation (N, group) in the input's dtype."""
    y, mean, rstd = _group_norm(a.input, a.num_groups, a.weight, a.bias, 1e-5 if a.eps is None else a.eps)
    y = wide(y)
    y = y * logistic(y * y.dtype.type(1.0 if a.swish_scale is None else a.swish_scale))
    return rounded(y, a.input.dtype), rounded(mean, a.input.dtype), rounded(rstd, a.input.dtype)


@by_schema(kernel, "npu::npu_group_norm_swish_grad")
def npu_group_norm_swish_grad(a: Arguments) -> tuple[Array | None, Array | None, Array | None]:
    """Gradients for input, weight and bias, each where its mask is set."""
    x = wide(a.input)
    kind = x.dtype.type
    scale = kind(1.0 if a.swish_scale is None else a.swish_scale)
    shape = (x.shape[0], a.num_groups, *(1,) * (x.ndim - 1))
    groups = x.reshape(x.shape[0], a.num_groups, x.shape[1] // a.num_groups, *x.shape[2:])
    standard = ((groups - wide(a.mean).reshape(shape)) * wide(a.rstd).reshape(shape)).reshape(x.shape)
    channel = (1, -1, *(1,) * (x.ndim - 2))
    y = standard * wide(a.weight).reshape(channel) + wide(a.bias).reshape(channel)
    gate = logistic(y * scale)
    inner = wide(a.grad) * (gate + y * scale * gate * (1 - gate))
    found = group_norm_backward(
        inner, x, wide(a.mean), wide(a.rstd), wide(a.weight), x.shape[0], x.shape[1], x[0, 0].size, a.num_groups, _ALL
    )
    dtypes = (a.input.dtype, a.weight.dtype, a.bias.dtype)
    dx, dw, db = (
        rounded(each, dtype) if wanted and each is not None else None
        for each, dtype, wanted in zip(found, dtypes, a.grad_input_mask, strict=True)
    )
    return dx, dw, db
