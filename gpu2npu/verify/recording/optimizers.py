"""The numbers that an optimizer is given, and the tensors in which it stores earlier gradients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

_NOT_SUCH = {"lr", "foreach", "fused", "capturable", "differentiable"}  # the rate, and what changes no result


def options(optimizer: Any, group: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """The numbers of one of an optimizer's groups, such as betas, without those that a scheduler adds."""
    for name in optimizer.defaults:
        value = None if name in _NOT_SUCH else group.get(name)
        if isinstance(value, (int, float)):
            yield name, float(value)
        elif isinstance(value, (tuple, list)):
            yield from ((f"{name}[{at}]", float(one)) for at, one in enumerate(value) if isinstance(one, (int, float)))


def state(optimizer: Any, parameter: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors of a parameter's shape that an optimizer stores, such as averages of gradients and of squares."""
    for name, each in (optimizer.state.get(parameter) or {}).items():
        if isinstance(each, torch.Tensor) and each.dim() and each.shape == parameter.shape:
            yield name, each
