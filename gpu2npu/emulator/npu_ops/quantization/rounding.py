"""Floats to integers and back: with scales that are given, and with those that each row needs."""

from __future__ import annotations

import numpy as np

from gpu2npu.emulator.kernels.promotion import F16, F32, I32, Array, rounded, wide
from gpu2npu.emulator.kernels.registry import kernel
from gpu2npu.emulator.npu_ops.arguments import Arguments, by_schema
from gpu2npu.emulator.npu_ops.quantization.numbers import INT4, Integers, float_dtype, integers, unpacked


@by_schema(kernel, "npu::npu_quantize")
def npu_quantize(a: Arguments) -> Array:
    """round(self / scales + zero_points), or self * scales without `div_mode`; scales lie along `axis`."""
    along = a.axis if a.div_mode or a.axis == -2 else -1
    values = wide(a.self)
    scale = _along(wide(a.scales), a.self.ndim, along)
    values = values / scale if a.div_mode else values * scale
    if a.zero_points is not None:
        values = values + _along(a.zero_points.astype(F32), a.self.ndim, along)
    return integers(a.dtype).of(values)


def _along(values: Array, ndim: int, axis: int) -> Array:
    if values.ndim != 1:
        return values
    shape = [1] * ndim
    shape[axis] = -1
    return values.reshape(shape)


def by_rows(values: Array, target: Integers) -> tuple[Array, Array]:
    """Rows of float32 over the scale that makes each row's largest magnitude the largest integer; and the scales."""
    scale = np.abs(values).max(axis=-1) / np.float32(target.high)
    quotient = np.divide(values, scale[..., None], out=np.zeros_like(values), where=scale[..., None] != 0)
    return target.of(quotient), rounded(scale, F32)


def smoothed(x: Array, smooth_scales: Array | None, ends: Array | None) -> Array:
    """x in float32 times the smooth scales, of which there is a row for each group of rows; groups end at `ends`."""
    values = wide(x)
    if smooth_scales is None:
        return values
    scales = wide(smooth_scales)
    if ends is None:
        return values * scales
    groups = np.searchsorted(ends, np.arange(values[..., 0].size), side="right")
    return values * scales[np.minimum(groups, len(scales) - 1)].reshape(*values.shape[:-1], -1)


@by_schema(kernel, "npu::npu_dynamic_quant")
def npu_dynamic_quant(a: Arguments) -> tuple[Array, Array]:
    """Each row as integers over its own scale, and the scales in float32, (*, 1) less the last dimension."""
    if a.quant_mode != "pertoken" or a.dst_type_max:
        raise NotImplementedError(f"npu_dynamic_quant with quant_mode={a.quant_mode!r} or dst_type_max")
    return by_rows(smoothed(a.input, a.smooth_scales, a.group_index), integers(a.dst_type))


@by_schema(kernel, "npu::npu_dynamic_quant_asymmetric")
def npu_dynamic_quant_asymmetric(a: Arguments) -> tuple[Array, Array, Array]:
    """Each row as integers between its smallest and largest value; the scales, and what is added to the quotients."""
    if a.quant_mode != "pertoken" or a.dst_type_max:
        raise NotImplementedError(f"npu_dynamic_quant_asymmetric with quant_mode={a.quant_mode!r} or dst_type_max")
    values, target = smoothed(a.input, a.smooth_scales, a.group_index), integers(a.dst_type)
    high, low = values.max(axis=-1), values.min(axis=-1)
    scale = (high - low) / np.float32(target.high - target.low)
    over = np.where(scale == 0, np.float32(1), scale)
    offset = np.float32(target.high) - high / over
    return target.of(values / over[..., None] + offset[..., None]), rounded(scale, F32), rounded(offset, F32)


@by_schema(kernel, "npu::npu_anti_quant")
def npu_anti_quant(a: Arguments) -> Array:
    """(x + offset) * scale in float16 or `dst_dtype`; int32 holds eight numbers of 4 bits."""
    x = a.x
    if x.dtype == I32 or (a.src_dtype is not None and integers(a.src_dtype) is INT4):
        x = unpacked(x)
    values = x.astype(F32)
    if a.offset is not None:
        values += wide(a.offset)
    return rounded(values * wide(a.scale), float_dtype(a.dst_dtype, F16))


@by_schema(kernel, "npu::npu_group_quant")
def npu_group_quant(a: Arguments) -> Array:
    """round(x * scale[g] + offset) for the rows of each group g, which ends at group_index[g]."""
    values = smoothed(a.x, a.scale, a.group_index)
    return integers(a.dst_dtype).of(values if a.offset is None else values + wide(a.offset))


def dequantized(
    x: Array, scale: Array, pertoken_scale: Array | None, bias: Array | None, offset: Array | None = None
) -> Array:
    """float32 of integer sums: an integer bias is added before the scales, one of floats after, then the offset."""
    values = x.astype(np.float64)
    if bias is not None and bias.dtype == I32:
        values = values + bias
    result = values.astype(F32) * scale
    if pertoken_scale is not None:
        result = result * wide(pertoken_scale)[:, None]
    if bias is not None and bias.dtype != I32:
        result = result + wide(bias)
    return result if offset is None else result + offset


@by_schema(kernel, "npu::npu_dequant_bias")
def npu_dequant_bias(a: Arguments) -> Array:
    """int32 (M, N) times the weight's scales (N,) and the activation's (M,), with a bias (N,); float16 unless said."""
    values = dequantized(a.x, wide(a.weight_scale), a.activation_scale, a.bias)
    return rounded(values, float_dtype(a.output_dtype, F16))
