"""The dtypes that HCCL moves and those that it reduces, by chip.

Sources: torch_npu's maps from dtype to HcclDataType and from ReduceOp to HcclReduceOp (`HCCLUtils.cpp`,
`ProcessGroupHCCL.cpp`), and the tables of dataType and op in CANN's reference of HcclAllReduce, HcclReduceScatter and
HcclAllGather (8.0 to 8.5).
"""

from __future__ import annotations

import functools
from typing import Any

import torch
import torch.distributed as dist

from gpu2npu.emulator.soc import current_soc

_Op: Any = dist.ReduceOp.RedOpType

# Of a tensor that is moved as it is; the names are those of torch_npu's messages.
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
_REDUCED = {torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32, torch.bfloat16}
_CAST = {torch.bool, torch.uint8}  # torch_npu casts them to int32 for all_reduce and reduce, not for reduce_scatter
_REFUSED_OPS = {
    _Op.BAND: "BAND",
    _Op.BOR: "BOR",
    _Op.BXOR: "BXOR",
    _Op.PREMUL_SUM: "PREMUL_SUM",
}

_ANY = frozenset({_Op.SUM, _Op.AVG, _Op.PRODUCT, _Op.MAX, _Op.MIN})

# By the beginning of the chip's name: the Atlas training series, Atlas 300I Duo, the Atlas A2 and A3 series.
_LACKING: dict[str, dict[torch.dtype, frozenset[Any]]] = {
    "Ascend910A": {torch.int16: _ANY, torch.bfloat16: _ANY},
    "Ascend310P": {torch.int64: _ANY, torch.bfloat16: _ANY, torch.int16: frozenset({_Op.PRODUCT, _Op.MAX, _Op.MIN})},
    "Ascend910B": {torch.int16: frozenset({_Op.PRODUCT}), torch.bfloat16: frozenset({_Op.PRODUCT})},
    "Ascend910_93": {torch.int16: frozenset({_Op.PRODUCT}), torch.bfloat16: frozenset({_Op.PRODUCT})},
}


def check_moved(dtype: torch.dtype) -> None:
    """Raise RuntimeError when HCCL has no such dtype at all: complex, float8, unsigned ones wider than a byte."""
    if dtype not in _NAMES or (dtype is torch.bfloat16 and not current_soc().bfloat16):
        raise RuntimeError(f"Unsupported data type for HCCL process group: {dtype} on {current_soc().name}")


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
    if kind in _REFUSED_OPS:
        raise RuntimeError(f"Cannot use ReduceOp.{_REFUSED_OPS[kind]} with HCCL")
    if dtype not in _REDUCED and not (dtype in _CAST and "reduce_scatter" not in collective):
        raise RuntimeError(f"HCCL {collective}: Unsupported data type {_NAMES[dtype]} ({dtype})")
    lacking = next((lacks for series, lacks in _LACKING.items() if chip.startswith(series)), {})
    if kind in lacking.get(dtype, ()):
        raise RuntimeError(f"HCCL {collective}: {chip} does not reduce {dtype} with ReduceOp.{kind.name}")
    if kind is _Op.AVG and not dtype.is_floating_point:  # torch_npu sums, and then divides in place
        raise RuntimeError("result type Float can't be cast to the desired output type " + _NAMES[dtype][5:])
