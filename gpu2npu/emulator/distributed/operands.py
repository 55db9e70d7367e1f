"""Host memory of a collective's tensors, laid out as gloo wants it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

from gpu2npu.emulator.device.tensor import host
from gpu2npu.emulator.distributed import datatypes


def host_memory(tensor: torch.Tensor) -> torch.Tensor:
    """The host tensor over the same bytes.

    Raises:
        RuntimeError: HCCL has no such dtype, or the tensor is sparse.
    """
    if tensor.layout is not torch.strided:
        raise RuntimeError("Tensors must be dense")
    if tensor.device.type == "npu":
        datatypes.check_moved(tensor.dtype)
    return host(tensor.detach() if tensor.requires_grad else tensor)


def flat(tensor: torch.Tensor) -> torch.Tensor:
    """Memory that HCCL takes as it is: the 1-d tensor of the elements in the order in which they are there.

    Raises:
        ValueError: There are gaps between them, or they are in no order that HCCL takes.
    """
    if not (tensor.is_contiguous() or tensor.is_contiguous(memory_format=torch.channels_last)):
        raise ValueError("Tensors must be contiguous")
    return tensor.as_strided((tensor.numel(),), (1,))


def in_order(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, or a copy, with its elements in memory as they are counted; torch_npu copies members of lists."""
    return tensor.contiguous()


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """A contiguous tensor as 1-d uint8, for collectives that only move it: gloo need not know the dtype."""
    return tensor.as_strided((tensor.numel(),), (1,)).view(torch.uint8)


def rows(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor that is moved in parts of its first dimension, as uint8 of shape (shape[0], bytes of a row)."""
    if not tensor.is_contiguous():
        raise ValueError("Tensors must be contiguous")
    return as_bytes(tensor).view(tensor.shape[0], tensor[:1].nbytes)


def terms(tensors: list[torch.Tensor], opts: Any) -> list[torch.Tensor]:
    """Return the tensors that gloo reduces in place of 1-d tensors of one dtype, and adapt `opts` to them.

    A sum of truth values is "any", and their bytes must stay 0 or 1. Gloo does not reduce int16.
    """
    if tensors and tensors[0].dtype == torch.bool:
        if opts.reduceOp == dist.ReduceOp.SUM:
            opts.reduceOp = dist.ReduceOp.MAX
        return [tensor.view(torch.uint8) for tensor in tensors]
    return [tensor.int() if tensor.dtype == torch.int16 else tensor for tensor in tensors]


def copy_in_order(sources: Sequence[torch.Tensor], targets: Sequence[torch.Tensor]) -> None:
    """Copy each source to the target of its place.

    Raises:
        ValueError: There are more of one kind, or a pair differs in dtype or number of elements.
    """
    if len(sources) != len(targets):
        raise ValueError(f"HCCL: {len(sources)} messages of this rank to itself, and {len(targets)} that it receives")
    for source, target in zip(sources, targets, strict=True):
        if (source.dtype, source.numel()) != (target.dtype, target.numel()):
            raise ValueError(
                f"HCCL: a message of {source.numel()} {source.dtype} to this rank itself, and "
                f"{target.numel()} {target.dtype} to receive it"
            )
    for source, target in zip([each.clone() for each in sources], targets, strict=True):
        target.copy_(source.view_as(target))
