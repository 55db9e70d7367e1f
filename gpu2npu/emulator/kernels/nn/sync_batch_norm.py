"""The parts of batch normalisation over several devices, as `torch.nn.SyncBatchNorm` puts them together.

Each device takes statistics of its share of the batch; all gather them, and each normalises its share by those of the
whole. Backward is the same with two sums. Inputs are (N, C, *), statistics (C,) in float32 (float64 for float64).
"""

from __future__ import annotations

import numpy as np

from gpu2npu.emulator.kernels.nn.batch_norm import affine, batch_statistics, channel_axes, per_channel
from gpu2npu.emulator.kernels.promotion import F64, Array, rounded, wide
from gpu2npu.emulator.kernels.reduce.reduce import parameter_sum
from gpu2npu.emulator.kernels.registry import kernel


@kernel("aten::batch_norm_stats")
def stats(input: Array, eps: float) -> tuple[Array, Array]:  # noqa: A002
    """Mean and inverse standard deviation of each channel."""
    x = wide(input)
    mean, variance = batch_statistics(x)
    return mean, 1 / np.sqrt(variance + x.dtype.type(eps))


@kernel("aten::batch_norm_gather_stats_with_counts")
def gather_stats_with_counts(
    input: Array,  # noqa: A002
    mean: Array,
    invstd: Array,
    running_mean: Array | None,
    running_var: Array | None,
    momentum: float,
    eps: float,
    counts: Array,
) -> tuple[Array, Array]:
    """Mean and inverse deviation of the whole batch from those of D devices; running statistics change in place.

    Args:
        input: Only its dtype matters.
        mean: Of each device, (D, C).
        invstd: Of each device, (D, C).
        running_mean: (C,) or None.
        running_var: (C,) or None.
        momentum: The share of this batch in the running statistics.
        eps: What was added to the variances.
        counts: How many values a channel each device has, (D,).
    """
    share = counts.astype(F64)[:, None]
    total = share.sum()
    means = mean.astype(F64)
    variances = 1 / np.square(invstd.astype(F64)) - eps
    centre = (means * share).sum(axis=0) / total
    variance = ((variances + np.square(means - centre)) * share).sum(axis=0) / total
    if running_mean is not None:
        running_mean[...] = wide(running_mean) * (1 - momentum) + centre * momentum
    if running_var is not None:
        running_var[...] = wide(running_var) * (1 - momentum) + variance * (total / max(total - 1, 1)) * momentum
    return centre.astype(mean.dtype), (1 / np.sqrt(variance + eps)).astype(invstd.dtype)


@kernel("aten::batch_norm_elemt")
def elemt(
    input: Array,  # noqa: A002
    weight: Array | None,
    bias: Array | None,
    mean: Array,
    invstd: Array,
    eps: float,
) -> Array:
    """The input normalised by given statistics, scaled and shifted."""
    return rounded(affine(wide(input), wide(mean), wide(invstd), weight, bias), input.dtype)


@kernel("aten::batch_norm_backward_reduce")
def backward_reduce(
    grad_out: Array,
    input: Array,  # noqa: A002
    mean: Array,
    invstd: Array,
    weight: Array | None,
    input_g: bool,
    weight_g: bool,
    bias_g: bool,
) -> tuple[Array | None, Array | None, Array | None, Array | None]:
    """This device's sums of the gradient and of it times the centred input; its gradients for weight and bias."""
    g, x = wide(grad_out), wide(input)
    axis = channel_axes(x)
    sum_dy = parameter_sum(g, axis)
    sum_dy_xmu = parameter_sum(g * (x - per_channel(wide(mean), x.ndim)), axis)
    dtype = input.dtype if weight is None else weight.dtype
    return (
        sum_dy if input_g else None,
        sum_dy_xmu if input_g else None,
        rounded(sum_dy_xmu * wide(invstd), dtype) if weight_g else None,
        rounded(sum_dy.copy(), dtype) if bias_g else None,
    )


@kernel("aten::batch_norm_backward_elemt")
def backward_elemt(
    grad_out: Array,
    input: Array,  # noqa: A002
    mean: Array,
    invstd: Array,
    weight: Array | None,
    sum_dy: Array,
    sum_dy_xmu: Array,
    count: Array,
) -> Array:
    """The gradient for this device's input, from the sums over all devices and how many values each has."""
    g, x = wide(grad_out), wide(input)
    total = x.dtype.type(count.sum())
    deviation = wide(invstd)
    centred = x - per_channel(wide(mean), x.ndim)
    centred *= per_channel(wide(sum_dy_xmu) * deviation * deviation / total, x.ndim)
    centred += per_channel(wide(sum_dy) / total, x.ndim)
    scale = deviation if weight is None else deviation * wide(weight)
    return rounded((g - centred) * per_channel(scale, x.ndim), input.dtype)
