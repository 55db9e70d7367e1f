"""Norms and gated units whose results are rounded to integers at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from gpu2npu.emulator.kernels.pointwise.activation import gelu
from gpu2npu.emulator.kernels.pointwise.unary import logistic
from gpu2npu.emulator.kernels.promotion import F32, I8, I32, Array, rounded, wide
from gpu2npu.emulator.kernels.registry import kernel
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


@kernel("npu::npu_rms_norm_quant")
def npu_rms_norm_quant(
    x: Array,
    gamma: Array,
    beta: Array,
    scale: Array,
    offset: Array,
    epsilon: float = 1e-06,
    *,
    dst_dtype: int | None = None,
) -> Array:
    """round((RMS norm of x + beta) * scale + offset), of shape (1,) both, in int8."""
    return _scaled(_normed(x, gamma, beta, epsilon), scale, offset, False, integers(dst_dtype))


@kernel("npu::npu_add_rms_norm_quant")
def npu_add_rms_norm_quant(
    x1: Array,
    x2: Array,
    gamma: Array,
    scales1: Array,
    zero_points1: Array | None,
    beta: Array | None = None,
    scales2: Array | None = None,
    zero_points2: Array | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-06,
    div_mode: bool = True,
    dst_type: int | None = None,
) -> tuple[Array, Array, Array]:
    """The RMS norm of x = x1 + x2 over scales1 plus zero_points1, the same of scales2 (else zeros), and x."""
    x = rounded(wide(x1) + wide(x2), x1.dtype)
    values, target = _normed(x, gamma, beta, epsilon), integers(dst_type)
    first = _scaled(values, scales1, zero_points1, div_mode, target)
    if scales2 is None:
        return first, np.zeros_like(first), x
    return first, _scaled(values, scales2, zero_points2, div_mode, target), x


@kernel("npu::npu_add_rms_norm_dynamic_quant")
def npu_add_rms_norm_dynamic_quant(
    x1: Array,
    x2: Array,
    gamma: Array,
    *,
    smooth_scale1: Array | None = None,
    smooth_scale2: Array | None = None,
    beta: Array | None = None,
    epsilon: float = 1e-6,
    output_mask: Sequence[bool] | None = None,
    y_dtype: int | None = None,
) -> tuple[Array, Array, Array, Array, Array]:
    """The RMS norm of x = x1 + x2 times each smooth scale, by rows: y1, y2 (zeros without a second), x, both scales."""
    x = rounded(wide(x1) + wide(x2), x1.dtype)
    values, target = _normed(x, gamma, beta, epsilon), integers(y_dtype)
    y1, scale1 = by_rows(smoothed(values, smooth_scale1, None), target)
    if smooth_scale2 is None:
        return y1, np.zeros_like(y1), x, scale1, np.zeros_like(scale1)
    y2, scale2 = by_rows(smoothed(values, smooth_scale2, None), target)
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


@kernel("npu::npu_swiglu_quant")
def npu_swiglu_quant(
    x: Array,
    *,
    smooth_scales: Array | None = None,
    offsets: Array | None = None,
    group_index: Array | None = None,
    activate_left: bool = False,
    quant_mode: int = 0,
    group_list_type: int = 0,
    dst_type: torch.dtype | None = None,
) -> tuple[Array, Array]:
    """SwiGLU of x, rounded by rows (`quant_mode` 1) or by given scales; `group_list_type` 1: counts of each group."""
    ends = None if group_index is None else np.cumsum(group_index) if group_list_type else group_index
    if group_index is not None and offsets is not None:
        raise NotImplementedError("npu_swiglu_quant with the offsets of groups")
    values = _gated(wide(x), activate_left)
    return _rounded(values, smooth_scales, offsets, ends, quant_mode == 1, integers(dst_type))


@kernel("npu::npu_dequant_swiglu_quant")
def npu_dequant_swiglu_quant(
    x: Array,
    *,
    weight_scale: Array | None = None,
    activation_scale: Array | None = None,
    bias: Array | None = None,
    quant_scale: Array | None = None,
    quant_offset: Array | None = None,
    group_index: Array | None = None,
    activate_left: bool = False,
    quant_mode: int = 0,
    dst_type: int | None = None,
    round_mode: int | None = None,
    activate_dim: int | None = None,
    swiglu_mode: int = 0,
    clamp_limit: float = 7.0,
    glu_alpha: float = 1.702,
    glu_bias: float = 1.0,
) -> tuple[Array, Array]:
    """Integer sums (T, 2H) by their scales, SwiGLU of them, and that rounded again; `group_index` counts rows."""
    if swiglu_mode or round_mode or activate_dim not in (None, -1, 1):
        raise NotImplementedError("npu_dequant_swiglu_quant with a swiglu_mode, round_mode or activate_dim")
    ends = None if group_index is None else np.cumsum(group_index)
    values = x.astype(F32) if bias is None or bias.dtype != I32 else (x.astype(np.int64) + bias).astype(F32)
    if x.dtype == I32 and weight_scale is not None:
        values = smoothed(values, weight_scale, ends)
    if activation_scale is not None:
        values = values * wide(activation_scale).reshape(-1, 1)
    if bias is not None and bias.dtype != I32:
        values = values + wide(bias)
    gated = _gated(values, activate_left)
    return _rounded(gated, quant_scale, quant_offset, ends, quant_mode == 1, integers(dst_type))


@kernel("npu::npu_gelu_quant")
def npu_gelu_quant(
    self: Array,
    *,
    input_scale: Array | None = None,
    input_offset: Array | None = None,
    approximate: str = "none",
    quant_mode: str = "dynamic",
    dst_type: int | None = None,
    round_mode: str = "rint",
) -> tuple[Array, Array]:
    """GELU of self, rounded by rows ("dynamic") or by the given scale and offset ("static")."""
    if round_mode != "rint":
        raise NotImplementedError(f"npu_gelu_quant with round_mode={round_mode!r}")
    values = gelu(wide(self), approximate=approximate)
    return _rounded(values, input_scale, input_offset, None, quant_mode == "dynamic", integers(dst_type))


@kernel("npu::npu_quant_scatter")
def npu_quant_scatter(
    self: Array,
    indices: Array,
    updates: Array,
    quant_scales: Array,
    quant_zero_points: Array | None = None,
    axis: int = -2,
    quant_axis: int = -1,
    reduce: str = "update",
    dst_type: int | None = None,
    round_mode: str | None = "rint",
) -> Array:
    """self with each batch's updates, rounded to int8, from index indices[b] on along `axis`."""
    if self.dtype != I8 or reduce != "update" or quant_axis not in (-1, self.ndim - 1):
        raise NotImplementedError("npu_quant_scatter other than an update of int8 by scales of the last dimension")
    values = wide(updates) / wide(quant_scales).reshape(-1)
    if quant_zero_points is not None:
        values = values + quant_zero_points.astype(F32).reshape(-1)
    whole, result = integers(dst_type).of(values), self.copy()
    starts = indices if indices.ndim == 2 else np.stack((np.arange(len(indices)), indices), axis=1)
    for block, (batch, start) in zip(whole, starts, strict=True):
        place = [slice(None)] * self.ndim
        place[axis] = slice(start, start + updates.shape[axis])
        result[int(batch)][tuple(place[1:])] = block
    return result
