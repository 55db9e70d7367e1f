"""torch_npu's rotary position embeddings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gpu2npu.emulator.kernels.promotion import Array, rounded, wide
from gpu2npu.emulator.kernels.registry import kernel
from gpu2npu.emulator.npu_ops.arguments import Arguments, by_schema
from gpu2npu.emulator.npu_ops.composite import composite
from gpu2npu.emulator.npu_ops.gradient import Results, gradient, npu, pick


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


def _turned(x: Tensor) -> Tensor:
    """The halves of the last dimension exchanged, the one that comes first negated."""
    first, second = x.chunk(2, -1)
    return torch.cat((-second, first), -1)


@composite("npu_interleave_rope")
def npu_interleave_rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """x (B, N, S, D), its even and odd places collected into halves, turned by cos and sin (B, 1 or N, S, D)."""
    halves = x.unflatten(-1, (-1, 2)).transpose(-1, -2).flatten(-2)
    return (halves * cos + _turned(halves) * sin).to(x.dtype)


@by_schema(composite, "npu_mrope")
def npu_mrope(a: Arguments) -> tuple[Tensor, Tensor]:
    """Query and key (tokens, heads * head_size) turned by the angles of their positions, (tokens,) or (3, tokens).

    Of three rows of positions, `mrope_section` is how many of the angles each row gives.
    """
    if a.cache_mode != "default" or a.rotary_mode not in ("half", "interleave"):
        raise NotImplementedError(f"torch_npu.npu_mrope: the emulated NPU does not compute cache_mode={a.cache_mode!r}")
    angles = a.cos_sin_cache[a.positions]
    if a.positions.dim() == 2:
        sections = list(a.mrope_section or ())
        parts = angles.unflatten(-1, (2, -1)).split(sections, -1)
        angles = torch.cat([part[row] for row, part in enumerate(parts)], -1).flatten(-2)
    cos, sin = angles[:, None].chunk(2, -1)

    def turned(x: Tensor) -> Tensor:
        heads = x.unflatten(-1, (-1, a.head_size))
        rotary, rest = heads[..., : 2 * cos.shape[-1]], heads[..., 2 * cos.shape[-1] :]
        is_half = a.rotary_mode == "half"
        first, second = rotary.chunk(2, -1) if is_half else (rotary[..., ::2], rotary[..., 1::2])
        parts = first * cos - second * sin, second * cos + first * sin
        found = torch.cat(parts, -1) if is_half else torch.stack(parts, -1).flatten(-2)
        return torch.cat((found, rest), -1).flatten(-2).to(x.dtype)

    return turned(a.query), turned(a.key)
