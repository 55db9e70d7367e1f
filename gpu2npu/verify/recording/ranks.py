"""The questions that a recorder asks about a process that is one of several, or a module that DataParallel copied."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn


def is_one_of_several(module: nn.Module) -> bool:
    """Return whether a module is one of several alike: on a rank of several, or a copy on one of several cards."""
    if getattr(module, "_is_replica", False):
        return True
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def card_of(module: nn.Module) -> int | None:
    """The number of the card that holds a module's first parameter; None without one, or on the CPU."""
    held = (*getattr(module, "_former_parameters", {}).values(), *module.parameters())
    for inner in module.modules():
        held = held or tuple(getattr(inner, "_former_parameters", {}).values())
    first = next(iter(held), None)
    return None if not isinstance(first, torch.Tensor) or first.device.type == "cpu" else first.get_device()
