"""Functions that torch_npu adds to `torch.nn.functional`."""

from __future__ import annotations

import torch

__all__ = ["dropout_with_byte_mask"]


def dropout_with_byte_mask(
    input1: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> torch.Tensor:
    """Dropout by a mask of a byte an element.

    Raises:
        ValueError: p is not a probability, or it should happen in place.
    """
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if inplace:
        raise ValueError("dropout probability has no-inplace computing.")
    result: torch.Tensor = torch.ops.npu.dropout_with_byte_mask(input1, p, training)
    return result
