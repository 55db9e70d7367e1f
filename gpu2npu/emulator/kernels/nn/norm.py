"""Layer, group and RMS normalisation, and their gradients.

Layer and RMS normalisation keep the statistics of halves in float32, as on the device; only the result is rounded to
the input's dtype.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from gpu2npu.emulator.kernels import parallel
from gpu2npu.emulator.kernels.promotion import F32, Array, rounded, wide
from gpu2npu.emulator.kernels.reduce.reduce import parameter_sum
from gpu2npu.emulator.kernels.registry import kernel

Triple = tuple[Array, Array, Array]

_SHORT = 16  # values: shorter rows are slower in C++ than all rows at once in NumPy


def _rows(x: Array, dimensions: int) -> Array:
    """An array with its first dimensions as one, and its last `dimensions` as another."""
    lead = x.ndim - dimensions
    return x.reshape(prod(x.shape[:lead]), prod(x.shape[lead:]))


@dataclass(frozen=True)
class Rows:
    """The parts of an array of (samples, channels, places) that have one mean each, where norms.h computes them."""

    count: int
    channels: int
    geometry: tuple[int, ...]

    @classmethod
    def of_groups(cls, x: Array, shape: tuple[int, int, int], groups: int) -> Rows | None:
        """Each group of channels of a sample; None where NumPy computes."""
        samples, channels, places = shape
        each = channels // max(groups, 1)
        if places == 1:  # each value has a weight of its own
            return cls._found(x, samples * groups, channels, (1, each, each, 0, groups, each, 0, 1))
        return cls._found(x, samples * groups, channels, (each, places, each * places, places, groups, each, 1, 0))

    @classmethod
    def of_channels(cls, x: Array) -> Rows | None:
        """Each channel of all samples; None where NumPy computes."""
        samples, channels, places = x.shape[0], x.shape[1], prod(x.shape[2:])
        return cls._found(x, channels, channels, (samples, places, places, channels * places, channels, 1, 0, 0))

    @classmethod
    def _found(cls, x: Array, count: int, channels: int, geometry: tuple[int, ...]) -> Rows | None:
        is_fit = parallel.native is not None and x.dtype == F32 and x.size > 0 and geometry[1] >= _SHORT
        return cls(count, channels, geometry) if is_fit else None

    def normalised(self, x: Array, weight: Array | None, bias: Array | None, eps: float) -> Triple:
        """The result, means and variances."""
        given = np.ascontiguousarray(x), self._parameter(weight, 1), self._parameter(bias, 0)
        found = np.empty(x.shape, F32), np.empty(self.count, F32), np.empty(self.count, F32)

        def compute(part: slice) -> None:
            parallel.native.normalised(*given, *found, eps, self.geometry, part.start, part.stop)

        parallel.run(compute, parallel.blocks(self.count, x.size))
        return found

    def gradients(
        self, g: Array, x: Array, mean: Array, rstd: Array, weight: Array | None, is_for_x: bool
    ) -> tuple[Array, Array, Array]:
        """The gradient for x (empty unless `is_for_x`), and in float64 those of weight and bias."""
        given = [np.ascontiguousarray(each, F32) for each in (g, x, mean, rstd)]
        result = np.empty(x.shape if is_for_x else 0, F32)

        def compute(part: slice) -> Array:
            sums = np.zeros((2, self.channels), np.float64)
            every = *given, self._parameter(weight, 1), result, sums
            parallel.native.norm_gradient(*every, self.geometry, part.start, part.stop)
            return sums

        of_weight, of_bias = np.add.reduce(parallel.run(compute, parallel.blocks(self.count, x.size)))
        return result, of_weight, of_bias

    def _parameter(self, given: Array | None, otherwise: float) -> Array:
        given = np.full(self.channels, otherwise, F32) if given is None else given
        return np.ascontiguousarray(given, F32).reshape(self.channels)


def _normalised(
    x: Array, shape: tuple[int, int, int], groups: int, weight: Array | None, bias: Array | None, eps: float
) -> Triple:
    """Normalise (samples, channels, places) over each group of channels, some samples at a time.

    Returns:
        The result, mean and inverse deviation as (samples, groups, channels of a group x places or 1).
    """
    samples, channels, places = shape
    rows_in_cpp = Rows.of_groups(x, shape, groups)
    if rows_in_cpp is not None:
        y, mean, variance = rows_in_cpp.normalised(x, weight, bias, eps)
        rstd = 1 / np.sqrt(variance + F32.type(eps))
        return y, mean.reshape(samples, groups, 1), rstd.reshape(samples, groups, 1)
    rows = x.reshape(samples, groups, channels // max(groups, 1) * places)
    width = rows.dtype.type(max(rows.shape[2], 1))
    y, mean, rstd = (np.empty((samples, groups, each), x.dtype) for each in (rows.shape[2], 1, 1))

    def compute(part: slice) -> None:
        np.divide(np.add.reduce(rows[part], axis=2, keepdims=True), width, out=mean[part])
        result = np.subtract(rows[part], mean[part], out=y[part])
        variance = np.einsum("ijk,ijk->ij", result, result)[..., None] / width
        rstd[part] = 1 / np.sqrt(variance + x.dtype.type(eps))
        result *= rstd[part]
        by_channel = result.reshape(len(result), channels, places)
        if weight is not None:
            by_channel *= wide(weight).reshape(channels, 1)
        if bias is not None:
            by_channel += wide(bias).reshape(channels, 1)

    parallel.run(compute, parallel.blocks(samples, x.size))
    return y, mean, rstd


def _gradients(
    g: Array,
    x: Array,
    mean: Array,
    rstd: Array,
    weight: Array | None,
    shape: tuple[int, int, int],
    groups: int,
    output_mask: Sequence[bool],
) -> Triple:
    """The gradients of `_normalised` for x, weight and bias (zeros without a mask); those of channels in float64."""
    samples, channels, places = shape
    rows_in_cpp = Rows.of_groups(wide(x), shape, groups)
    if rows_in_cpp is not None:
        return rows_in_cpp.gradients(wide(g), wide(x), mean, rstd, weight, output_mask[0])
    g, rows = wide(g).reshape(shape), wide(x).reshape(samples, groups, channels // max(groups, 1) * places)
    mean, rstd = (wide(each).reshape(samples, groups, 1) for each in (mean, rstd))
    width = rows.dtype.type(max(rows.shape[2], 1))
    factor = None if weight is None else wide(weight).reshape(channels, 1)
    grad_input, sums = np.empty(rows.shape, rows.dtype), np.zeros((2, channels), np.float64)

    def summed(values: Array) -> Array:
        along_places = values[..., 0] if places == 1 else np.add.reduce(values, axis=2)
        return np.add.reduce(along_places, axis=0)

    def compute(part: slice) -> tuple[Array | float, Array | float]:
        standard = np.subtract(rows[part], mean[part])
        standard *= rstd[part]
        given = g[part]
        by_channel = summed(given * standard.reshape(given.shape)) if output_mask[1] else 0.0
        if output_mask[0]:
            scaled = (given if factor is None else given * factor).reshape(standard.shape)
            along = np.einsum("ijk,ijk->ij", scaled, standard)[..., None] / width
            centred = np.subtract(scaled, np.add.reduce(scaled, axis=2, keepdims=True) / width, out=grad_input[part])
            standard *= along
            centred -= standard
            centred *= rstd[part]
        return by_channel, summed(given) if output_mask[2] else 0.0

    for part in parallel.run(compute, parallel.blocks(samples, rows.size)):
        for total, values in zip(sums, part, strict=True):
            total += values
    return grad_input, sums[0], sums[1]


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
    lead = x.shape[: x.ndim - len(shape)]
    y, mean, rstd = _normalised(x, (prod(lead), prod(shape), 1), 1, weight, bias, eps)
    saved = (*lead, *(1,) * len(shape))
    return rounded(y.reshape(x.shape), input.dtype), mean.reshape(saved), rstd.reshape(saved)


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
    shape = prod(input.shape[: input.ndim - len(normalized_shape)]), prod(normalized_shape), 1
    found = _gradients(grad_out, input, mean, rstd, weight, shape, 1, output_mask)
    return (
        rounded(found[0].reshape(input.shape), input.dtype) if output_mask[0] else None,
        rounded(found[1].reshape(weight.shape), weight.dtype) if output_mask[1] and weight is not None else None,
        rounded(found[2].reshape(bias.shape), bias.dtype) if output_mask[2] and bias is not None else None,
    )


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
    y, mean, rstd = _normalised(x, (N, C, HxW), group, weight, bias, eps)
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
    dtype = input.dtype if weight is None else weight.dtype
    found = _gradients(grad_out, input, mean, rstd, weight, (N, C, HxW), group, output_mask)
    return (
        rounded(found[0].reshape(input.shape), input.dtype) if output_mask[0] else None,
        rounded(found[1], dtype) if output_mask[1] else None,
        rounded(found[2], dtype) if output_mask[2] else None,
    )


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
