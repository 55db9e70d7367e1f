"""The collectives that a program asks torch.distributed for."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch.distributed as dist

# The name of each, and the position of the tensors that are sent.
_SENT = {
    "all_reduce": 0,
    "broadcast": 0,
    "reduce": 0,
    "all_gather": 1,
    "all_gather_into_tensor": 1,
    "reduce_scatter": 1,
    "reduce_scatter_tensor": 1,
    "all_to_all_single": 1,
    "gather": 0,
}


def watch(report: Callable[[str, Any], None]) -> None:
    """Call `report` with the name and the sent tensors of every collective, before it starts."""
    for name, position in _SENT.items():
        original = getattr(dist, name, None)
        if original is None:
            continue
        changed = _watched(name, position, original, report)
        setattr(dist, name, changed)
        setattr(dist.distributed_c10d, name, changed)


def _watched(name: str, position: int, original: Any, report: Callable[[str, Any], None]) -> Any:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if len(args) > position:
            report(name, args[position])
        return original(*args, **kwargs)

    return call
