"""The dtypes that HCCL refuses to move or to reduce, by chip and release: rows of `gpu2npu.support.behaviour`."""

from __future__ import annotations

import functools
from typing import Any

import torch

from gpu2npu.emulator.device.dispatch.limits import explained, refused
from gpu2npu.emulator.soc import current_soc
from gpu2npu.support.conditions import CallFacts, TensorFacts

# The names in torch_npu's messages (`kHcclDataTypeToStringMap` in HCCLUtils.cpp).
_NAMES = {
    torch.uint8: "at::kByte/at::kBool",
    torch.bool: "at::kByte/at::kBool",
    torch.int8: "at::kChar",
    torch.int16: "at::kShort",
    torch.int32: "at::kInt",
    torch.int64: "at::kLong",
    torch.float16: "at::kHalf",
    torch.float32: "at::kFloat",
    torch.float64: "at::kDouble",
    torch.bfloat16: "at::kBFloat16",
}
# torch_npu's methods, and the function of torch.distributed that the limits are stated for.
_FUNCTIONS = {
    "allreduce": "all_reduce",
    "reduce": "reduce",
    "reduce_scatter": "reduce_scatter",
    "_reduce_scatter_base": "reduce_scatter_tensor",
}


def check_moved(dtype: torch.dtype) -> None:
    """Raise RuntimeError when HCCL has no such dtype at all: complex, float8, unsigned ones wider than a byte."""
    given = CallFacts(others=(TensorFacts(str(dtype).removeprefix("torch.")),))
    met = refused("torch.distributed.broadcast", given) or refused("torch.distributed.gather", given)
    if met is not None:
        what = f"Unsupported data type for HCCL process group: {dtype} on {current_soc().name}"
        raise RuntimeError(f"{what}: {explained(met)}")


def check_reduced(dtype: torch.dtype, op: Any, collective: str) -> None:
    """Raise RuntimeError when HCCL, or the chip, does not reduce the dtype in this way.

    Args:
        dtype: Of the tensors.
        op: What is done with them: a ReduceOp, or its kind.
        collective: The name of torch_npu's method, for the message and since reduce_scatter takes fewer dtypes.
    """
    _check_kind_reduced(dtype, getattr(op, "op", op), collective, current_soc().name)


@functools.cache
def _check_kind_reduced(dtype: torch.dtype, kind: Any, collective: str, chip: str) -> None:
    check_moved(dtype)
    function = next((name for method, name in _FUNCTIONS.items() if collective.startswith(method)), "all_reduce")
    sent = TensorFacts(str(dtype).removeprefix("torch."))
    given = CallFacts({"op": f"torch.distributed.ReduceOp.{kind.name}"}, (sent,))
    met = refused(f"torch.distributed.{function}", given)
    if met is not None:
        uses = {name for name, _ in met.holds.uses}
        if "tensors" not in uses:
            raise RuntimeError(f"Cannot use ReduceOp.{kind.name} with HCCL: {explained(met)}")
        if "op" not in uses:
            name = _NAMES.get(dtype, str(dtype))
            raise RuntimeError(f"HCCL {collective}: Unsupported data type {name} ({dtype}): {explained(met)}")
        what = f"{chip} does not reduce {dtype} with ReduceOp.{kind.name}"
        raise RuntimeError(f"HCCL {collective}: {what}: {explained(met)}")
