"""torch_npu's `npu_fusion_attention` with its gradient. Facts from its documentation in
`torch_npu/_op_plugin_docs.py` (2.13.0)."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpu2npu.emulator.kernels.promotion import F32, Array
from gpu2npu.emulator.kernels.registry import kernel
from gpu2npu.emulator.npu_ops.arguments import Arguments, by_schema
from gpu2npu.emulator.npu_ops.attention_arithmetic import (
    BLOCK,
    Attention,
    Dropout,
    Masking,
    Saved,
    Sequences,
    backward,
    forward,
)


def _called(a: Arguments, scale: float, seed: int) -> tuple[Sequences, Attention]:
    """The attention of a call of any version, and its sequences."""
    pse_type = getattr(a, "pse_type", 1)
    if pse_type not in (0, 1):
        raise NotImplementedError(f"a pse made by the operator (pse_type {pse_type})")
    ends = a.actual_seq_qlen
    tokens = (a.pre_tokens, a.next_tokens) if hasattr(a, "pre_tokens") else (a.pre_tockens, a.next_tockens)
    masking = Masking(a.atten_mask, a.sparse_mode, *tokens, a.prefix, len(ends) if ends else 1)
    sequences = Sequences(a.input_layout, a.head_num, ends, a.actual_seq_kvlen)
    return sequences, Attention(scale, masking, Dropout(a.keep_prob, seed), a.pse, pse_after_scale=pse_type == 0)


@by_schema(kernel, "npu::npu_fusion_attention", "npu::npu_fusion_attention_v2")
def npu_fusion_attention(a: Arguments) -> tuple[Array, Array, Array, Array, int, int, int]:
    """softmax(scale * (query @ key^T + pse), masked) @ value in one of the layouts BSH, SBH, BNSD, BSND, TND.

    `actual_seq_*` are the sequences' running ends. Without `atten_mask` nothing is masked, whatever `sparse_mode` says.
    Of the second version `pse_type` 1 adds pse before the scale, 0 after it.

    Returns:
        The result; maxima and sums of the softmax, (B, N, S, 8) or (T, N, 8) in float32; an empty tensor; seed,
        offset and length of the dropout mask.
    """
    seed, generator = a.seed, getattr(a, "generator", None)
    if a.keep_prob < 1 and not seed and generator is not None:
        seed = int(generator.integers(1, 1 << 62))
    sequences, attention = _called(a, a.scale, seed + a.offset)
    y, largest, total = forward(sequences, attention, a.query, a.key, a.value)
    length = largest.size // BLOCK * a.key.shape[0] if a.keep_prob < 1 else 0
    return y, largest, total, np.empty(0, a.query.dtype), seed, a.offset, length


def _ends(a: Arguments) -> dict[str, Any]:
    """The running ends of the third version, which are tensors, as lists."""
    given = {name: getattr(a, name) for name in ("actual_seq_qlen", "actual_seq_kvlen")}
    return {name: ends if ends is None else ends.tolist() for name, ends in given.items()}


@by_schema(kernel, "npu::npu_fusion_attention_v3")
def npu_fusion_attention_v3(a: Arguments) -> tuple[Array, ...]:
    """`npu_fusion_attention` whose seed and offset are tensors of one number."""
    *results, seed, offset, _ = npu_fusion_attention(Arguments(seed=0, offset=0, **{**vars(a), **_ends(a)}))
    return *results, np.array([seed]), np.array([offset])


@by_schema(kernel, "npu::npu_fusion_attention_grad")
def npu_fusion_attention_grad(a: Arguments) -> tuple[Array, ...]:
    """Gradients for query, key, value and pse (empty without one), and an empty one for the sink."""
    sequences, attention = _called(a, a.scale_value, a.seed + a.offset)
    saved = Saved(a.softmax_max, a.softmax_sum, a.attention_in)
    dq, dk, dv, dpse = backward(sequences, attention, a.query, a.key, a.value, a.dy, saved)
    return dq, dk, dv, np.empty(0, F32) if dpse is None else dpse, np.empty(0, F32)


@by_schema(kernel, "npu::npu_fusion_attention_grad_v2")
def npu_fusion_attention_grad_v2(a: Arguments) -> tuple[Array, ...]:
    """Gradients as those of `npu_fusion_attention_grad`, and two empty ones more, for the rotary parts."""
    return *npu_fusion_attention_grad(a), *(np.empty(0, F32) for _ in range(2))


@by_schema(kernel, "npu::npu_fusion_attention_grad_v3")
def npu_fusion_attention_grad_v3(a: Arguments) -> tuple[Array, ...]:
    """Gradients as those of `npu_fusion_attention_grad`."""
    seed, offset = (0 if each is None else int(each[0]) for each in (a.seed, a.offset))
    return npu_fusion_attention_grad(Arguments(**{**vars(a), **_ends(a), "seed": seed, "offset": offset}))
