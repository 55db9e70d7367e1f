"""torch_npu's rotary position embeddings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gpu2npu.emulator.kernels.promotion import Array, rounded, wide
from gpu2npu.emulator.kernels.registry import kernel
from gpu2npu.emulator.npu_ops.gradient import Arguments, Results, gradient, npu, pick


def _rotated(x: Array, mode: Any) -> Array:
    """(-x2, x1) of the halves, or of the pairs when interleaved, of the last dimension."""
    y = np.empty_like(x)
    half = x.shape[-1] // 2
    if mode == "half":
        y[..., :half], y[..., half:] = -x[..., half:], x[..., :half]
    elif mode == "interleave":
        y[..., ::2], y[..., 1::2] = -x[..., 1::2], x[..., ::2]
    else:
        raise NotImplementedError(f"rotary_mode={mode!r}")
    return y


def _reduced(grad: Array, like: Array) -> Array:
    """The gradient of a broadcast operand: summed over what it was spread along."""
    lead = tuple(range(grad.ndim - like.ndim))
    spread = tuple(i + len(lead) for i, size in enumerate(like.shape) if size == 1 and grad.shape[i + len(lead)] != 1)
    return rounded(np.add.reduce(grad, axis=lead + spread, keepdims=True).reshape(like.shape), like.dtype)


@kernel("npu::npu_rotary_mul")
def npu_rotary_mul(self: Array, r1: Array, r2: Array, rotary_mode: str = "half", rotate: Array | None = None) -> Array:
    """Rotary position embedding: r1 * self + r2 * rotated(self); `rotate` is a matrix (D, D) that rotates."""
    x = wide(self)
    turned = _rotated(x, rotary_mode) if rotate is None else x @ wide(rotate)
    return rounded(wide(r1) * x + wide(r2) * turned, self.dtype)


@kernel("npu::npu_rotary_mul_backward")
def npu_rotary_mul_backward(
    grad: Array, self: Array, r1: Array, r2: Array, rotary_mode: str = "half"
) -> tuple[Array, Array, Array]:
    """Gradients for self, r1 and r2."""
    g, x = wide(grad), wide(self)
    grad_self = g * wide(r1) - _rotated(g * wide(r2), rotary_mode)
    return (
        rounded(grad_self, self.dtype),
        _reduced(g * x, r1),
        _reduced(g * _rotated(x, rotary_mode), r2),
    )


@kernel("npu::npu_apply_rotary_pos_emb")
def npu_apply_rotary_pos_emb(
    query: Array, key: Array, cos: Array, sin: Array, layout: str = "BSND", rotary_mode: str = "half"
) -> tuple[Array, Array]:
    """`npu_rotary_mul` of query and key with the same cos and sin, which broadcast."""
    return npu_rotary_mul(query, cos, sin, rotary_mode), npu_rotary_mul(key, cos, sin, rotary_mode)


@gradient("npu_rotary_mul", saves="self r1 r2 rotate")
def _rotary_mul_gradient(a: Arguments, y: Results, g: Results) -> Mapping[str, Any]:
    if a.rotate is not None:
        raise RuntimeError("npu_rotary_mul is not differentiable when it is given rotate")
    return pick("self r1 r2", npu.npu_rotary_mul_backward(g[0], a.self, a.r1, a.r2, a.rotary_mode))
