"""Convolutions of any number of dimensions, as one matrix product over unfolded windows (im2col).

Arrays are (N, C, *spatial); weights (out, in / groups, *kernel), or (in, out / groups, *kernel) where transposed.
float16 and bfloat16 are accumulated in float32 and rounded once.

A transposed convolution is the gradient of a convolution with respect to its input, so three primitives cover all
six directions. Where windows have few places, a product for each sample would read the weights again for a few columns:
samples then become the last dimension, (1, C, *spatial, N), so that one product covers many and copies run along them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from gpu2npu.emulator.kernels import parallel
from gpu2npu.emulator.kernels.nn.windows import (
    IMAGES,
    copied,
    counts,
    folded,
    is_pointwise,
    padded,
    per_dimension,
    unfolded,
    windows,
)
from gpu2npu.emulator.kernels.promotion import F64, Array, rounded, wide
from gpu2npu.emulator.kernels.registry import kernel

Sizes = Sequence[int]

_COLUMNS = 1 << 18  # elements of unfolded windows at a time: 1 MiB of float32
_COLUMNS_LAST = 1 << 19  # the same where samples are last
_FEW_CHANNELS, _LANES = 8, 32  # of a result for the library in C++, which computes so many at once
_FEW_PLACES, _MANY = 64, 4  # of windows, and samples of a block, for samples to be last


def _forward(x: Array, w: Array, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int) -> Array:
    window = w.shape[2:]
    out = counts(x.shape[2:], window, stride, padding, dilation)
    flat = w.reshape(groups, w.shape[0] // groups, -1)
    y = np.empty((x.shape[0], w.shape[0], *out), x.dtype)
    if _filled_directly("result", (x, w, y), (stride, padding, dilation), groups):
        return y
    per_group = y.reshape(x.shape[0], groups, w.shape[0] // groups, prod(out))

    def compute(part: slice) -> None:
        columns = unfolded(x[part], groups, window, stride, padding, dilation, out)
        np.matmul(flat, columns, out=per_group[part])

    def compute_last(part: slice) -> None:
        columns = unfolded(_samples_last(x[part]), groups, window, stride, padding, dilation, out)
        y[part] = _samples_first(np.matmul(flat, columns[0]), y[part].shape)

    parts = _samples(x.shape[0], x.shape[1], window, out)
    parallel.run(compute_last if _is_last(out, parts) else compute, parts)
    return y


def _filled_directly(what: str, arrays: tuple[Array, Array, Array], geometry: Sequence[Sizes], groups: int) -> bool:
    """Fill the last array by the library in C++ without unfolded windows; return whether it is there and takes them.

    No sum depends on how the work is cut among threads: each has some samples, or channels of a weight.
    """
    if arrays[0].ndim == IMAGES - 1:  # a sequence is an image of one row
        arrays = tuple(each[:, :, None] for each in arrays)  # type: ignore[assignment]
        geometry = [(usual, *sizes) for usual, sizes in zip((1, 0, 1), geometry, strict=True)]
    *given, result = arrays
    of_weight = what == "weight"
    count = given[1].shape[1] if of_weight else len(result)
    is_fit = parallel.native is not None and groups == 1 and result.ndim == IMAGES and result.dtype == np.float32
    if not is_fit or result.shape[0 if of_weight else 1] < _FEW_CHANNELS:
        return False
    first, second = (np.ascontiguousarray(each) for each in given)
    flat = tuple(size for sizes in geometry for size in sizes)

    def compute(part: slice) -> bool:
        if of_weight:
            found = parallel.native.convolved(what, first, second, result, flat, part.start, part.stop)
        else:
            found = parallel.native.convolved(what, first[part], second, result[part], flat, 0, 0)
        return bool(found)

    return all(parallel.run(compute, parallel.shares(count, _LANES if of_weight else 1)))


def _samples(count: int, channels: int, window: Sizes, out: Sizes) -> list[slice]:
    """Blocks of samples whose columns fit into a core's cache."""
    block = _COLUMNS_LAST if prod(out) <= _FEW_PLACES else _COLUMNS
    return parallel.blocks(count, count * channels * prod(window) * prod(out), block)


def _is_last(out: Sizes, parts: Sequence[slice]) -> bool:
    """Return whether samples become the last dimension: where windows have few places, and a block many samples."""
    return prod(out) <= _FEW_PLACES and bool(parts) and parts[0].stop >= _MANY


def _samples_last(x: Array) -> Array:
    """(N, C, *spatial) as (1, C, *spatial, N)."""
    return np.ascontiguousarray(np.moveaxis(x, 0, -1))[None]


def _samples_first(x: Array, shape: Sizes) -> Array:
    """The view of an array whose last dimension is samples, over places or not, as (N, C, *spatial) of a shape."""
    return np.moveaxis(x.reshape(*shape[1:], shape[0]), -1, 0)


