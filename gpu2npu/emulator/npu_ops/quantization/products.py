"""Products of quantized matrices: both of integers, or one of floats with one of integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from gpu2npu.emulator.kernels.nn.conv import convolution
from gpu2npu.emulator.kernels.promotion import F16, F32, I8, I32, Array, rounded, wide
from gpu2npu.emulator.kernels.registry import kernel
from gpu2npu.emulator.npu_ops.arguments import Arguments, by_schema
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


@by_schema(kernel, "npu::npu_quant_matmul")
def npu_quant_matmul(a: Arguments) -> Array:
    """(x1 @ x2 + bias) * scale * pertoken_scale + offset of int8 or packed int4, in int8 unless `output_dtype` says.

    x1 is (*, m, k), x2 (*, k, n), scale and offset (n,) or (1,), pertoken_scale (m,). A scale in int64 comes from
    `npu_trans_quant_param`; a bias of floats is added last.
    """
    x1 = a.x1
    _refuse("npu_quant_matmul", x1_dtype=a.x1_dtype, x2_dtype=a.x2_dtype, group_sizes=a.group_sizes, y_scale=a.y_scale)
    if x1.dtype == I32:
        x1 = unpacked(x1)
    if x1.dtype != I8:
        raise NotImplementedError(f"npu_quant_matmul of {x1.dtype}")
    sums = np.matmul(x1.astype(np.float64), _weight(a.x2, x1.shape[-1]).astype(np.float64))
    factor, shift = scale_and_offset(a.scale, a.offset)
    if a.output_dtype in _SUMS:
        return sums.astype(I32) if a.bias is None else (sums + a.bias).astype(I32)
    values = dequantized(sums, factor, a.pertoken_scale, a.bias, shift if a.output_dtype in _WHOLE else None)
    return _result(values, a.output_dtype)


@by_schema(kernel, "npu::npu_quant_matmul_dequant")
def npu_quant_matmul_dequant(a: Arguments) -> Array:
    """x (M, K), quantized by row or by `x_scale`, times an int8 weight (N, K) with scales (N,); in x's dtype."""
    _refuse("npu_quant_matmul_dequant", bias=a.bias, x_offset=a.x_offset)
    values = wide(a.x) if a.smooth_scale is None else wide(a.x) * wide(a.smooth_scale)
    if a.x_scale is None:
        whole, scale = by_rows(values, INT8)
    else:
        scale = np.broadcast_to(wide(a.x_scale).reshape(-1), (len(a.x),))
        whole = INT8.of(values / scale[:, None])
    sums = np.matmul(whole.astype(np.float64), a.quantized_weight.T.astype(np.float64))
    return rounded(dequantized(sums, scale_and_offset(a.weight_scale)[0], scale, None), a.x.dtype)


@by_schema(kernel, "npu::npu_weight_quant_batchmatmul")
def npu_weight_quant_batchmatmul(a: Arguments) -> Array:
    """x (M, K) @ (weight + antiquant_offset) * antiquant_scale + bias, of an int8 or packed int4 weight (K, N).

    Scales are (1,), (N,) or (1, N), or (K / group size, N) where each group of rows of the weight has its own. With a
    `quant_scale` the result is rounded to int8, otherwise it has x's dtype.
    """
    _refuse("npu_weight_quant_batchmatmul", weight_dtype=a.weight_dtype)
    inner = a.x.shape[-1]
    values = _weight(a.weight, inner).astype(F32)
    if a.antiquant_offset is not None:
        values = values + _by_group(a.antiquant_offset, inner, a.antiquant_group_size)
    values = values * _by_group(a.antiquant_scale, inner, a.antiquant_group_size)
    result = np.matmul(wide(a.x), wide(rounded(values, a.x.dtype)))
    if a.bias is not None:
        result = result + wide(a.bias)
    if a.quant_scale is None:
        return rounded(result, a.x.dtype)
    scale, offset = scale_and_offset(a.quant_scale, a.quant_offset)
    return INT8.of(result * scale if offset is None else result * scale + offset)


def _by_group(values: Array, inner: int, size: int) -> Array:
    found = wide(values) if values.dtype.kind != "i" else scale_and_offset(values)[0]
    if not size or found.ndim < 2:
        return found
    return np.repeat(found, size, axis=0)[:inner]


@by_schema(kernel, "npu::npu_quant_conv2d")
def npu_quant_conv2d(a: Arguments) -> Array:
    """The convolution of int8 (N, C, H, W) times scale (channels,), in float16 unless `output_dtype` says."""
    _refuse("npu_quant_conv2d", offset=a.offset, input_dtype=a.input_dtype, weight_dtype=a.weight_dtype)
    if a.offset_x:
        raise NotImplementedError("npu_quant_conv2d with an offset_x")
    sums = convolution(
        a.input.astype(np.float64),
        a.weight.astype(np.float64),
        None,
        a.strides,
        a.pads,
        a.dilations,
        False,
        (0, 0),
        a.groups,
    )
    channels = (1, -1, 1, 1)
    shaped = None if a.bias is None else a.bias.reshape(channels)
    values = dequantized(sums, scale_and_offset(a.scale)[0].reshape(channels), None, shaped)
    return rounded(values, float_dtype(a.output_dtype, F16))
