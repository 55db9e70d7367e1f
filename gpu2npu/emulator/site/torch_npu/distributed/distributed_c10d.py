"""The collectives that torch_npu has and PyTorch has not, under torch_npu's names and signatures."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

__all__ = ["is_hccl_available", "reinit_process_group"]

_NPU = torch.device("npu")

_batch_isend_irecv = dist.batch_isend_irecv
_gather = dist.gather
_gather_object = dist.gather_object


def is_hccl_available() -> bool:
    """Return whether the backend "hccl" is registered."""
    return "hccl" in dist.Backend.backend_list


def reinit_process_group(group: Any = None, rebuild_link: bool = True) -> Any:
    """The group itself, or None with `rebuild_link=False`: the emulated links do not break.

    A real NPU aborts the group's communicator, or resumes it, after a fault.
    """
    return (group or dist.group.WORLD) if rebuild_link else None


def _reduce_scatter_tensor_uneven(
    output: torch.Tensor,
    input: torch.Tensor,  # noqa: A002 - torch_npu's name
    input_split_sizes: Sequence[int] | None = None,
    op: Any = dist.ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """Reduce `input` and give each rank its rows of it, `input_split_sizes[rank]` many."""
    opts = dist.ReduceScatterOptions()
    opts.reduceOp = op
    return _run("reduce_scatter_tensor_uneven", group, async_op, output, input, input_split_sizes or (), opts)


def _all_gather_into_tensor_uneven(
    output: torch.Tensor,
    input: torch.Tensor,  # noqa: A002 - torch_npu's name
    output_split_sizes: Sequence[int] | None = None,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """Gather the rows of all ranks, `output_split_sizes[rank]` many of each."""
    return _run("all_gather_into_tensor_uneven", group, async_op, output, input, output_split_sizes or ())


def _all_to_all_vc(
    output: torch.Tensor,
    input: torch.Tensor,  # noqa: A002 - torch_npu's name
    send_count_matrix: Sequence[Sequence[int]],
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """Send `send_count_matrix[i][j]` elements from rank i to rank j; every rank passes the whole matrix.

    Raises:
        ValueError: The matrix is not as wide or as high as the group.
    """
    size = dist.get_world_size(group)
    if {len(send_count_matrix), *map(len, send_count_matrix)} != {size}:
        raise ValueError(f"send_count_matrix must be a square [{size}][{size}] matrix, the size of the group")
    return _run("alltoallvc", group, async_op, output, input, [count for row in send_count_matrix for count in row])


def _run(method: str, group: Any, async_op: bool, output: torch.Tensor, value: torch.Tensor, *args: Any) -> Any:
    if dist.get_rank(group) < 0:
        return None
    if {output.device.type, value.device.type} != {"npu"}:
        warnings.warn("Support for Tensors is limited to those of type npu", stacklevel=3)
        return None
    ranks: Any = group or dist.group.WORLD
    work = getattr(ranks._get_backend(_NPU), method)(output, value, *args)
    if async_op:
        return work
    work.wait()
    return None
