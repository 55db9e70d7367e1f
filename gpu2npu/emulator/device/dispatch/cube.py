"""Operators of an Ascend chip's cube unit, which multiplies float16, bfloat16 and float32 and nothing else.

float16 and bfloat16 are accumulated in float32 and rounded once, by the kernels. float32 is multiplied as it is, as
HF32, or (on chips of the first generation, which cannot do either) as float16: the meanings of `cubeMathType` 0 and 1
in CANN's documents of aclnnConvolution and aclnnMatmul, of which torch_npu passes 1 where `allow_hf32` is set.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from gpu2npu.emulator.device import settings
from gpu2npu.emulator.device.dispatch.limits import LimitError, refused_dtypes
from gpu2npu.emulator.soc import current_soc

Array = np.ndarray[Any, Any]
Prepare = Callable[[list[Any]], None]

# By name, those of aten without it: the CANN operator that the error of a real NPU names, and which arguments are
# multiplied.
_MATMUL: dict[str, tuple[str, tuple[int, ...]]] = {
    "mm": ("Mm", (0, 1)),
    "bmm": ("BatchMatMul", (0, 1)),
    "addmm": ("Addmm", (1, 2)),
    "addmm_": ("Addmm", (1, 2)),
    "_addmm_activation": ("Addmm", (1, 2)),
    "baddbmm": ("Baddbmm", (1, 2)),
    "baddbmm_": ("Baddbmm", (1, 2)),
    "addbmm": ("Addbmm", (1, 2)),
    "addbmm_": ("Addbmm", (1, 2)),
    "addmv": ("Addmv", (1, 2)),
    "addmv_": ("Addmv", (1, 2)),
    "mv": ("Mv", (0, 1)),
    "dot": ("Dot", ()),
    "vdot": ("Dot", ()),
    "matmul": ("Matmul", (0, 1)),
    "linear": ("Matmul", (0, 1)),
    "linear_backward": ("Matmul", (0, 1, 2)),
    "npu::npu_linear": ("Matmul", (0, 1)),
    "npu::npu_linear_backward": ("Matmul", (0, 1, 2)),
    "npu::npu_bmmV2": ("BatchMatMul", (0, 1)),
    "npu::npu_bmm_v2_mat1_backward": ("BatchMatMul", (0, 2)),
    "npu::npu_bmm_v2_mat2_backward": ("BatchMatMul", (0, 1)),
    "npu::npu_transpose_batchmatmul": ("TransposeBatchMatMul", (0, 1)),
    # Its document names float32 among the inputs, and no HF32.
    "npu::npu_fusion_attention": ("FlashAttentionScore", ()),
    "npu::npu_fusion_attention_grad": ("FlashAttentionScoreGrad", ()),
    "npu::npu_fusion_attention_v3": ("FlashAttentionScore", ()),
    "npu::npu_fusion_attention_grad_v3": ("FlashAttentionScoreGrad", ()),
}
_CONV: dict[str, tuple[str, tuple[int, ...]]] = {
    "convolution_overrideable": ("Convolution", (0, 1)),
    "convolution_backward": ("ConvolutionBackward", (0, 1, 2)),
    "convolution_backward_overrideable": ("ConvolutionBackward", (0, 1, 2)),
}
# What CANN calls the dtypes that it refuses. bfloat16 is `chip_family`'s to refuse, whatever the operator.
_DT = {
    "float64": "DT_DOUBLE",
    "complex32": "DT_COMPLEX32",
    "complex64": "DT_COMPLEX64",
    "complex128": "DT_COMPLEX128",
    "bool": "DT_BOOL",
    **{name: f"DT_{name.upper()}" for name in ("uint8", "int8", "int16", "int32", "int64")},
}
_FLOAT64 = (np.dtype(np.float64), torch.float64)
_FLOAT32 = np.dtype(np.float32)
_HF32_DROPPED = 12  # bits: float32 has 23 of mantissa, HF32 keeps 11
_BLOCK = 1 << 15  # elements rounded at a time, so that the passes over them stay in the cache


def dtype_check(name: str) -> Prepare | None:
    """A function that raises where a list of arguments has a tensor that the cube unit does not multiply.

    None for operators that are not the cube unit's, by their schema name. What else an operator is given, such as the
    mask of an attention, may be of any dtype but float64.

    Raises (the function):
        LimitError: In the words of CANN, which names the dtypes that would do.
    """
    name = name.removeprefix("aten::")
    operator, multiplied = _MATMUL.get(name) or _CONV.get(name) or ("", ())
    if not operator:
        return None
    refused = refused_dtypes("aten::mm" if name in _MATMUL else "aten::convolution")
    known = {dtype: name for name in refused.keys() & _DT for dtype in _dtypes(name)}

    def check(values: list[Any]) -> None:
        for position, value in enumerate(values):
            dtype = getattr(value, "dtype", None)
            if dtype in known and (position in multiplied or dtype in _FLOAT64):
                met = refused[known[dtype]]
                raise LimitError(
                    f"call aclnn{operator} failed, detail:EZ1001: Tensor not implemented for {_DT[known[dtype]]}, "
                    "should be in dtype support list [DT_FLOAT,DT_FLOAT16,DT_BFLOAT16,]. "
                    f"On the NPU {met.evidence}: {met.advice}."
                )

    return check


def _dtypes(name: str) -> list[Any]:
    """The dtype of torch, and that of NumPy where it has one."""
    return [getattr(torch, name), *([np.dtype(name)] if name != "complex32" else [])]


def preparation(name: str) -> Prepare | None:
    """Return a function that rounds, in a list of arguments, the arrays that the cube unit multiplies.

    None for operators that are not the cube unit's. The function raises the error of `dtype_check`.
    """
    check = dtype_check(name)
    name = name.removeprefix("aten::")
    found, switch = _MATMUL.get(name), settings.matmul
    if found is None:
        found, switch = _CONV.get(name), settings.conv
    if found is None or check is None:
        return None
    multiplied = found[1]
    has_hf32 = current_soc().hf32

    def prepare(values: list[Any]) -> None:
        check(values)
        if has_hf32 and not switch.allow_hf32:
            return
        for position in multiplied:
            if position < len(values) and getattr(values[position], "dtype", None) == _FLOAT32:
                values[position] = hf32(values[position]) if has_hf32 else _as_float16(values[position])

    return prepare


def hf32(values: Array) -> Array:
    """float32 rounded to HF32: the range of float32, and 11 bits of mantissa (CANN's document of `--allow_hf32`).

    Ties go to even, one of the two modes of the hardware (AscendC's SetHF32TransMode) and the one that CANN's
    convolutions choose; its matrix products may choose the other. The result is in C order; `values` is not written.
    """
    result = np.array(values, _FLOAT32, order="C")
    flat = result.reshape(-1)
    bits = flat.view(np.uint32)
    for start in range(0, len(bits), _BLOCK):
        part = bits[start : start + _BLOCK]
        odd = part >> np.uint32(_HF32_DROPPED)
        odd &= np.uint32(1)
        odd += np.uint32((1 << (_HF32_DROPPED - 1)) - 1)
        if math.isnan(flat[start : start + _BLOCK].max()):
            odd[np.isnan(flat[start : start + _BLOCK])] = 0  # a carry would leave the NaNs' exponent
        part += odd
        part &= np.uint32(0xFFFFFFFF << _HF32_DROPPED & 0xFFFFFFFF)
    return result


def _as_float16(values: Array) -> Array:
    """float32 rounded to float16's mantissa and range, as the first generation's cube unit takes it, saturated."""
    limit = np.float32(np.finfo(np.float16).max)
    return np.clip(values, -limit, limit).astype(np.float16).astype(np.float32)
