"""The functions of flash_attn by npu_fusion_attention, and by matrix products for all that it does not take."""

import torch
import torch.nn.functional as F
import torch_npu

from . import _ATTENTION_DTYPES, _ATTENTION_SIZES, _causal, _fits

_FAR = 2147483647  # a token that is further away than any


def _seen(rows, columns, causal, window, device):
    """True where a query sees a key of flash_attn, whose last query and key stand together."""
    left, right = window
    distance = torch.arange(columns, device=device) - torch.arange(rows, device=device)[:, None] - (columns - rows)
    after = distance <= 0 if causal else distance <= (right if right >= 0 else _FAR)
    return after & (distance >= -(left if left >= 0 else _FAR))


def _flash_options(device, causal, window):
    """The mask of npu_fusion_attention for a causal attention or one within a window."""
    left, right = window
    if not causal and left < 0 and right < 0:
        return {}
    if causal and left < 0:
        return {"atten_mask": _causal(device), "sparse_mode": 3}
    before, after = left if left >= 0 else _FAR, 0 if causal else right if right >= 0 else _FAR
    return {"atten_mask": _causal(device), "sparse_mode": 4, "pre_tockens": before, "next_tockens": after}


def _is_flash(query, key, value):
    same = _fits(query, key, value) and query.dtype == key.dtype == value.dtype and query.dtype in _ATTENTION_DTYPES
    return same and query.numel() and key.numel() and key.shape == value.shape and query.shape[-1] in _ATTENTION_SIZES


def _flash_plain(query, key, value, dropout_p, scale, causal, window):
    """Attention of (..., S, N, D)."""
    groups = query.shape[-2] // key.shape[-2]
    query, key, value = (each.transpose(-3, -2) for each in (query, key, value))
    key, value = (each.repeat_interleave(groups, -3) for each in (key, value))
    scores = (query.float() @ key.float().mT) * scale
    hidden = ~_seen(*scores.shape[-2:], causal, window, scores.device)
    weights = scores.masked_fill(hidden, float("-inf")).softmax(-1).nan_to_num(0.0).to(value.dtype)
    return (F.dropout(weights, dropout_p) @ value).transpose(-3, -2)


def _options(dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), deterministic=False):
    return dropout_p, softmax_scale, causal, window_size


def flash_attn_func(q, k, v, *given, **options):
    """flash_attn's function for tensors of (B, S, N, D)."""
    dropout_p, softmax_scale, causal, window_size = _options(*given, **options)
    scale = softmax_scale or q.shape[-1] ** -0.5
    if not _is_flash(q, k, v):
        return _flash_plain(q, k, v, dropout_p, scale, causal, window_size)
    options = {"scale": scale, "keep_prob": 1.0 - dropout_p, **_flash_options(q.device, causal, window_size)}
    return torch_npu.npu_fusion_attention(q, k, v, q.shape[2], "BSND", **options)[0]


def flash_attn_kvpacked_func(q, kv, *given, **options):
    """flash_attn's function for (B, S, N, D) and (B, S, 2, N, D)."""
    return flash_attn_func(q, *kv.unbind(2), *given, **options)


def flash_attn_qkvpacked_func(qkv, *given, **options):
    """flash_attn's function for (B, S, 3, N, D)."""
    return flash_attn_func(*qkv.unbind(2), *given, **options)


def flash_attn_varlen_func(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, *given, **options):
    """flash_attn's function for sequences that lie end to end, (T, N, D); the host waits for their ends."""
    dropout_p, softmax_scale, causal, window_size = _options(*given, **options)
    scale = softmax_scale or q.shape[-1] ** -0.5
    ends, key_ends = cu_seqlens_q.tolist(), cu_seqlens_k.tolist()
    if _is_flash(q, k, v):
        lengths = {"actual_seq_qlen": ends[1:], "actual_seq_kvlen": key_ends[1:]}
        options = {"scale": scale, "keep_prob": 1.0 - dropout_p, **_flash_options(q.device, causal, window_size)}
        return torch_npu.npu_fusion_attention(q, k, v, q.shape[1], "TND", **lengths, **options)[0]
    parts = []
    for at in range(len(ends) - 1):
        own, others = slice(ends[at], ends[at + 1]), slice(key_ends[at], key_ends[at + 1])
        parts.append(_flash_plain(q[own], k[others], v[others], dropout_p, scale, causal, window_size))
    return torch.cat(parts)


def flash_attn_varlen_kvpacked_func(q, kv, *given, **options):
    """flash_attn's function for (T, N, D) and (T, 2, N, D)."""
    return flash_attn_varlen_func(q, *kv.unbind(1), *given, **options)


def flash_attn_varlen_qkvpacked_func(qkv, cu_seqlens, max_seqlen, *given, **options):
    """flash_attn's function for (T, 3, N, D)."""
    ends = (cu_seqlens, cu_seqlens, max_seqlen, max_seqlen)
    return flash_attn_varlen_func(*qkv.unbind(1), *ends, *given, **options)
