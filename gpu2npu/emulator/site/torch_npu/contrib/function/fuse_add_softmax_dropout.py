"""Mask, softmax and dropout of attention scores."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

__all__ = ["fuse_add_softmax_dropout"]

_FUSED_HEIGHTS = (128, 256, 384, 512)


def fuse_add_softmax_dropout(
    training: bool,
    dropout: Callable[[torch.Tensor], torch.Tensor],
    attn_mask: torch.Tensor,
    attn_scores: torch.Tensor,
    attn_head_size: float,
    p: float = 0.5,
    dim: int = -1,
) -> torch.Tensor:
    """dropout(softmax(scores / sqrt(head size) + mask)) of (N, C, H, W); by one operator for some sizes."""
    scale = 1 / math.sqrt(attn_head_size)
    n, c, h, _ = attn_scores.shape
    if h in _FUSED_HEIGHTS and (n * c) % 32 == 0:
        drop = p if training else 0.0
        fused: torch.Tensor = torch.ops.npu.npu_dropout_with_add_softmax(attn_scores, attn_mask, scale, drop, -1)[2]
        return fused
    return dropout(torch.add(attn_mask, attn_scores, alpha=scale).softmax(-1))
