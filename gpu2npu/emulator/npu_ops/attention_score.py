"""torch_npu's older fused attention score: every head of a batch with one mask, and a byte mask of the dropout."""

from __future__ import annotations

import numpy as np

from gpu2npu.emulator.kernels.nn.softmax import softmax
from gpu2npu.emulator.kernels.promotion import Array, rounded, wide
from gpu2npu.emulator.kernels.registry import kernel
from gpu2npu.emulator.npu_ops.arguments import Arguments, by_schema


def _oriented(x: Array, transposed: bool) -> Array:
    return wide(x).swapaxes(-1, -2) if transposed else wide(x)


@by_schema(kernel, "npu::npu_fused_attention_score_fwd")
def npu_fused_attention_score_fwd(a: Arguments) -> tuple[Array, Array, Array]:
    """dropout(softmax(q @ k^T * scale + mask)) @ v of (B, N, S, D).

    Returns:
        (B * S, N * D) results, the softmax, and a byte mask of what was kept.
    """
    if a.bmm_score_transpose_a or a.bmm_score_transpose_b:
        raise NotImplementedError("npu_fused_attention_score with bmm_score_transpose_a or _b")
    q, k = _oriented(a.query_layer, a.query_transpose), _oriented(a.key_layer, a.key_transpose)
    v = _oriented(a.value_layer, a.value_transpose)
    p = softmax(q @ k.swapaxes(-1, -2) * np.float32(a.scale) + wide(a.attention_mask), -1)  # type: ignore[arg-type]
    retained = (a.generator.random(p.shape, np.float32) < a.keep_prob).astype(np.uint8)
    y = (p * retained / np.float32(a.keep_prob)) @ v
    batch, heads, rows, width = y.shape
    joined = y.transpose(0, 2, 1, 3).reshape(batch * rows, heads * width)
    return rounded(joined, a.query_layer.dtype), rounded(p, a.query_layer.dtype), retained


@by_schema(kernel, "npu::npu_fused_attention_score_backward", "npu::npu_fused_attention_score_grad")
def npu_fused_attention_score_backward(a: Arguments) -> tuple[Array, Array, Array]:
    """Gradients for query, key and value."""
    q, k = _oriented(a.query_layer, a.query_transpose), _oriented(a.key_layer, a.key_transpose)
    v, p = _oriented(a.value_layer, a.value_transpose), wide(a.softmax_output)
    batch, heads, rows, _ = q.shape
    g = wide(a.grad_output).reshape(batch, rows, heads, -1).transpose(0, 2, 1, 3)
    retained = a.mask / np.float32(a.keep_prob)
    dv = (p * retained).swapaxes(-1, -2) @ g
    dp = (g @ v.swapaxes(-1, -2)) * retained
    ds = p * (dp - (dp * p).sum(axis=-1, keepdims=True)) * np.float32(a.scale)  # type: ignore[arg-type]
    found = (
        (ds @ k, a.query_layer, a.query_transpose),
        (ds.swapaxes(-1, -2) @ q, a.key_layer, a.key_transpose),
        (dv, a.value_layer, a.value_transpose),
    )
    dq, dk, dv = (rounded(_oriented(grad, turned), like.dtype) for grad, like, turned in found)
    return dq, dk, dv
