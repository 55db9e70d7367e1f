"""Other entrances to the flash attention of `npu_attention`: its later versions, and the older fused score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gpu2npu.emulator.kernels.nn.softmax import softmax
from gpu2npu.emulator.kernels.promotion import F32, Array, Number, rounded, wide
from gpu2npu.emulator.kernels.registry import kernel
from gpu2npu.emulator.npu_ops.attention import (
    OPTIONS,
    Backward,
    Forward,
    gradient_of_attention,
    npu_fusion_attention,
    npu_fusion_attention_grad,
)
from gpu2npu.emulator.npu_ops.attention_arithmetic import (
    FAR,
    Attention,
    Dropout,
    Masking,
    Saved,
    Sequences,
    backward,
    forward,
)
from gpu2npu.emulator.npu_ops.gradient import Arguments, Results, gradient

_OPTIONS = (  # of the second version
    *("pse", "padding_mask", "atten_mask", "query_rope", "key_rope", "keep_prob", "pre_tokens", "next_tokens"),
    *("inner_precise", "prefix", "actual_seq_qlen", "actual_seq_kvlen", "sparse_mode", "pse_type", "softmax_layout"),
)
_UNSUPPORTED = ("padding_mask", "query_rope", "key_rope", "q_start_idx", "kv_start_idx", "sink", "dropout_mask")


def _call(
    head_num: int,
    input_layout: str,
    scale: float,
    keep_prob: float,
    seed: int,
    pse: Array | None,
    others: dict[str, Any],
) -> tuple[Sequences, Attention]:
    for name in _UNSUPPORTED:
        if others.get(name) is not None:
            raise NotImplementedError(f"attention with {name}")
    pse_type = others.get("pse_type", 1)
    if pse_type not in (0, 1):
        raise NotImplementedError(f"a pse made by the operator (pse_type {pse_type})")
    query_ends: Sequence[int] | None = others.get("actual_seq_qlen")
    masking = Masking(
        others.get("atten_mask"),
        others.get("sparse_mode", 0),
        others.get("pre_tokens", FAR),
        others.get("next_tokens", FAR),
        others.get("prefix"),
        len(query_ends) if query_ends else 1,
    )
    sequences = Sequences(input_layout, head_num, query_ends, others.get("actual_seq_kvlen"))
    return sequences, Attention(scale, masking, Dropout(keep_prob, seed), pse, pse_after_scale=pse_type == 0)


@kernel("npu::npu_fusion_attention_v2")
def npu_fusion_attention_v2(
    query: Array,
    key: Array,
    value: Array,
    head_num: int,
    input_layout: str,
    *,
    pse: Array | None = None,
    scale: float = 1.0,
    keep_prob: float = 1.0,
    seed: int = 0,
    generator: np.random.Generator | None = None,
    **others: Any,
) -> Forward:
    """`npu_fusion_attention` with a `pse_type`: 1 adds pse before the scale, 0 after it."""
    if keep_prob < 1 and not seed and generator is not None:
        seed = int(generator.integers(1, 1 << 62))
    sequences, attention = _call(head_num, input_layout, scale, keep_prob, seed, pse, others)
    y, largest, total = forward(sequences, attention, query, key, value)
    length = largest.size // largest.shape[-1] * key.shape[0] if keep_prob < 1 else 0
    return y, largest, total, np.empty(0, query.dtype), seed, 0, length


@kernel("npu::npu_fusion_attention_grad_v2")
def npu_fusion_attention_grad_v2(
    query: Array,
    key: Array,
    value: Array,
    dy: Array,
    head_num: int,
    input_layout: str,
    *,
    pse: Array | None = None,
    scale_value: float = 1.0,
    keep_prob: float = 1.0,
    seed: int = 0,
    **others: Any,
) -> tuple[Array, ...]:
    """Gradients for query, key, value and pse; then three empty ones, for the rotary parts and the sink."""
    sequences, attention = _call(head_num, input_layout, scale_value, keep_prob, seed, pse, others)
    saved = Saved(others.get("softmax_max"), others.get("softmax_sum"), others.get("attention_in"))
    dq, dk, dv, dpse = backward(sequences, attention, query, key, value, dy, saved)
    return dq, dk, dv, np.empty(0, F32) if dpse is None else dpse, *(np.empty(0, F32) for _ in range(3))


def _ends(given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of the first version for those of the third, whose running ends are tensors."""
    ends = {
        name: given[name].tolist() for name in ("actual_seq_qlen", "actual_seq_kvlen") if given.get(name) is not None
    }
    return {**given, **ends}