def _input_gradient(
    g: Array, w: Array, shape: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int
) -> Array:
    """(N, in, *shape) from the gradient (N, out, *out) of a convolution's result."""
    n, out_channels = g.shape[:2]
    window, out = w.shape[2:], g.shape[2:]
    result = np.empty((n, w.shape[1] * groups, *shape), g.dtype)
    if _filled_directly("image", (g, w, result), (stride, padding, dilation), groups):
        return result
    is_narrower = out_channels <= w.shape[1] * groups and prod(out) >= _FEW_PLACES
    if is_narrower and _is_mirrored(shape, out, window, stride, padding, dilation):
        mirrored_padding = [d * (k - 1) - p for d, k, p in zip(dilation, window, padding, strict=True)]
        return _forward(g, _mirrored(w, groups), stride, mirrored_padding, dilation, groups)
    flat = w.reshape(groups, out_channels // groups, -1).swapaxes(1, 2)
    in_channels = w.shape[1] * groups
    per_group = g.reshape(n, groups, out_channels // groups, prod(out))
    pointwise = is_pointwise(shape, out, window, stride, padding)

    def compute(part: slice) -> None:
        columns = np.matmul(flat, per_group[part])
        if pointwise:
            result[part] = columns.reshape(len(columns), in_channels, *shape)
        else:
            columns = columns.reshape(len(columns), in_channels, *window, *out)
            result[part] = folded(columns, shape, window, stride, padding, dilation, out)

    def compute_last(part: slice) -> None:
        gradients = _samples_last(g[part]).reshape(groups, out_channels // groups, -1)
        columns = np.matmul(flat, gradients).reshape(1, in_channels, *window, *out, part.stop - part.start)
        summed = columns if pointwise else folded(columns, shape, window, stride, padding, dilation, out)
        result[part] = _samples_first(summed, result[part].shape)

    parts = _samples(n, in_channels, window, out)
    parallel.run(compute_last if _is_last(out, parts) else compute, parts)
    return result


def _is_mirrored(shape: Sizes, out: Sizes, window: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes) -> bool:
    """Return whether the gradient for the input is a convolution too: without strides, and with all of its places."""
    reach = [d * (k - 1) for d, k in zip(dilation, window, strict=True)]
    return (
        prod(window) > 1
        and all(s == 1 for s in stride)
        and all(p <= r for p, r in zip(padding, reach, strict=True))
        and all(size == o + r - 2 * p for size, o, r, p in zip(shape, out, reach, padding, strict=True))
    )


def _mirrored(w: Array, groups: int) -> Array:
    """Weights (out, in / groups, *kernel) as (in, out / groups, *kernel), from the last place of the window to the
    first."""
    split = w.reshape(groups, w.shape[0] // groups, *w.shape[1:]).swapaxes(1, 2)
    turned = np.flip(split, tuple(range(3, split.ndim)))
    return np.ascontiguousarray(turned).reshape(w.shape[1] * groups, w.shape[0] // groups, *w.shape[2:])


def _weight_gradient(
    g: Array, x: Array, weight_shape: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int
) -> Array:
    n, out_channels = g.shape[:2]
    window, out = weight_shape[2:], g.shape[2:]
    result = np.empty(weight_shape, g.dtype)
    if _filled_directly("weight", (x, g, result), (stride, padding, dilation), groups):
        return result
    per_group = g.reshape(n, groups, out_channels // groups, prod(out))
    dimensions = len(window)
    # Samples beside the windows' places: one product then sums over both.
    axes = (*range(1, 2 + dimensions), 0, *range(2 + dimensions, 2 + 2 * dimensions))

    def compute(part: slice) -> Array:
        if dimensions == 2:
            columns = copied(x[part], axes, window, stride, padding, dilation, out)
        else:
            columns = windows(padded(x[part], padding), window, stride, dilation, out).transpose(axes)
        columns = columns.reshape(groups, x.shape[1] // groups * prod(window), -1)
        gradients = per_group[part].transpose(1, 2, 0, 3).reshape(groups, out_channels // groups, -1)
        return np.matmul(columns, gradients.swapaxes(1, 2)).swapaxes(1, 2)  # the longer side first is faster

    def compute_last(part: slice) -> Array:
        columns = unfolded(_samples_last(x[part]), groups, window, stride, padding, dilation, out)[0]
        gradients = _samples_last(g[part]).reshape(groups, out_channels // groups, -1)
        return np.matmul(gradients, columns.swapaxes(1, 2))

    parts = _samples(n, x.shape[1], window, out)
    if not parts:
        return np.zeros(weight_shape, g.dtype)
    total, *others = parallel.run(compute_last if _is_last(out, parts) else compute, parts)
    for each in others:
        total += each
    return np.ascontiguousarray(total).reshape(weight_shape)


def _sizes(shape: Sequence[int]) -> str:
    return f"({' x '.join(map(str, shape))})"


@kernel("aten::convolution_overrideable")
def convolution(
    input: Array,  # noqa: A002
    weight: Array,
    bias: Array | None,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    transposed: bool,
    output_padding: Sizes,
    groups: int,
) -> Array:
    """The (transposed) convolution of (N, C, *spatial), plus the bias of each output channel.

    `aten::convolution` itself is PyTorch's: it checks shapes, and calls what the tracer records, `aten::_convolution`,
    which asks for this. A kernel in its place would leave a traced convolution's result in the graph as a constant.

    Raises:
        RuntimeError: The dtypes differ, or a transposed convolution's output padding is too large, or its result would
            have a negative size.
    """
    if input.dtype != weight.dtype:
        raise RuntimeError(f"Input type ({input.dtype}) and weight type ({weight.dtype}) should be the same")
    count = weight.ndim - 2
    stride, padding, dilation, output_padding = (
        per_dimension(each, count) for each in (stride, padding, dilation, output_padding)
    )
    x, w = wide(input), wide(weight)
    if transposed:
        if input.size and any(extra >= max(s, d) for extra, s, d in zip(output_padding, stride, dilation, strict=True)):
            raise RuntimeError(
                f"output padding must be smaller than either stride or dilation, but got output padding "
                f"{_sizes(output_padding)}, stride {_sizes(stride)}, dilation {_sizes(dilation)}"
            )
        shape = [
            (size - 1) * s - 2 * p + d * (k - 1) + extra + 1
            for size, s, p, d, k, extra in zip(
                x.shape[2:], stride, padding, dilation, w.shape[2:], output_padding, strict=True
            )
        ]
        # On the CPU, oneDNN gives an empty result, and PyTorch's own code, which takes what is small, refuses it.
        is_small = input.dtype == F64 or (groups == 1 and len(x) == 1)
        if min(shape) < is_small:
            raise RuntimeError(
                f"Given input size per channel: {_sizes(x.shape[2:])}. "
                f"Calculated output size per channel: {_sizes(shape)}. Output size is too small"
            )
        y = _input_gradient(x, w, shape, stride, padding, dilation, groups)
    else:
        y = _forward(x, w, stride, padding, dilation, groups)
    if bias is not None:
        y += wide(bias).reshape(-1, *(1,) * count)
    return rounded(np.ascontiguousarray(y), input.dtype)


@kernel("aten::convolution_backward")
def convolution_backward(
    grad_output: Array,
    input: Array,  # noqa: A002
    weight: Array,
    bias_sizes: Sizes | None,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    transposed: bool,
    output_padding: Sizes,
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[Array | None, Array | None, Array | None]:
    """Gradients for input, weight and bias, each where its mask is set.

    Raises:
        RuntimeError: A stride or dilation is not positive.
    """
    count = weight.ndim - 2
    stride, padding, dilation = (per_dimension(each, count) for each in (stride, padding, dilation))
    for name, sizes in (("stride", stride), ("dilation", dilation)):
        if min(sizes) <= 0:
            raise RuntimeError(f"non-positive {name} is not supported")
    g, x, w = wide(grad_output), wide(input), wide(weight)
    grad_input = grad_weight = grad_bias = None
    if not x.shape[1]:  # nor has the result channels
        shapes = (x.shape, w.shape, (w.shape[1] * groups if transposed else len(w),))
        made = [np.zeros(shape, weight.dtype) if output_mask[at] else None for at, shape in enumerate(shapes)]
        return made[0], made[1], made[2]
    if output_mask[0]:
        if transposed:
            grad_input = _forward(g, w, stride, padding, dilation, groups)
            # Output padding may leave room for one window more.
            grad_input = grad_input[tuple(slice(size) for size in (*grad_input.shape[:2], *x.shape[2:]))]
        else:
            grad_input = _input_gradient(g, w, x.shape[2:], stride, padding, dilation, groups)
        grad_input = rounded(np.ascontiguousarray(grad_input), input.dtype)
    if output_mask[1]:
        rows, cols = (x, g) if transposed else (g, x)
        grad_weight = rounded(_weight_gradient(rows, cols, w.shape, stride, padding, dilation, groups), weight.dtype)
    if output_mask[2]:
        grad_bias = rounded(np.sum(g, axis=(0, *range(2, g.ndim))), weight.dtype)
    return grad_input, grad_weight, grad_bias


@kernel("aten::convolution_backward_overrideable")
def convolution_backward_overrideable(
    grad_output: Array,
    input: Array,  # noqa: A002
    weight: Array,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    transposed: bool,
    output_padding: Sizes,
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[Array | None, Array | None, Array | None]:
    """convolution_backward with the signature for back ends outside torch."""
    return convolution_backward(
        grad_output, input, weight, None, stride, padding, dilation, transposed, output_padding, groups, output_mask
    )
