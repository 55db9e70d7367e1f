"""The product with a transposed matrix."""

from __future__ import annotations

import torch

__all__ = ["matmul_transpose"]


def matmul_transpose(tensor1: torch.Tensor, tensor2: torch.Tensor) -> torch.Tensor:
    """tensor1 @ tensor2^T of the last two dimensions."""
    return torch.matmul(tensor1, tensor2.transpose(-2, -1))
