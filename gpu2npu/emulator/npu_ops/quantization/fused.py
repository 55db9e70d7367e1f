"""Norms and gated units whose results are rounded to integers at once."""

from __future__ import annotations

import numpy as np

from gpu2npu.emulator.kernels.pointwise.activation import gelu
from gpu2npu.emulator.kernels.pointwise.unary import logistic
from gpu2npu.emulator.kernels.promotion import F32, I8, I32, Array, rounded, wide
from gpu2npu.emulator.kernels.registry import kernel
from gpu2npu.emulator.npu_ops.arguments import Arguments, by_schema
from gpu2npu.emulator.npu_ops.norm import npu_rms_norm
from gpu2npu.emulator.npu_ops.quantization.numbers import Integers, integers
from gpu2npu.emulator.npu_ops.quantization.rounding import by_rows, smoothed


def _normed(x: Array, gamma: Array, beta: Array | None, epsilon: float) -> Array:
    """The RMS norm of x in float32, with beta added."""
    y, _ = npu_rms_norm(wide(x), wide(gamma), epsilon)
    return y if beta is None else y + wide(beta)


def _scaled(values: Array, scale: Array, zero_point: Array | None, divide: bool, target: Integers) -> Array:
    found = values / wide(scale) if divide else values * wide(scale)
    return target.of(found if zero_point is None else found + zero_point.astype(F32))


@by_schema(kernel, "npu::npu_rms_norm_quant")
def npu_rms_norm_quant(a: Arguments) -> Array:
    """round((RMS norm of x + beta) * scale + offset), of shape (1,) both, in int8."""
    return _scaled(_normed(a.x, a.gamma, a.beta, a.epsilon), a.scale, a.offset, False, integers(a.dst_dtype))


@by_schema(kernel, "npu::npu_add_rms_norm_quant")
def npu_add_rms_norm_quant(a: Arguments) -> tuple[Array, Array, Array]:
    """The RMS norm of x = x1 + x2 over scales1 plus zero_points1, the same of scales2 (else zeros), and x."""
    x = rounded(wide(a.x1) + wide(a.x2), a.x1.dtype)
    values, target = _normed(x, a.gamma, a.beta, a.epsilon), integers(a.dst_type)
    first = _scaled(values, a.scales1, a.zero_points1, a.div_mode, target)
    if a.scales2 is None:
        return first, np.zeros_like(first), x
    return first, _scaled(values, a.scales2, a.zero_points2, a.div_mode, target), x


@by_schema(kernel, "npu::npu_add_rms_norm_dynamic_quant")
def npu_add_rms_norm_dynamic_quant(a: Arguments) -> tuple[Array, Array, Array, Array, Array]:
    """The RMS norm of x = x1 + x2 times each smooth scale, by rows: y1, y2 (zeros without a second), x, both scales."""
    if a.output_mask not in (None, [True, a.smooth_scale2 is not None]):
        raise NotImplementedError(f"output_mask {a.output_mask}, only of the results that have smooth scales")
    x = rounded(wide(a.x1) + wide(a.x2), a.x1.dtype)
    values, target = _normed(x, a.gamma, a.beta, a.epsilon), integers(a.y_dtype)
    y1, scale1 = by_rows(smoothed(values, a.smooth_scale1, None), target)
    if a.smooth_scale2 is None:
        return y1, np.zeros_like(y1), x, scale1, np.zeros_like(scale1)
    y2, scale2 = by_rows(smoothed(values, a.smooth_scale2, None), target)
    return y1, y2, x, scale1, scale2


def _gated(values: Array, activate_left: bool) -> Array:
    first, second = np.split(values, 2, axis=-1)
    active, other = (first, second) if activate_left else (second, first)
    return active * logistic(active) * other


