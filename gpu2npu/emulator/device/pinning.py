"""Pinned memory without an allocator of it: host memory is the device's memory, so pinned is a mark on a copy."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

# Factories that take `pin_memory`.
FACTORIES = ("empty", "empty_like", "zeros", "zeros_like", "ones", "ones_like", "full", "rand", "randn", "tensor")


def pinning(factory: Callable[..., Any]) -> Callable[..., Any]:
    """A factory whose `pin_memory` marks what it makes."""

    @functools.wraps(factory)
    def call(*args: Any, **kwargs: Any) -> Any:
        if kwargs.pop("pin_memory", False):
            return factory(*args, **kwargs).pin_memory()
        return factory(*args, **kwargs)

    return call


def pin_memory(self: torch.Tensor, device: Any = None) -> torch.Tensor:
    """A copy of a CPU tensor that counts as pinned."""
    if self.device.type != "cpu":
        raise RuntimeError(f"cannot pin '{self.type()}' only dense CPU tensors can be pinned")
    if is_pinned(self):
        return self
    pinned = self.clone()
    mark_pinned(pinned)
    return pinned


def mark_pinned(tensor: torch.Tensor) -> None:
    """Have a CPU tensor, and all views of its memory, count as pinned."""
    tensor.untyped_storage()._gpu2npu_pinned = True  # type: ignore[attr-defined]


def is_pinned(self: torch.Tensor, device: Any = None) -> bool:
    """Return whether a tensor counts as pinned."""
    if self.device.type != "cpu" or self.layout is not torch.strided:
        return False
    return getattr(self.untyped_storage(), "_gpu2npu_pinned", False)
