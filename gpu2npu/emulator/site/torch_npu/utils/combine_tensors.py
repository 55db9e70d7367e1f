"""Tensors that share one block of memory, end to end, so that one operator updates them all."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch

npu = torch.ops.npu

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
    sizes = [npu.get_storage_size(tensor) for tensor in list_of_tensor]
    combined = torch.zeros(sum(sizes), dtype=first.dtype, device=first.device)
    for tensor, size, end in zip(list_of_tensor, sizes, itertools.accumulate(sizes), strict=True):
        values = tensor.detach().clone() if require_copy_value else None
        npu.npu_change_data_ptr(tensor, combined, end - size)
        if values is not None:
            tensor.detach().copy_(values)
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
    part = torch.zeros(size, dtype=combined_tensor.dtype, device=combined_tensor.device)
    npu.npu_change_data_ptr(part, combined_tensor, index)
    return part


def is_combined_tensor_valid(combined_tensor: torch.Tensor | None, list_of_tensor: Sequence[torch.Tensor]) -> bool:
    """Return whether the tensors lie in the combined one, contiguous."""
    if not list_of_tensor:
        return True
    if combined_tensor is None:
        return False
    begin = combined_tensor.data_ptr()
    end = begin + combined_tensor.numel() * combined_tensor.element_size()
    return all(each is not None and begin <= each.data_ptr() < end and each.is_contiguous() for each in list_of_tensor)
