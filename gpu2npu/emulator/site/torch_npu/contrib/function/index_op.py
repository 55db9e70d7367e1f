"""Assignment under a condition."""

from __future__ import annotations

import torch

__all__ = ["npu_fast_condition_index_put"]


def npu_fast_condition_index_put(x: torch.Tensor, condition: torch.Tensor, value: float) -> torch.Tensor:
    """x with `value` where the condition holds; x itself stays.

    Raises:
        TypeError: The condition is not of bool.
    """
    if condition.dtype is not torch.bool:
        raise TypeError("Expected condition.dtype in [torch.bool]")
    return torch.where(condition, torch.full_like(x, value), x)
