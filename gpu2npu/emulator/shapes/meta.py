"""Shapes by PyTorch's functions for the device "meta", which has no data."""

from __future__ import annotations

from typing import Any

import torch

_empty = torch.ops.aten.empty_strided.default
_DEVICE = torch.device("meta")


def without_values(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor on the device "meta": same shape, strides and dtype."""
    return _empty(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=_DEVICE)  # type: ignore[no-any-return]


def infer(op: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Return what an operator makes of tensors on the device "meta".

    Raises:
        NotImplementedError: PyTorch does not know, or it depends on values.
        RuntimeError: The arguments do not go together, in torch's words.
    """
    with torch._C.DisableTorchFunction():
        return op(*args, **kwargs)
