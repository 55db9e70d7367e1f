"""Matrix products fused with collectives, which on an NPU hide one behind the other: here one after the other."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

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


def _refuse(name: str, options: dict[str, Any]) -> None:
    for option, value in options.items():
        if isinstance(value, Tensor) or (option.endswith("quant_mode") and value):
            raise NotImplementedError(f"torch_npu.{name}: the emulated NPU does not compute it with {option}")


def _product(x1: Tensor, x2: Tensor, bias: Tensor | None) -> Tensor:
    return x1 @ x2 if bias is None else (x1 @ x2 + bias).to(x1.dtype)


@composite("npu_mm_all_reduce_base")
def npu_mm_all_reduce_base(
    x1: Tensor,
    x2: Tensor,
    hcom: str,
    *,
    reduce_op: str = "sum",
    bias: Tensor | None = None,
    x3: Tensor | None = None,
    **options: Any,
) -> Tensor:
    """The sum over the ranks of x1 @ x2 + bias, plus x3."""
    _refuse("npu_mm_all_reduce_base", options)
    result = _product(x1, x2, bias).contiguous()
    torch.distributed.all_reduce(result, group=_group(hcom))
    return result if x3 is None else result + x3


@composite("npu_all_gather_base_mm")
def npu_all_gather_base_mm(
    self: Tensor,
    x2: Tensor,
    hcom: str,
    world_size: int,
    *,
    bias: Tensor | None = None,
    gather_index: int = 0,
    gather_output: bool = True,
    **options: Any,
) -> tuple[Tensor, Tensor]:
    """The rows of all ranks' `self`, times x2, plus bias; and these rows, unless `gather_output` is off."""
    _refuse("npu_all_gather_base_mm", options)
    rows = self.new_empty((world_size * len(self), *self.shape[1:]))
    torch.distributed.all_gather_into_tensor(rows, self.contiguous(), group=_group(hcom))
    return _product(rows, x2, bias), rows if gather_output else self.new_empty(0)


@composite("npu_mm_reduce_scatter_base")
def npu_mm_reduce_scatter_base(
    self: Tensor,
    x2: Tensor,
    hcom: str,
    world_size: int,
    *,
    reduce_op: str = "sum",
    bias: Tensor | None = None,
    **options: Any,
) -> Tensor:
    """This rank's rows of the sum over the ranks of self @ x2 + bias."""
    _refuse("npu_mm_reduce_scatter_base", options)
    whole = _product(self, x2, bias).contiguous()
    result = whole.new_empty((len(whole) // world_size, whole.shape[1]))
    torch.distributed.reduce_scatter_tensor(result, whole, group=_group(hcom))
    return result
