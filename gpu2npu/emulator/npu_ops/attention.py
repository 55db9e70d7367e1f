"""torch_npu's `npu_fusion_attention` with its gradient. Facts from its documentation in
`torch_npu/_op_plugin_docs.py` (2.13.0)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gpu2npu.emulator.kernels.promotion import F32, Array
from gpu2npu.emulator.kernels.registry import kernel
from gpu2npu.emulator.npu_ops.attention_arithmetic import (
    BLOCK,
    FAR,
    Attention,
    Dropout,
    Masking,
    Saved,
    Sequences,
    backward,
    forward,
)
from gpu2npu.emulator.npu_ops.gradient import Arguments, Results, gradient, npu, pick

# What follows the layout, by position too in the first version and the third.
OPTIONS = (
    *("pse", "padding_mask", "atten_mask", "scale", "keep_prob", "pre_tockens", "next_tockens", "inner_precise"),
    *("prefix", "actual_seq_qlen", "actual_seq_kvlen", "sparse_mode", "gen_mask_parallel", "sync", "softmax_layout"),
    "sink",
)


def _declined(sink: Array | None) -> None:
    if sink is not None:
        raise NotImplementedError("attention sinks")


Forward = tuple[Array, Array, Array, Array, int, int, int]
Backward = tuple[Array, Array, Array, Array, Array]


@kernel("npu::npu_fusion_attention")
def npu_fusion_attention(
    query: Array,
    key: Array,
    value: Array,
    head_num: int,
    input_layout: str,
    pse: Array | None = None,
    padding_mask: Array | None = None,
    atten_mask: Array | None = None,
    scale: float = 1.0,
    keep_prob: float = 1.0,
    pre_tockens: int = FAR,
    next_tockens: int = FAR,
    inner_precise: int = 0,
    prefix: Sequence[int] | None = None,
    actual_seq_qlen: Sequence[int] | None = None,
    actual_seq_kvlen: Sequence[int] | None = None,
    sparse_mode: int = 0,
    gen_mask_parallel: bool = True,
    sync: bool = False,
    softmax_layout: str = "",
    sink: Array | None = None,
    dropout_mask: Array | None = None,
    seed: int = 0,
    offset: int = 0,
    *,
    generator: np.random.Generator | None = None,
) -> Forward:
    """softmax(scale * (query @ key^T + pse), masked) @ value in one of the layouts BSH, SBH, BNSD, BSND, TND.

    `actual_seq_*` are the sequences' running ends. Without `atten_mask` nothing is masked, whatever `sparse_mode` says.

    Returns:
        The result; maxima and sums of the softmax, (B, N, S, 8) or (T, N, 8) in float32; an empty tensor; seed,
        offset and length of the dropout mask.
    """
    _declined(sink)
    if dropout_mask is not None:
        raise NotImplementedError("a dropout_mask given from outside")
    if keep_prob < 1 and not seed and generator is not None:
        seed = int(generator.integers(1, 1 << 62))
    sequences = Sequences(input_layout, head_num, actual_seq_qlen, actual_seq_kvlen)
    masking = Masking(
        atten_mask, sparse_mode, pre_tockens, next_tockens, prefix, len(actual_seq_qlen) if actual_seq_qlen else 1
    )
    attention = Attention(scale, masking, Dropout(keep_prob, seed), pse)
    y, largest, total = forward(sequences, attention, query, key, value)
    length = largest.size // BLOCK * key.shape[0] if keep_prob < 1 else 0
    return y, largest, total, np.empty(0, query.dtype), seed, offset, length


@kernel("npu::npu_fusion_attention_grad")
def npu_fusion_attention_grad(
    query: Array,
    key: Array,
    value: Array,
    dy: Array,
    head_num: int,
    input_layout: str,
    *,
    pse: Array | None = None,
    padding_mask: Array | None = None,
    atten_mask: Array | None = None,
    softmax_max: Array | None = None,
    softmax_sum: Array | None = None,
    softmax_in: Array | None = None,
    attention_in: Array | None = None,
    scale_value: float = 1.0,
    keep_prob: float = 1.0,
    pre_tockens: int = FAR,
    next_tockens: int = FAR,
    inner_precise: int = 0,
    seed: int = 0,
    offset: int = 0,
    numels: int = 0,
    prefix: Sequence[int] | None = None,
    actual_seq_qlen: Sequence[int] | None = None,
    actual_seq_kvlen: Sequence[int] | None = None,
    sparse_mode: int = 0,
    gen_mask_parallel: bool = True,
    sync: bool = False,
    softmax_layout: str = "",
    sink: Array | None = None,
) -> Backward:
    """Gradients for query, key, value and pse (empty without one), and an empty one for the sink."""
    _declined(sink)
    sequences = Sequences(input_layout, head_num, actual_seq_qlen, actual_seq_kvlen)
    masking = Masking(
        atten_mask, sparse_mode, pre_tockens, next_tockens, prefix, len(actual_seq_qlen) if actual_seq_qlen else 1
    )
    attention = Attention(scale_value, masking, Dropout(keep_prob, seed), pse)
    saved = Saved(softmax_max, softmax_sum, attention_in)
    dq, dk, dv, dpse = backward(sequences, attention, query, key, value, dy, saved)
    empty = np.empty(0, F32)
    return dq, dk, dv, empty if dpse is None else dpse, empty.copy()


def gradient_of_attention(
    operator: str, a: Arguments, y: Results, g: Results, options: Sequence[str], **more: Any
) -> Mapping[str, Any]:
    """Call the operator for the gradient of a flash attention: with its results, and with its options as they were."""
    found = getattr(npu, operator)(
        *(a.query, a.key, a.value, g[0], a.head_num, a.input_layout),
        softmax_max=y[1],
        softmax_sum=y[2],
        softmax_in=y[3],
        attention_in=y[0],
        scale_value=a.scale,
        seed=y[4],
        offset=y[5],
        **{name: getattr(a, name) for name in options if name != "scale"},
        **more,
    )
    return pick("query key value pse", found)


@gradient("npu_fusion_attention")
def _fusion_attention_gradient(a: Arguments, y: Results, g: Results) -> Mapping[str, Any]:
    return gradient_of_attention("npu_fusion_attention_grad", a, y, g, OPTIONS, numels=y[6])
