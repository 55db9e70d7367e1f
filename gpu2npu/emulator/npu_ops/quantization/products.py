"""Products of quantized matrices: both of integers, or one of floats with one of integers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from gpu2npu.emulator.kernels.nn.conv import convolution
from gpu2npu.emulator.kernels.promotion import F16, F32, I8, I32, Array, rounded, wide
from gpu2npu.emulator.kernels.registry import kernel
from gpu2npu.emulator.npu_ops.quantization.numbers import INT8, float_dtype, scale_and_offset, unpacked
from gpu2npu.emulator.npu_ops.quantization.rounding import by_rows, dequantized

_WHOLE = (1, 12, torch.int8, torch.qint8, None)  # dtypes of a result in int8
_SUMS = (3, torch.int32)


def _weight(weight: Array, inner: int) -> Array:
    """(*, inner, n) numbers of a weight, which is packed by eight along n, or along inner as a transposed view."""
    if weight.dtype != I32:
        return weight
    return unpacked(weight, -1 if weight.shape[-2] == inner else -2)


def _result(values: Array, dtype: int | None) -> Array:
    return INT8.of(values) if dtype in _WHOLE else rounded(values, float_dtype(dtype, F16))


def _refuse(name: str, **given: Any) -> None:
    for argument, value in given.items():
        if value is not None:
            raise NotImplementedError(f"{name} with {argument}")


@kernel("npu::npu_quant_matmul")
def npu_quant_matmul(
    x1: Array,
    x2: Array,
    scale: Array,
    *,
    offset: Array | None = None,
    pertoken_scale: Array | None = None,
    bias: Array | None = None,
    output_dtype: int | None = None,
    x1_dtype: int | None = None,
    x2_dtype: int | None = None,
    pertoken_scale_dtype: int | None = None,
    scale_dtype: int | None = None,
    group_sizes: Sequence[int] | None = None,
    y_scale: Array | None = None,
) -> Array:
    """(x1 @ x2 + bias) * scale * pertoken_scale + offset of int8 or packed int4, in int8 unless `output_dtype` says.

    x1 is (*, m, k), x2 (*, k, n), scale and offset (n,) or (1,), pertoken_scale (m,). A scale in int64 comes from
    `npu_trans_quant_param`; a bias of floats is added last.
    """
    _refuse("npu_quant_matmul", x1_dtype=x1_dtype, x2_dtype=x2_dtype, group_sizes=group_sizes, y_scale=y_scale)
    if x1.dtype == I32:
        x1 = unpacked(x1)
    if x1.dtype != I8:
        raise NotImplementedError(f"npu_quant_matmul of {x1.dtype}")
    sums = np.matmul(x1.astype(np.float64), _weight(x2, x1.shape[-1]).astype(np.float64))
    factor, shift = scale_and_offset(scale, offset)
    if output_dtype in _SUMS:
        return sums.astype(I32) if bias is None else (sums + bias).astype(I32)
    values = dequantized(sums, factor, pertoken_scale, bias, shift if output_dtype in _WHOLE else None)
    return _result(values, output_dtype)


@kernel("npu::npu_quant_matmul_dequant")
def npu_quant_matmul_dequant(
    x: Array,
    quantized_weight: Array,
    weight_scale: Array,
    *,
    bias: Array | None = None,
    x_scale: Array | None = None,
    x_offset: Array | None = None,
    smooth_scale: Array | None = None,
    quant_mode: str | None = "pertoken",
) -> Array:
    """x (M, K), quantized by row or by `x_scale`, times an int8 weight (N, K) with scales (N,); in x's dtype."""
    _refuse("npu_quant_matmul_dequant", bias=bias, x_offset=x_offset)
    values = wide(x) if smooth_scale is None else wide(x) * wide(smooth_scale)
    if x_scale is None:
        whole, scale = by_rows(values, INT8)
    else:
        scale = np.broadcast_to(wide(x_scale).reshape(-1), (len(x),))
        whole = INT8.of(values / scale[:, None])
    sums = np.matmul(whole.astype(np.float64), quantized_weight.T.astype(np.float64))
    return rounded(dequantized(sums, scale_and_offset(weight_scale)[0], scale, None), x.dtype)


@kernel("npu::npu_weight_quant_batchmatmul")
def npu_weight_quant_batchmatmul(
    x: Array,
    weight: Array,
    antiquant_scale: Array,
    antiquant_offset: Array | None = None,
    quant_scale: Array | None = None,
    quant_offset: Array | None = None,
    bias: Array | None = None,
    antiquant_group_size: int = 0,
    inner_precise: int = 0,
    weight_dtype: int | None = None,
) -> Array:
    """x (M, K) @ (weight + antiquant_offset) * antiquant_scale + bias, of an int8 or packed int4 weight (K, N).

    Scales are (1,), (N,) or (1, N), or (K / group size, N) where each group of rows of the weight has its own. With a
    `quant_scale` the result is rounded to int8, otherwise it has x's dtype.
    """
    _refuse("npu_weight_quant_batchmatmul", weight_dtype=weight_dtype)
    inner = x.shape[-1]
    values = _weight(weight, inner).astype(F32)
    if antiquant_offset is not None:
        values = values + _by_group(antiquant_offset, inner, antiquant_group_size)
    values = values * _by_group(antiquant_scale, inner, antiquant_group_size)
    result = np.matmul(wide(x), wide(rounded(values, x.dtype)))
    if bias is not None:
        result = result + wide(bias)
    if quant_scale is None:
        return rounded(result, x.dtype)
    scale, offset = scale_and_offset(quant_scale, quant_offset)
    return INT8.of(result * scale if offset is None else result * scale + offset)


def _by_group(values: Array, inner: int, size: int) -> Array:
    found = wide(values) if values.dtype.kind != "i" else scale_and_offset(values)[0]
    if not size or found.ndim < 2:
        return found
    return np.repeat(found, size, axis=0)[:inner]


@kernel("npu::npu_quant_conv2d")
def npu_quant_conv2d(
    input: Array,  # noqa: A002
    weight: Array,
    scale: Array,
    strides: Sequence[int] = (1, 1),
    pads: Sequence[int] = (0, 0),
    dilations: Sequence[int] = (1, 1),
    groups: int = 1,
    offset_x: int = 0,
    round_mode: str = "rint",
    output_dtype: int | None = None,
    bias: Array | None = None,
    offset: Array | None = None,
    input_dtype: int | None = None,
    weight_dtype: int | None = None,
) -> Array:
    """The convolution of int8 (N, C, H, W) times scale (channels,), in float16 unless `output_dtype` says."""
    _refuse("npu_quant_conv2d", offset=offset, input_dtype=input_dtype, weight_dtype=weight_dtype)
    if offset_x:
        raise NotImplementedError("npu_quant_conv2d with an offset_x")
    sums = convolution(
        input.astype(np.float64), weight.astype(np.float64), None, strides, pads, dilations, False, (0, 0), groups
    )
    channels = (1, -1, 1, 1)
    shaped = None if bias is None else bias.reshape(channels)
    values = dequantized(sums, scale_and_offset(scale)[0].reshape(channels), None, shaped)
    return rounded(values, float_dtype(output_dtype, F16))
