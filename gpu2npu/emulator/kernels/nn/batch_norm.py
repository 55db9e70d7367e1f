"""Batch normalisation and its gradient.

Statistics are accumulated pairwise along a plane, in float64 beyond, and kept in float32 (float64 for float64), as on
the device; only the result is rounded to the input's dtype.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from gpu2npu.emulator.kernels import parallel
from gpu2npu.emulator.kernels.nn.norm import Rows
from gpu2npu.emulator.kernels.promotion import F64, Array, rounded, wide
from gpu2npu.emulator.kernels.registry import kernel

Triple = tuple[Array, Array, Array]

_SMALL_PLANE = 64  # elements


def per_channel(values: Array, ndim: int) -> Array:
    return values.reshape(1, -1, *(1,) * (ndim - 2))


def _spread(values: Array, x: Array) -> Array:
    """Values of channels for arithmetic with x: repeated over planes that are too small to be a loop of their own."""
    places = prod(x.shape[2:])
    if places > _SMALL_PLANE:
        return per_channel(values, x.ndim)
    return np.repeat(values, places).reshape(1, *x.shape[1:])


def channel_axes(x: Array) -> tuple[int, ...]:
    return (0, *range(2, x.ndim))


def _samples(x: Array) -> list[slice]:
    return parallel.blocks(len(x), x.size)


def _channel_sum(x: Array, term: Callable[[slice], Array]) -> Array:
    """The sum of each channel, in float64, of an array like `x` that `term` gives some samples of at a time."""

    def compute(part: slice) -> Array:
        rows = term(part).reshape(part.stop - part.start, x.shape[1], prod(x.shape[2:]))
        if rows.shape[2] > _SMALL_PLANE:
            return np.add.reduce(np.add.reduce(rows, axis=2), axis=0, dtype=F64)  # pairwise along a plane
        return np.add.reduce(rows, axis=0, dtype=F64).sum(1)

    return functools.reduce(np.add, parallel.run(compute, _samples(x)), np.zeros(x.shape[1], F64))


def batch_statistics(x: Array) -> tuple[Array, Array]:
    """Mean and biased variance of each channel."""
    count = x.size / x.shape[1] if x.size else np.float64(0)
    mean = _channel_sum(x, lambda part: x[part]) / count
    centre = _spread(mean.astype(x.dtype), x)

    def squares(part: slice) -> Array:
        deviation = np.subtract(x[part], centre)
        return np.multiply(deviation, deviation, out=deviation)

    return mean.astype(x.dtype), (_channel_sum(x, squares) / count).astype(x.dtype)


def affine(x: Array, mean: Array, invstd: Array, weight: Array | None, bias: Array | None) -> Array:
    scale = invstd if weight is None else invstd * wide(weight)
    shift = -mean * scale if bias is None else wide(bias) - mean * scale
    factor, offset = _spread(scale, x), _spread(shift, x)
    y = np.empty(x.shape, np.result_type(x, scale))

    def compute(part: slice) -> None:
        np.multiply(x[part], factor, out=y[part])
        y[part] += offset

    parallel.run(compute, _samples(x))
    return y


def _batch_norm(
    input: Array,  # noqa: A002
    weight: Array | None,
    bias: Array | None,
    running: tuple[Array, Array] | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Array, Array, Array, tuple[Array, Array] | None]:
    """The result, the saved mean and inverse deviation (empty in evaluation), the new running statistics."""
    x = wide(input)
    if not training:
        assert running is not None
        mean, variance = wide(running[0]), wide(running[1])
        y = affine(x, mean, 1 / np.sqrt(variance + x.dtype.type(eps)), weight, bias)
        empty = np.empty(0, mean.dtype)
        return rounded(y, input.dtype), empty, empty.copy(), running
    count = x.size // max(x.shape[1], 1)
    rows = Rows.of_channels(x)
    if rows is None:
        mean, variance = batch_statistics(x)
        invstd = 1 / np.sqrt(variance + x.dtype.type(eps))
        y = affine(x, mean, invstd, weight, bias)
    else:
        y, mean, variance = rows.normalised(x, weight, bias, eps)
        invstd = 1 / np.sqrt(variance + x.dtype.type(eps))
    if running is not None:
        unbiased = variance * x.dtype.type(count / max(count - 1, 1))
        running = _moved(running[0], mean, momentum), _moved(running[1], unbiased, momentum)
    return rounded(y, input.dtype), mean, invstd, running


def _moved(running: Array, batch: Array, momentum: float) -> Array:
    """A running statistic, moved towards that of a batch."""
    return (wide(running) * (1 - momentum) + batch * momentum).astype(running.dtype)


def _pair(mean: Array | None, variance: Array | None) -> tuple[Array, Array] | None:
    return None if mean is None or variance is None else (mean, variance)


@kernel("aten::native_batch_norm", "aten::_native_batch_norm_legit")
def batch_norm(
    input: Array,  # noqa: A002
    weight: Array | None,
    bias: Array | None,
    running_mean: Array | None,
    running_var: Array | None,
    training: bool,
    momentum: float,
    eps: float,
) -> Triple:
    """Normalise (N, C, *) by channel; in training by the batch, and the running statistics are updated in place.

    Returns:
        The result, the batch mean and its inverse standard deviation (both empty in evaluation).
    """
    y, mean, invstd, running = _batch_norm(
        input, weight, bias, _pair(running_mean, running_var), training, momentum, eps
    )
    if training and running is not None and running_mean is not None and running_var is not None:
        running_mean[...], running_var[...] = running
    return y, mean, invstd


@kernel("aten::_batch_norm_no_update")
def batch_norm_no_update(
    input: Array,  # noqa: A002
    weight: Array | None,
    bias: Array | None,
    running_mean: Array | None,
    running_var: Array | None,
    momentum: float,
    eps: float,
) -> tuple[Array, Array, Array, Array]:
    """Batch normalisation in evaluation, with an empty reserve."""
    running = _pair(running_mean, running_var)
    return (*_batch_norm(input, weight, bias, running, False, momentum, eps)[:3], np.empty(0, np.uint8))


@kernel("aten::native_batch_norm_backward")
def batch_norm_backward(
    grad_out: Array,
    input: Array,  # noqa: A002
    weight: Array | None,
    running_mean: Array | None,
    running_var: Array | None,
    save_mean: Array | None,
    save_invstd: Array | None,
    train: bool,
    eps: float,
    output_mask: Sequence[bool],
) -> tuple[Array | None, Array | None, Array | None]:
    """Gradients for input, weight and bias, each where its mask is set."""
    g, x = wide(grad_out), wide(input)
    kind = x.dtype.type
    if train:
        assert save_mean is not None and save_invstd is not None
        mean, invstd = wide(save_mean), wide(save_invstd)
    else:
        assert running_mean is not None and running_var is not None
        mean, invstd = wide(running_mean), 1 / np.sqrt(wide(running_var) + kind(eps))
    dtype = input.dtype if weight is None else weight.dtype
    rows = Rows.of_channels(x) if train else None
    if rows is not None:
        grad_input, grad_weight, grad_bias = rows.gradients(g, x, mean, invstd, weight, output_mask[0])
    else:
        grad_input, grad_weight, grad_bias = _gradients(g, x, mean, invstd, weight, train, output_mask[0])
    return (
        rounded(grad_input, input.dtype) if output_mask[0] else None,
        rounded(grad_weight.astype(x.dtype), dtype) if output_mask[1] else None,
        rounded(grad_bias.astype(x.dtype), dtype) if output_mask[2] else None,
    )


def _gradients(
    g: Array, x: Array, mean: Array, invstd: Array, weight: Array | None, train: bool, is_for_x: bool
) -> Triple:
    """The gradients for x (empty unless `is_for_x`), weight and bias."""
    kind = x.dtype.type
    grad_bias = _channel_sum(g, lambda part: g[part]).astype(x.dtype)
    centre = _spread(mean, x)
    grad_weight = _channel_sum(x, lambda part: g[part] * np.subtract(x[part], centre)).astype(x.dtype) * invstd
    gradient = np.empty(x.shape if is_for_x else 0, x.dtype)
    if is_for_x:
        scale = _spread(invstd if weight is None else invstd * wide(weight), x)
        count = kind(x.size // max(x.shape[1], 1))
        slope, offset = _spread(grad_weight * invstd / count, x), _spread(grad_bias / count, x)

        def compute(part: slice) -> None:
            if not train:
                np.multiply(g[part], scale, out=gradient[part])
                return
            centred = np.subtract(x[part], centre)
            centred *= slope
            centred += offset
            np.subtract(g[part], centred, out=gradient[part])
            gradient[part] *= scale

        parallel.run(compute, _samples(x))
    return gradient, grad_weight, grad_bias