def _rounded(
    values: Array, scale: Array | None, offset: Array | None, ends: Array | None, dynamic: bool, target: Integers
) -> tuple[Array, Array]:
    """By rows where `dynamic`, otherwise times the scale plus the offset; and the scales, which are zeros then."""
    if scale is not None and ends is not None:
        scale = scale.reshape(len(scale), -1)
    smooth = smoothed(values, scale, ends)
    if dynamic:
        return by_rows(smooth, target)
    if offset is not None:
        smooth = smooth + wide(offset)
    return target.of(smooth), np.zeros(values.shape[:-1], F32)


@by_schema(kernel, "npu::npu_swiglu_quant")
def npu_swiglu_quant(a: Arguments) -> tuple[Array, Array]:
    """SwiGLU of x, rounded by rows (`quant_mode` 1) or by given scales; `group_list_type` 1: counts of each group."""
    ends = None if a.group_index is None else np.cumsum(a.group_index) if a.group_list_type else a.group_index
    if a.group_index is not None and a.offsets is not None:
        raise NotImplementedError("npu_swiglu_quant with the offsets of groups")
    values = _gated(wide(a.x), a.activate_left)
    return _rounded(values, a.smooth_scales, a.offsets, ends, a.quant_mode == 1, integers(a.dst_type))


@by_schema(kernel, "npu::npu_dequant_swiglu_quant")
def npu_dequant_swiglu_quant(a: Arguments) -> tuple[Array, Array]:
    """Integer sums (T, 2H) by their scales, SwiGLU of them, and that rounded again; `group_index` counts rows."""
    if a.swiglu_mode or a.round_mode or a.activate_dim not in (None, -1, 1):
        raise NotImplementedError("npu_dequant_swiglu_quant with a swiglu_mode, round_mode or activate_dim")
    ends = None if a.group_index is None else np.cumsum(a.group_index)
    values = a.x.astype(F32) if a.bias is None or a.bias.dtype != I32 else (a.x.astype(np.int64) + a.bias).astype(F32)
    if a.x.dtype == I32 and a.weight_scale is not None:
        values = smoothed(values, a.weight_scale, ends)
    if a.activation_scale is not None:
        values = values * wide(a.activation_scale).reshape(-1, 1)
    if a.bias is not None and a.bias.dtype != I32:
        values = values + wide(a.bias)
    gated = _gated(values, a.activate_left)
    return _rounded(gated, a.quant_scale, a.quant_offset, ends, a.quant_mode == 1, integers(a.dst_type))


@by_schema(kernel, "npu::npu_gelu_quant")
def npu_gelu_quant(a: Arguments) -> tuple[Array, Array]:
    """GELU of self, rounded by rows ("dynamic") or by the given scale and offset ("static")."""
    if a.round_mode != "rint":
        raise NotImplementedError(f"npu_gelu_quant with round_mode={a.round_mode!r}")
    values = gelu(wide(a.self), approximate=a.approximate)
    return _rounded(values, a.input_scale, a.input_offset, None, a.quant_mode == "dynamic", integers(a.dst_type))


@by_schema(kernel, "npu::npu_quant_scatter")
def npu_quant_scatter(a: Arguments) -> Array:
    """self with each batch's updates, rounded to int8, from index indices[b] on along `axis`."""
    if a.self.dtype != I8 or a.reduce != "update" or a.quant_axis not in (-1, a.self.ndim - 1):
        raise NotImplementedError("npu_quant_scatter other than an update of int8 by scales of the last dimension")
    values = wide(a.updates) / wide(a.quant_scales).reshape(-1)
    if a.quant_zero_points is not None:
        values = values + a.quant_zero_points.astype(F32).reshape(-1)
    whole, result = integers(a.dst_type).of(values), a.self.copy()
    starts = a.indices if a.indices.ndim == 2 else np.stack((np.arange(len(a.indices)), a.indices), axis=1)
    for block, (batch, start) in zip(whole, starts, strict=True):
        place = [slice(None)] * a.self.ndim
        place[a.axis] = slice(start, start + a.updates.shape[a.axis])
        result[int(batch)][tuple(place[1:])] = block
    return result
