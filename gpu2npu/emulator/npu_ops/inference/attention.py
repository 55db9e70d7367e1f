"""Attention for inference: `npu_prompt_flash_attention`, `npu_incre_flash_attention` and what unites them.

softmax(query @ key^T * scale + pse_shift) @ value with masked scores left out, as `torch_npu/_op_plugin_docs.py`
(2.13.0) says; that pse_shift is added after the scale is an assumption. Computed in float32, without a backward pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gpu2npu.emulator.kernels.promotion import F32, Array, wide
from gpu2npu.emulator.kernels.registry import kernel
from gpu2npu.emulator.npu_ops.arguments import Arguments, bound, by_schema
from gpu2npu.emulator.npu_ops.attention_arithmetic import Attention, Dropout, Masking, repeated
from gpu2npu.emulator.npu_ops.inference.sequences import VARLEN, Layout, cut, paged, restored
from gpu2npu.emulator.npu_ops.quantization.numbers import INT8

_BY_MASK = (0, 1)  # sparse modes that take the mask itself; the others take a triangle of 2048

_EARLIER_NAMES = {  # of the options of npu_fused_infer_attention_score_v2
    "actual_seq_qlen": "actual_seq_lengths",
    "actual_seq_kvlen": "actual_seq_lengths_kv",
    "quant_scale_out": "quant_scale2",
    "quant_offset_out": "quant_offset2",
    "num_query_heads": "num_heads",
    "softmax_scale": "scale",
    "return_softmax_lse": "softmax_lse_flag",
}


def _mask_of(mask: Array | None, mode: int, batch: int, batches: int, rows: int, columns: int) -> Array | None:
    """The mask of one sequence, (rows, columns), or the triangle as it is."""
    if mask is None or mode not in _BY_MASK:
        return mask
    if mask.ndim == 2 and rows == 1 and mask.shape[0] == batches:
        mask = mask[:, None]
    if mask.ndim == 4:
        mask = mask[:, 0]
    found = mask if mask.ndim == 2 else mask[batch if mask.shape[0] > 1 else 0]
    if found.shape[0] < rows or found.shape[1] < columns:
        raise RuntimeError(f"atten_mask of shape {list(mask.shape)} does not cover {rows} x {columns}")
    return found[:rows, :columns]


def _with_rope(parts: list[Array], rope: list[Array] | None) -> list[Array]:
    """Each sequence (heads, S, D) with its rotary part (heads, S, R) beside it."""
    if rope is None:
        return parts
    return [np.concatenate((part, wide(other)), axis=-1) for part, other in zip(parts, rope, strict=True)]


def _attend(a: Arguments, renamed: Mapping[str, str]) -> tuple[Array, Array]:
    """The result in the query's layout and dtype (int8 with `quant_scale2`), and the logarithms of the rows' sums.

    Those are (B, heads, S, 1), or (T, heads, 1), in float32. `renamed` has the names of the arguments of
    `npu_fused_infer_attention_score` for those of another operator.
    """
    a = bound("npu::npu_fused_infer_attention_score", (), {renamed.get(name, name): x for name, x in vars(a).items()})
    layout, heads = a.input_layout.upper(), a.num_heads
    ours, theirs = Layout(layout, heads), Layout(layout, a.num_key_value_heads or heads)

    def of_keys(x: Array) -> list[Array]:
        if a.block_table is not None:
            return paged(x, a.block_table, a.actual_seq_lengths_kv, theirs.heads, a.block_size)
        return cut(theirs.split(x), a.actual_seq_lengths_kv, theirs)

    queries = [wide(part) for part in cut(ours.split(a.query), a.actual_seq_lengths, ours)]
    scales = (a.antiquant_scale, a.antiquant_offset)
    halves = [(None if each is None else each[k]) for k in (0, 1) for each in scales]
    keys, values = restored(of_keys(a.key), *halves[:2]), restored(of_keys(a.value), *halves[2:])
    if a.query_rope is not None and a.key_rope is not None:
        queries = _with_rope(queries, cut(ours.split(a.query_rope), a.actual_seq_lengths, ours))
        keys = _with_rope(keys, of_keys(a.key_rope))
    parts, logarithms = [], []
    for batch, (q, k, v) in enumerate(zip(queries, keys, values, strict=True)):
        rows, columns = q.shape[1], k.shape[1]
        shift = (
            None if a.pse_shift is None else a.pse_shift[batch if len(a.pse_shift) > 1 else 0][None, :, :rows, :columns]
        )
        masking = Masking(
            _mask_of(a.atten_mask, a.sparse_mode, batch, len(queries), rows, columns),
            a.sparse_mode,
            a.pre_tokens,
            a.next_tokens,
        )
        attention = Attention(a.scale, masking, Dropout(1.0), shift, pse_after_scale=True)
        found = attention.probabilities(q[None], repeated(k[None], heads), 0)
        p, largest, total = (each[0] for each in found)
        parts.append(np.matmul(p, repeated(v[None], heads)[0]))
        logarithms.append(np.where(total > 0, largest + np.log(np.where(total > 0, total, 1)), np.inf))
    rows = a.query.shape[0] if ours.name == VARLEN else ours.split(a.query)[0].shape[1]
    if a.quant_scale2 is not None:
        parts = [_requantized(part, a.quant_scale2, a.quant_offset2) for part in parts]
    sums = Layout(VARLEN if ours.name == VARLEN else "BNSD", heads).joined(logarithms, rows, F32)
    out = "BSND" if ours.name == "BNSD_BSND" else ours.name
    return Layout(out, heads).joined(parts, rows, a.query.dtype if a.quant_scale2 is None else INT8.dtype), sums


def _requantized(part: Array, scale: Array, offset: Array | None) -> Array:
    """(heads, S, D) times the scale, one or one for each of heads * D channels, plus the offset, in whole numbers."""
    shape = (1, 1, 1) if scale.size == 1 else (part.shape[0], 1, part.shape[2])
    values = part * wide(scale).reshape(shape)
    whole = INT8.of(values if offset is None else values + wide(offset).reshape(shape))
    return whole.astype(F32)


@by_schema(kernel, "npu::npu_prompt_flash_attention")
def npu_prompt_flash_attention(a: Arguments) -> Array:
    """Attention of whole prompts, in the query's layout; rows beyond a sequence's length are 0."""
    return _attend(a, {"scale_value": "scale"})[0]


@by_schema(kernel, "npu::npu_incre_flash_attention")
def npu_incre_flash_attention(a: Arguments) -> Array:
    """Attention of one new token of each sequence over its cache, which may be paged or in int8."""
    by_mask = Arguments(**vars(a), sparse_mode=1)
    return _attend(by_mask, {"scale_value": "scale", "actual_seq_lengths": "actual_seq_lengths_kv"})[0]


@by_schema(kernel, "npu::npu_fused_infer_attention_score")
def npu_fused_infer_attention_score(a: Arguments) -> tuple[Array, Array]:
    """Attention of prompts or of new tokens; and the logarithms of the rows' sums, or one 0 unless they are wanted."""
    found = _attend(a, {})
    return found if a.softmax_lse_flag else (found[0], np.zeros(1, F32))


