"""The functions of flash_attn, row by row, to compare with: it cannot be installed without a GPU."""

from __future__ import annotations

from types import ModuleType

import torch


def attended(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float, causal: bool, window: tuple[int, int]):  # type: ignore[no-untyped-def]
    """Attention of (S, N, D): the last query is at the last key."""
    rows = []
    for i in range(q.shape[0]):
        place = i + k.shape[0] - q.shape[0]
        first = max(0, place - window[0]) if window[0] >= 0 else 0
        last = min(k.shape[0], place + window[1] + 1) if window[1] >= 0 else k.shape[0]
        last = min(last, place + 1) if causal else last
        heads = []
        for head in range(q.shape[1]):
            other = head * k.shape[1] // q.shape[1]
            weights = (k[first:last, other].float() @ q[i, head].float() * scale).softmax(0)
            heads.append(weights @ v[first:last, other].float())
        rows.append(torch.stack(heads))
    return torch.stack(rows).to(q.dtype)


def flash_attn_func(q, k, v, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1)):  # type: ignore[no-untyped-def]
    """Tensors of (B, S, N, D)."""
    scale = softmax_scale or q.shape[-1] ** -0.5
    return torch.stack([attended(*each, scale, causal, window_size) for each in zip(q, k, v, strict=True)])


def flash_attn_kvpacked_func(q, kv, **options):  # type: ignore[no-untyped-def]
    """Keys and values as one tensor."""
    return flash_attn_func(q, kv[:, :, 0], kv[:, :, 1], **options)


def flash_attn_qkvpacked_func(qkv, dropout_p, scale, window_size):  # type: ignore[no-untyped-def]
    """All as one tensor."""
    return flash_attn_func(qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2], dropout_p, scale, window_size=window_size)


def flash_attn_varlen_func(q, k, v, ends, key_ends, most, most_keys, causal):  # type: ignore[no-untyped-def]
    """Sequences that lie end to end."""
    parts = []
    for at in range(len(ends) - 1):
        own, others = slice(int(ends[at]), int(ends[at + 1])), slice(int(key_ends[at]), int(key_ends[at + 1]))
        parts.append(attended(q[own], k[others], v[others], q.shape[-1] ** -0.5, causal, (-1, -1)))
    return torch.cat(parts)


def modules() -> dict[str, ModuleType]:
    """The modules that hold them, by name."""
    found = {}
    for name in ("flash_attn", "flash_attn.flash_attn_interface"):
        found[name] = ModuleType(name)
        vars(found[name]).update({key: value for key, value in globals().items() if key.startswith("flash_attn_")})
    return found