@kernel("npu::npu_fusion_attention_v3")
def npu_fusion_attention_v3(
    query: Array,
    key: Array,
    value: Array,
    head_num: int,
    input_layout: str,
    *rest: Any,
    generator: np.random.Generator | None = None,
    **others: Any,
) -> tuple[Array, Array, Array, Array, Array, Array]:
    """`npu_fusion_attention` whose seed and offset are tensors of one number."""
    given = {**dict(zip(OPTIONS, rest, strict=False)), **others}
    *results, seed, offset, _ = npu_fusion_attention(
        query, key, value, head_num, input_layout, generator=generator, **_ends(given)
    )
    return *results, np.array([seed]), np.array([offset])  # type: ignore[return-value]


@kernel("npu::npu_fusion_attention_grad_v3")
def npu_fusion_attention_grad_v3(
    query: Array,
    key: Array,
    value: Array,
    dy: Array,
    head_num: int,
    input_layout: str,
    *,
    seed: Array | None = None,
    offset: Array | None = None,
    **others: Any,
) -> Backward:
    """Gradients as those of `npu_fusion_attention_grad`."""
    drawn = 0 if seed is None else int(seed[0])
    return npu_fusion_attention_grad(query, key, value, dy, head_num, input_layout, seed=drawn, **_ends(others))


def _oriented(x: Array, transposed: bool) -> Array:
    return wide(x).swapaxes(-1, -2) if transposed else wide(x)


@kernel("npu::npu_fused_attention_score_fwd")
def npu_fused_attention_score_fwd(
    query_layer: Array,
    key_layer: Array,
    value_layer: Array,
    attention_mask: Array,
    scale: Number,
    keep_prob: float,
    query_transpose: bool = False,
    key_transpose: bool = False,
    bmm_score_transpose_a: bool = False,
    bmm_score_transpose_b: bool = False,
    value_transpose: bool = False,
    dx_transpose: bool = False,
    *,
    generator: np.random.Generator,
) -> tuple[Array, Array, Array]:
    """dropout(softmax(q @ k^T * scale + mask)) @ v of (B, N, S, D).

    Returns:
        (B * S, N * D) results, the softmax, and a byte mask of what was kept.
    """
    if bmm_score_transpose_a or bmm_score_transpose_b:
        raise NotImplementedError("npu_fused_attention_score with bmm_score_transpose_a or _b")
    q, k = _oriented(query_layer, query_transpose), _oriented(key_layer, key_transpose)
    v = _oriented(value_layer, value_transpose)
    p = softmax(q @ k.swapaxes(-1, -2) * np.float32(scale) + wide(attention_mask), -1)  # type: ignore[arg-type]
    retained = (generator.random(p.shape, np.float32) < keep_prob).astype(np.uint8)
    y = (p * retained / np.float32(keep_prob)) @ v
    batch, heads, rows, width = y.shape
    joined = y.transpose(0, 2, 1, 3).reshape(batch * rows, heads * width)
    return rounded(joined, query_layer.dtype), rounded(p, query_layer.dtype), retained


@kernel("npu::npu_fused_attention_score_backward", "npu::npu_fused_attention_score_grad")
def npu_fused_attention_score_backward(
    grad_output: Array,
    softmax_output: Array,
    query_layer: Array,
    key_layer: Array,
    value_layer: Array,
    mask: Array,
    scale: Number,
    keep_prob: float,
    query_transpose: bool = False,
    key_transpose: bool = False,
    value_transpose: bool = False,
    dx_transpose: bool = False,
) -> tuple[Array, Array, Array]:
    """Gradients for query, key and value."""
    q, k = _oriented(query_layer, query_transpose), _oriented(key_layer, key_transpose)
    v, p = _oriented(value_layer, value_transpose), wide(softmax_output)
    batch, heads, rows, _ = q.shape
    g = wide(grad_output).reshape(batch, rows, heads, -1).transpose(0, 2, 1, 3)
    retained = mask / np.float32(keep_prob)
    dv = (p * retained).swapaxes(-1, -2) @ g
    dp = (g @ v.swapaxes(-1, -2)) * retained
    ds = p * (dp - (dp * p).sum(axis=-1, keepdims=True)) * np.float32(scale)  # type: ignore[arg-type]
    found = (
        (ds @ k, query_layer, query_transpose),
        (ds.swapaxes(-1, -2) @ q, key_layer, key_transpose),
        (dv, value_layer, value_transpose),
    )
    dq, dk, dv = (rounded(_oriented(grad, turned), like.dtype) for grad, like, turned in found)
    return dq, dk, dv


@gradient("npu_fusion_attention_v2")
def _fusion_attention_v2_gradient(a: Arguments, y: Results, g: Results) -> Mapping[str, Any]:
    return gradient_of_attention("npu_fusion_attention_grad_v2", a, y, g, _OPTIONS, numels=y[6])


@gradient("npu_fusion_attention_v3")
def _fusion_attention_v3_gradient(a: Arguments, y: Results, g: Results) -> Mapping[str, Any]:
    return gradient_of_attention("npu_fusion_attention_grad_v3", a, y, g, OPTIONS)
