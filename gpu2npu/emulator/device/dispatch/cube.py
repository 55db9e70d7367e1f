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

from gpu2npu.emulator.device import native, settings
from gpu2npu.emulator.soc import current_soc

Array = np.ndarray[Any, Any]
Prepare = Callable[[list[Any]], None]

# By name, those of aten without it: which arguments are multiplied.
_MATMUL: dict[str, tuple[int, ...]] = {
    "mm": (0, 1),
    "bmm": (0, 1),
    "addmm": (1, 2),
    "addmm_": (1, 2),
    "_addmm_activation": (1, 2),
    "baddbmm": (1, 2),
    "baddbmm_": (1, 2),
    "addbmm": (1, 2),
    "addbmm_": (1, 2),
    "addmv": (1, 2),
    "addmv_": (1, 2),
    "mv": (0, 1),
    "matmul": (0, 1),
    "linear": (0, 1),
    "linear_backward": (0, 1, 2),
    "npu::npu_linear": (0, 1),
    "npu::npu_linear_backward": (0, 1, 2),
    "npu::npu_bmmV2": (0, 1),
    "npu::npu_bmm_v2_mat1_backward": (0, 2),
    "npu::npu_bmm_v2_mat2_backward": (0, 1),
    "npu::npu_transpose_batchmatmul": (0, 1),
}
_CONV: dict[str, tuple[int, ...]] = {
    "convolution_overrideable": (0, 1),
    "convolution_backward": (0, 1, 2),
    "convolution_backward_overrideable": (0, 1, 2),
}
_FLOAT32 = np.dtype(np.float32)
_HF32_DROPPED = 12  # bits: float32 has 23 of mantissa, HF32 keeps 11
_BLOCK = 1 << 15  # elements rounded at a time, so that the passes over them stay in the cache


def preparation(name: str) -> Prepare | None:
    """Return a function that rounds, in a list of arguments, the arrays that the cube unit multiplies.

    None for operators that are not the cube unit's. What they refuse is in the table of behaviour.
    """
    name = name.removeprefix("aten::")
    multiplied, switch = _MATMUL.get(name), settings.matmul
    if multiplied is None:
        multiplied, switch = _CONV.get(name), settings.conv
    if multiplied is None:
        return None
    has_hf32 = current_soc().hf32

    def prepare(values: list[Any]) -> None:
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
    if native.library is not None:
        rounded = np.empty(values.shape, _FLOAT32)
        if native.library.hf32(np.asarray(values), rounded):
            return rounded
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
