"""Layer, group and RMS normalisation, and their gradients.

Layer and RMS normalisation keep the statistics of halves in float32, as on the device; only the result is rounded to
the input's dtype.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from gpu2npu.emulator.kernels.promotion import Array, rounded, wide
from gpu2npu.emulator.kernels.reduce.reduce import parameter_sum
from gpu2npu.emulator.kernels.registry import kernel

Triple = tuple[Array, Array, Array]


def _rows(x: Array, dimensions: int) -> Array:
    """An array with its first dimensions as one, and its last `dimensions` as another."""
    lead = x.ndim - dimensions
    return x.reshape(prod(x.shape[:lead]), prod(x.shape[lead:]))


def _standardised(rows: Array, eps: float) -> tuple[Array, Array, Array]:
    """Rows less their mean and over their deviation; the mean and the inverse deviation of each row, (rows, 1)."""
    width = rows.dtype.type(max(rows.shape[1], 1))
    mean = np.add.reduce(rows, axis=1, keepdims=True) / width
    centred = np.subtract(rows, mean)
    variance = np.einsum("ij,ij->i", centred, centred)[:, None] / width
    rstd = 1 / np.sqrt(variance + rows.dtype.type(eps))
    centred *= rstd
    return centred, mean, rstd


@kernel("aten::native_layer_norm")
def layer_norm(
    input: Array,  # noqa: A002
    normalized_shape: Sequence[int],
    weight: Array | None,
    bias: Array | None,
    eps: float,
) -> Triple:
    """Normalise over the last dimensions.

    Returns:
        The result, and mean and inverse standard deviation of the rest of the shape, in float32 for halves.

    Raises:
        RuntimeError: The last dimensions are not `normalized_shape`, those of weight and bias, or there are none.
    """
    shape = tuple(normalized_shape)
    given = [each.shape for each in (weight, bias) if each is not None]
    if not shape or input.shape[-len(shape) :] != shape or any(each != shape for each in given):
        raise RuntimeError(
            f"Given normalized_shape={list(shape)}, expected input, weight and bias with these last dimensions, but "
            f"got input of size {list(input.shape)} and {[list(each) for each in given]}"
        )
    x = wide(input)
    y, mean, rstd = _standardised(_rows(x, len(shape)), eps)
    if weight is not None:
        y *= wide(weight).reshape(-1)
    if bias is not None:
        y += wide(bias).reshape(-1)
    saved = (*x.shape[: -len(shape)], *(1,) * len(shape))
    return rounded(y.reshape(x.shape), input.dtype), mean.reshape(saved), rstd.reshape(saved)


def _standardised_gradient(g: Array, standard: Array, rstd: Array) -> Array:
    """The gradient for rows that were standardised: g less its part along the mean and along the deviation."""
    width = g.dtype.type(max(g.shape[1], 1))
    along = np.einsum("ij,ij->i", g, standard)[:, None] / width
    grad = g - np.add.reduce(g, axis=1, keepdims=True) / width
    grad -= standard * along
    grad *= rstd
    return grad


@kernel("aten::native_layer_norm_backward")
def layer_norm_backward(
    grad_out: Array,
    input: Array,  # noqa: A002
    normalized_shape: Sequence[int],
    mean: Array,
    rstd: Array,
    weight: Array | None,
    bias: Array | None,
    output_mask: Sequence[bool],
) -> tuple[Array | None, Array | None, Array | None]:
    """Gradients for input, weight and bias, each where its mask is set."""
    g, x = (_rows(wide(each), len(normalized_shape)) for each in (grad_out, input))
    inverse = wide(rstd).reshape(-1, 1)
    standard = (x - wide(mean).reshape(-1, 1)) * inverse
    grad_input = grad_weight = grad_bias = None
    if output_mask[0]:
        scaled = g if weight is None else g * wide(weight).reshape(-1)
        grad_input = rounded(_standardised_gradient(scaled, standard, inverse).reshape(input.shape), input.dtype)
    if output_mask[1] and weight is not None:
        grad_weight = rounded(parameter_sum(g * standard, (0,)).reshape(weight.shape), weight.dtype)
    if output_mask[2] and bias is not None:
        grad_bias = rounded(parameter_sum(g, (0,)).reshape(bias.shape), bias.dtype)
    return grad_input, grad_weight, grad_bias


@kernel("aten::native_group_norm")
def group_norm(
    input: Array,  # noqa: A002
    weight: Array | None,
    bias: Array | None,
    N: int,  # noqa: N803
    C: int,  # noqa: N803
    HxW: int,  # noqa: N803
    group: int,
    eps: float,
) -> Triple:
    """Normalise (N, C, *) over each group of channels; mean and inverse deviation (N, group) have its dtype."""
    x = wide(input)
    y, mean, rstd = _standardised(x.reshape(N * group, C // group * HxW), eps)
    y = y.reshape(N, C, HxW)
    if weight is not None:
        y *= wide(weight)[:, None]
    if bias is not None:
        y += wide(bias)[:, None]
    saved = x.dtype if weight is not None and weight.dtype != input.dtype else input.dtype
    mean, rstd = (rounded(each.reshape(N, group), saved) for each in (mean, rstd))
    return rounded(y.reshape(x.shape), input.dtype), mean, rstd


@kernel("aten::native_group_norm_backward")
def group_norm_backward(
    grad_out: Array,
    input: Array,  # noqa: A002
    mean: Array,
    rstd: Array,
    weight: Array | None,
    N: int,  # noqa: N803
    C: int,  # noqa: N803
    HxW: int,  # noqa: N803
    group: int,
    output_mask: Sequence[bool],
) -> tuple[Array | None, Array | None, Array | None]:
    """Gradients for input, weight and bias, each where its mask is set."""
    g, x = wide(grad_out).reshape(N, C, HxW), wide(input)
    inverse = wide(rstd).reshape(N * group, 1)
    standard = (x.reshape(N * group, C // group * HxW) - wide(mean).reshape(N * group, 1)) * inverse
    grad_input = grad_weight = grad_bias = None
    dtype = input.dtype if weight is None else weight.dtype
    if output_mask[0]:
        scaled = g if weight is None else g * wide(weight)[:, None]
        rows = _standardised_gradient(scaled.reshape(standard.shape), standard, inverse)
        grad_input = rounded(rows.reshape(input.shape), input.dtype)
    if output_mask[1]:
        grad_weight = rounded(parameter_sum(g * standard.reshape(N, C, HxW), (0, 2)), dtype)
    if output_mask[2]:
        grad_bias = rounded(parameter_sum(g, (0, 2)), dtype)
    return grad_input, grad_weight, grad_bias


@kernel("aten::_fused_rms_norm")
def rms_norm(
    input: Array,  # noqa: A002
    normalized_shape: Sequence[int],
    weight: Array | None,
    eps: float | None,
) -> tuple[Array, Array]:
    """Divide by the root mean square over the last dimensions; also returns its inverse, in float32 for halves."""
    x = wide(input)
    rows = _rows(x, len(normalized_shape))
    width = rows.shape[1]
    floor = float(np.finfo(x.dtype).eps) if eps is None else eps
    rstd = 1 / np.sqrt(np.einsum("ij,ij->i", rows, rows)[:, None] / x.dtype.type(max(width, 1)) + x.dtype.type(floor))
    y = rows * rstd
    if weight is not None:
        y *= wide(weight).reshape(-1)
    saved = (*x.shape[: x.ndim - len(normalized_shape)], *(1,) * len(normalized_shape))
    return rounded(y.reshape(x.shape), input.dtype), rstd.reshape(saved)


@kernel("aten::_fused_rms_norm_backward")
def rms_norm_backward(
    grad_out: Array,
    input: Array,  # noqa: A002
    normalized_shape: Sequence[int],
    rstd: Array,
    weight: Array | None,
    output_mask: Sequence[bool],
) -> tuple[Array | None, Array | None]:
    """Gradients for input and weight, each where its mask is set."""
    width = prod(normalized_shape)
    g, x = (_rows(wide(each), len(normalized_shape)) for each in (grad_out, input))
    inverse = wide(rstd).reshape(-1, 1)
    standard = x * inverse
    grad_input = grad_weight = None
    if output_mask[0]:
        scaled = g if weight is None else g * wide(weight).reshape(-1)
        along = np.einsum("ij,ij->i", scaled, standard)[:, None] / x.dtype.type(max(width, 1))
        grad_input = rounded(((scaled - standard * along) * inverse).reshape(input.shape), input.dtype)
    if output_mask[1] and weight is not None:
        grad_weight = rounded(parameter_sum(g * standard, (0,)).reshape(weight.shape), weight.dtype)
    return grad_input, grad_weight
