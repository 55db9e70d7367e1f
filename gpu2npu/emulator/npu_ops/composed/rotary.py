"""Rotary position embeddings of inference."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gpu2npu.emulator.npu_ops.composite import composite


def _turned(x: Tensor) -> Tensor:
    """The halves of the last dimension exchanged, the one that comes first negated."""
    first, second = x.chunk(2, -1)
    return torch.cat((-second, first), -1)


@composite("npu_interleave_rope")
def npu_interleave_rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """x (B, N, S, D), its even and odd places collected into halves, turned by cos and sin (B, 1 or N, S, D)."""
    halves = x.unflatten(-1, (-1, 2)).transpose(-1, -2).flatten(-2)
    return (halves * cos + _turned(halves) * sin).to(x.dtype)


@composite("npu_mrope")
def npu_mrope(
    positions: Tensor,
    query: Tensor,
    key: Tensor,
    cos_sin_cache: Tensor,
    head_size: int,
    *,
    mrope_section: Sequence[int] | None = None,
    rotary_mode: str | None = "half",
    cache_mode: str | None = "default",
) -> tuple[Tensor, Tensor]:
    """Query and key (tokens, heads * head_size) turned by the angles of their positions, (tokens,) or (3, tokens).

    Of three rows of positions, `mrope_section` is how many of the angles each row gives.
    """
    if cache_mode != "default" or rotary_mode not in ("half", "interleave"):
        raise NotImplementedError(f"torch_npu.npu_mrope: the emulated NPU does not compute cache_mode={cache_mode!r}")
    angles = cos_sin_cache[positions]
    if positions.dim() == 2:
        sections = list(mrope_section or ())
        parts = angles.unflatten(-1, (2, -1)).split(sections, -1)
        angles = torch.cat([part[row] for row, part in enumerate(parts)], -1).flatten(-2)
    cos, sin = angles[:, None].chunk(2, -1)

    def turned(x: Tensor) -> Tensor:
        heads = x.unflatten(-1, (-1, head_size))
        rotary, rest = heads[..., : 2 * cos.shape[-1]], heads[..., 2 * cos.shape[-1] :]
        if rotary_mode == "half":
            first, second = rotary.chunk(2, -1)
            found = torch.cat((first * cos - second * sin, second * cos + first * sin), -1)
        else:
            first, second = rotary[..., ::2], rotary[..., 1::2]
            found = torch.stack((first * cos - second * sin, second * cos + first * sin), -1).flatten(-2)
        return torch.cat((found, rest), -1).flatten(-2).to(x.dtype)

    return turned(query), turned(key)
