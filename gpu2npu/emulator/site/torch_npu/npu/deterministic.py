"""torch.npu.deterministic: deterministic algorithms between two points of a graph, backwards too."""

from __future__ import annotations

from typing import Any

import torch

__all__ = [
    "are_compatible_impl_enabled",
    "disable_deterministic_with_backward",
    "enable_deterministic_with_backward",
    "set_deterministic_level",
    "use_compatible_impl",
]

_compatible = False


class _Begin(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor) -> torch.Tensor:
        torch.use_deterministic_algorithms(True)
        return tensor

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        torch.use_deterministic_algorithms(False)
        return grads[0]


class _End(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor) -> torch.Tensor:
        torch.use_deterministic_algorithms(False)
        return tensor

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        torch.use_deterministic_algorithms(True)
        return grads[0]


def enable_deterministic_with_backward(tensor: torch.Tensor) -> Any:
    """The tensor; from here on, and backwards up to here, algorithms are deterministic."""
    return _Begin.apply(tensor)


def disable_deterministic_with_backward(tensor: torch.Tensor) -> Any:
    """The tensor; ends what `enable_deterministic_with_backward` began."""
    return _End.apply(tensor)


def set_deterministic_level(level: int) -> None:
    """0: any algorithm, 1 and 2: deterministic ones. Kernels here always are.

    Raises:
        ValueError: Another level.
    """
    if level not in (0, 1, 2):
        raise ValueError(f"level must be 0, 1 or 2, but got {level}")
    torch.use_deterministic_algorithms(level > 0)


def use_compatible_impl(enabled: bool) -> None:
    """Remember whether operators should follow the GPU's edge cases; kernels here follow PyTorch's always."""
    global _compatible
    _compatible = bool(enabled)


def are_compatible_impl_enabled() -> bool:
    """Return the value that `use_compatible_impl` set last, False at first."""
    return _compatible
