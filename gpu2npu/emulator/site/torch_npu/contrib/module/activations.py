"""Mish and SiLU by one operator."""

from __future__ import annotations

import torch

__all__ = ["Mish", "SiLU", "Swish"]


class Mish(torch.nn.Module):
    """x * tanh(softplus(x))."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Elementwise."""
        result: torch.Tensor = torch.ops.npu.npu_mish(x)
        return result


class SiLU(torch.nn.Module):
    """x * sigmoid(x)."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Elementwise."""
        result: torch.Tensor = torch.ops.npu.npu_silu(x)
        return result


Swish = SiLU
