"""Rolling images along height and width."""

from __future__ import annotations

from collections.abc import Sequence

import torch

__all__ = ["roll"]


def roll(x: torch.Tensor, shifts: Sequence[int], dims: Sequence[int]) -> torch.Tensor:
    """`torch.roll` of (N, H, W, C) by two shifts along two dimensions.

    Raises:
        ValueError: x has other than four dimensions, or there are not two shifts and two dims.
    """
    for what, ok in (("x.dim() == 4", x.dim() == 4), ("len(shifts) == 2", len(shifts) == 2)):
        if not ok:
            raise ValueError(f"Expected {what}")
    if len(dims) != 2:
        raise ValueError("Expected len(dims) == 2")
    return torch.roll(x, tuple(shifts), tuple(dims))
