"""Tensors that share one block of memory, end to end, so that one operator updates them all."""

from __future__ import annotations

from collections.abc import Sequence

import torch

__all__ = ["get_part_combined_tensor", "is_combined_tensor_valid", "npu_combine_tensors"]


def npu_combine_tensors(list_of_tensor: Sequence[torch.Tensor], require_copy_value: bool = True) -> torch.Tensor | None:
    """One flat tensor with the tensors' values, of which they become views; None of no tensors.

    Raises:
        RuntimeError: Their dtypes or devices differ, or they are not on an NPU.
    """
    if not list_of_tensor:
        return None
    first = list_of_tensor[0]
    for tensor in list_of_tensor:
        if tensor.device.type != "npu":
            raise RuntimeError("Not all tensors are npu tensors")
        if tensor.dtype is not first.dtype:
            raise RuntimeError("All tensors to combine must have the same dtype")
    combined = torch.zeros(sum(t.numel() for t in list_of_tensor), dtype=first.dtype, device=first.device)
    start = 0
    for tensor in list_of_tensor:
        part = combined[start : start + tensor.numel()].view(tensor.shape)
        if require_copy_value:
            part.copy_(tensor.detach())
        tensor.data = part
        start += tensor.numel()
    return combined


def get_part_combined_tensor(combined_tensor: torch.Tensor | None, index: int, size: int) -> torch.Tensor | None:
    """`size` elements of a combined tensor from `index` on; None of none.

    Raises:
        RuntimeError: It has fewer.
    """
    if combined_tensor is None or size == 0:
        return None
    if index + size > combined_tensor.numel():
        raise RuntimeError(
            f"({index}, {size}) is out of the range of a combined tensor of {combined_tensor.numel()} elements"
        )
    return combined_tensor[index : index + size]


def is_combined_tensor_valid(combined_tensor: torch.Tensor | None, list_of_tensor: Sequence[torch.Tensor]) -> bool:
    """Return whether the tensors still lie end to end in the combined one."""
    if combined_tensor is None:
        return not list_of_tensor
    address = combined_tensor.data_ptr()
    for tensor in list_of_tensor:
        if tensor.data_ptr() != address:
            return False
        address += tensor.numel() * tensor.element_size()
    return address == combined_tensor.data_ptr() + combined_tensor.numel() * combined_tensor.element_size()
