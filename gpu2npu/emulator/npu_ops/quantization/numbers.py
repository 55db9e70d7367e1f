"""Integers of 8 and 4 bits: their dtypes' numbers, rounding, packing, and scales in 64 bits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from gpu2npu.emulator.kernels.promotion import BF16, F16, F32, I8, I32, I64, U8, Array, wide
from gpu2npu.emulator.kernels.registry import kernel

NIBBLES = 8  # numbers of 4 bits in one of 32


@dataclass(frozen=True)
class Integers:
    """Numbers from `low` to `high` that floats are rounded to, packed by eight into int32 where they have 4 bits."""

    low: int
    high: int
    dtype: np.dtype

    def of(self, values: Array) -> Array:
        """Float values rounded to even and clipped; the last dimension is an eighth where they are packed."""
        whole = np.clip(np.rint(values), self.low, self.high)
        return packed(whole.astype(I8)) if self is INT4 else whole.astype(self.dtype)


INT8 = Integers(-128, 127, I8)
INT4 = Integers(-8, 7, I32)
_UINT8 = Integers(0, 255, U8)
_INT32 = Integers(-(2**31), 2**31 - 1, I32)

# By the numbers of c10::ScalarType, and 29, which is CANN's int4.
_INTEGERS = {0: _UINT8, 1: INT8, 3: _INT32, 12: INT8, 13: _UINT8, 14: _INT32, 16: INT4, 29: INT4}
_SCALAR_TYPES = {torch.int8: 1, torch.qint8: 12, torch.quint8: 13, torch.quint4x2: 16, torch.uint8: 0, torch.int32: 3}
_FLOATS = {5: F16, 6: F32, 15: BF16, torch.float16: F16, torch.float32: F32, torch.bfloat16: BF16}


def integers(dtype: int | torch.dtype | None) -> Integers:
    """The integers of a dtype or its number; int8 where there is none.

    Raises:
        NotImplementedError: The dtype is none of these, such as float8.
    """
    number = _SCALAR_TYPES.get(dtype) if isinstance(dtype, torch.dtype) else 1 if dtype is None else dtype
    if number not in _INTEGERS:
        raise NotImplementedError(f"quantization to the dtype {dtype}")
    return _INTEGERS[number]


def float_dtype(dtype: int | torch.dtype | None, otherwise: np.dtype) -> np.dtype:
    """The floating dtype of a dtype or its number.

    Raises:
        NotImplementedError: It is none of float16, bfloat16 and float32.
    """
    if dtype is None:
        return otherwise
    if dtype not in _FLOATS:
        raise NotImplementedError(f"results of the dtype {dtype}")
    return _FLOATS[dtype]


def packed(values: Array) -> Array:
    """int32 of eight numbers of 4 bits each along the last dimension, the first in the lowest bits.

    Raises:
        RuntimeError: The last dimension is not a multiple of eight.
    """
    if values.shape[-1] % NIBBLES:
        raise RuntimeError(f"int4 needs a last dimension that is a multiple of 8, not {values.shape[-1]}")
    nibbles = (values.astype(np.uint32) & 15).reshape(*values.shape[:-1], -1, NIBBLES)
    shifts = np.arange(0, 32, 4, dtype=np.uint32)
    return np.bitwise_or.reduce(nibbles << shifts, axis=-1).view(I32)


def unpacked(values: Array, axis: int = -1) -> Array:
    """int8 of the numbers of 4 bits in int32: eight times as many along `axis`."""
    words = np.moveaxis(values, axis, -1)
    shifts = np.arange(28, -4, -4, dtype=I32)
    nibbles = (words[..., None] << shifts) >> np.int32(28)
    whole = nibbles.reshape(*words.shape[:-1], -1).astype(I8)
    return np.moveaxis(whole, -1, axis)


def scale_and_offset(scale: Array, offset: Array | None = None) -> tuple[Array, Array | None]:
    """A scale and offset in float32, out of what `npu_trans_quant_param` made where the scale is int64."""
    if scale.dtype != I64:
        return wide(scale), None if offset is None else wide(offset)
    bits = scale.view(np.uint64)
    found = (bits & np.uint64(0xFFFFFFFF)).astype(np.uint32).view(F32)
    whole = ((bits >> np.uint64(37)) & np.uint64(0x1FF)).astype(np.int64)
    whole -= (whole > 255) * 512
    return found, wide(offset) if offset is not None else whole.astype(F32)


@kernel("npu::npu_trans_quant_param")
def npu_trans_quant_param(scale: Array, offset: Array | None = None, round_mode: int | None = 0) -> Array:
    """int64 with the upper 19 bits of each scale, bit 46 set, and each offset rounded to 9 bits from bit 37 on.

    The layout is that of aclnnTransQuantParamV2's document in CANN. `round_mode` 1 rounds the scale to 19 bits.
    """
    bits = np.ascontiguousarray(wide(scale)).view(np.uint32)
    if round_mode:
        bits = bits + np.uint32(0xFFF) + ((bits >> np.uint32(13)) & np.uint32(1))
    result = (bits & np.uint32(0xFFFFE000)).astype(np.uint64) | np.uint64(1 << 46)
    if offset is not None:
        whole = np.clip(np.rint(wide(offset)), -256, 255).astype(np.int64) & 0x1FF
        result = result | (whole.astype(np.uint64) << np.uint64(37))
    return result.view(I64)


@kernel("npu::npu_convert_weight_to_int4pack")
def npu_convert_weight_to_int4pack(weight: Array, inner_k_tiles: int = 0) -> Array:
    """int32 (k, n / 8) of int32 numbers from -8 to 7; `inner_k_tiles` changes nothing, as documented."""
    return packed(weight)