@by_schema(kernel, "npu::npu_fused_infer_attention_score_v2")
def npu_fused_infer_attention_score_v2(a: Arguments) -> tuple[Array, Array]:
    """`npu_fused_infer_attention_score` under its later names."""
    earlier = {_EARLIER_NAMES.get(name, name): option for name, option in vars(a).items()}
    return npu_fused_infer_attention_score(bound("npu::npu_fused_infer_attention_score", (), earlier))


@kernel(
    "npu::_npu_fused_infer_attention_score_get_max_workspace",
    "npu::_npu_fused_infer_attention_score_v2_get_max_workspace",
)
def npu_fused_infer_attention_score_workspace(query: Array, key: Array, value: Array, **options: Any) -> Array:
    """Memory of the operator, of which none is needed."""
    return np.empty(0, np.uint8)


@kernel("npu::_npu_fused_infer_attention_score_infer_output", "npu::_npu_fused_infer_attention_score_v2_infer_output")
def npu_fused_infer_attention_score_output(query: Array, value: Array, **options: Any) -> tuple[Array, Array]:
    """Uninitialised results, for the overloads that write into them."""
    named = {_EARLIER_NAMES.get(name, name): option for name, option in options.items()}
    heads, layout = named.get("num_heads", 1), named.get("input_layout", "BSH")
    if "_" in layout:
        raise NotImplementedError(f"results in the layout {layout}")
    shape = list(query.shape)
    if "D" in layout and named.get("block_table") is None:
        shape[-1] = value.shape[-1]
    rows = (*shape[:-1], 1) if layout == "TND" else (shape[0], heads, shape[layout.index("S")], 1)
    sums = np.empty(rows if named.get("softmax_lse_flag") else (1,), F32)
    return np.empty(shape, np.int8 if named.get("quant_scale2") is not None else query.dtype), sums
