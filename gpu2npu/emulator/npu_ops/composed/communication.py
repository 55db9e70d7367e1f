"""Matrix products fused with collectives, which on an NPU hide one behind the other: here one after the other."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gpu2npu.emulator.npu_ops.arguments import Arguments, by_schema
from gpu2npu.emulator.npu_ops.composite import composite


def _group(hcom: str) -> Any:
    """The process group whose communicator has this name, as `get_hccl_comm_name` answers.

    Raises:
        RuntimeError: There is none in this process.
    """
    from torch.distributed import distributed_c10d as c10d

    for group in c10d._world.pg_map:
        backend: Any = group._get_backend(torch.device("npu"))
        if backend.get_hccl_comm_name(group.rank()) == hcom:
            return group
    raise RuntimeError(f"no process group of this process has the communicator {hcom!r}")


def _product(x1: Tensor, x2: Tensor, bias: Tensor | None) -> Tensor:
    return x1 @ x2 if bias is None else (x1 @ x2 + bias).to(x1.dtype)


@by_schema(composite, "npu_mm_all_reduce_base")
def npu_mm_all_reduce_base(a: Arguments) -> Tensor:
    """The sum over the ranks of x1 @ x2 + bias, plus x3."""
    result = _product(a.x1, a.x2, a.bias).contiguous()
    torch.distributed.all_reduce(result, group=_group(a.hcom))
    return result if a.x3 is None else result + a.x3


@by_schema(composite, "npu_all_gather_base_mm")
def npu_all_gather_base_mm(a: Arguments) -> tuple[Tensor, Tensor]:
    """The rows of all ranks' `self`, times x2, plus bias; and these rows, unless `gather_output` is off."""
    rows = a.self.new_empty((a.world_size * len(a.self), *a.self.shape[1:]))
    torch.distributed.all_gather_into_tensor(rows, a.self.contiguous(), group=_group(a.hcom))
    return _product(rows, a.x2, a.bias), rows if a.gather_output else a.self.new_empty(0)


@by_schema(composite, "npu_mm_reduce_scatter_base")
def npu_mm_reduce_scatter_base(a: Arguments) -> Tensor:
    """This rank's rows of the sum over the ranks of self @ x2 + bias."""
    whole = _product(a.self, a.x2, a.bias).contiguous()
    result = whole.new_empty((len(whole) // a.world_size, whole.shape[1]))
    torch.distributed.reduce_scatter_tensor(result, whole, group=_group(a.hcom))
    return result
