"""The product with a transposed matrix."""

from __future__ import annotations

import torch

__all__ = ["matmul_transpose"]


def matmul_transpose(tensor1: torch.Tensor, tensor2: torch.Tensor) -> torch.Tensor:
    """tensor1 @ tensor2^T of the last two dimensions."""
    return torch.matmul(tensor1, tensor2.transpose(-2, -1))


class MatmulApply:
    """The product by the name of an autograd function, of whose module this one has two names."""

    apply = staticmethod(matmul_transpose)
