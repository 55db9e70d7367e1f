"""Convolution, pooling and resizing at the corners: geometry, NaN, padding, half precision."""

import pytest
import torch

aten = torch.ops.aten
NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize(
    ("stride", "padding", "dilation"), [([1], [0], [1]), ([2], [1], [1]), ([1, 2], [2, 1], [2, 1]), ([3], [0], [2])]
)
def test_convolution_and_its_gradients(transposed, groups, stride, padding, dilation, check):
    torch.manual_seed(0)
    x = torch.randn(3, 4, 9, 11)
    weight = torch.randn(4, 8 // groups, 3, 2) if transposed else torch.randn(8, 4 // groups, 3, 2)
    extra = [1 if transposed and stride[0] > 1 else 0]
    geometry = (stride, padding, dilation, transposed, extra, groups)
    check(aten.convolution.default, x, weight, torch.randn(8), *geometry)
    check(aten.convolution.default, x.bfloat16(), weight.bfloat16(), None, *geometry, scale=4)
    y = torch.convolution(x, weight, None, *geometry)
    check(
        aten.convolution_backward.default, torch.randn_like(y), x, weight, [8], *geometry, [True, True, True], scale=4
    )
    check(aten.convolution_backward.default, y, x, weight, None, *geometry, [False, True, False], scale=10)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(("padding", "dilation"), [([0], [1]), ([2, 1], [1]), ([3, 1], [2, 1]), ([5, 3], [1])])
@pytest.mark.parametrize("transposed", [False, True])
def test_gradients_of_convolutions_without_strides(transposed, padding, dilation, groups, check):
    """Over many places and to no more channels: the gradient for the input is a convolution too, unless cropped."""
    x = torch.randn(2, 8, 12, 11)
    weight = torch.randn(8, 6 // groups, 3, 2) if transposed else torch.randn(6, 8 // groups, 3, 2)
    extra = [1, 0] if transposed and dilation[0] > 1 else [0]
    geometry = ([1], padding, dilation, transposed, extra, groups)
    y = torch.convolution(x, weight, None, *geometry)
    check(aten.convolution.default, x, weight, None, *geometry, scale=4)
    check(
        aten.convolution_backward.default, torch.randn_like(y), x, weight, [6], *geometry, [True, True, True], scale=10
    )


@pytest.mark.parametrize("plane", [(), (1,), (3, 2), (8, 8), (8, 9)], ids=str)
@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_of_small_planes(plane, training, check):
    x, weight, bias, mean, variance = torch.randn(6, 5, *plane), *(torch.rand(4, 5) + 0.5)
    check(aten.native_batch_norm.default, x, weight, bias, mean, variance, training, 0.1, 1e-5, scale=4)
    _, *saved = torch.native_batch_norm(x, weight, bias, mean.clone(), variance.clone(), training, 0.1, 1e-5)
    options = (*saved, training, 1e-5, [True, True, True])
    check(aten.native_batch_norm_backward.default, torch.randn_like(x), x, weight, mean, variance, *options, scale=10)


@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize("padding", [1, 2])
def test_a_transposed_convolution_that_would_give_nothing(dimensions, padding):
    x, weight = torch.randn(1, 2, 1, *[4] * (dimensions - 1)), torch.randn(2, 2, *[2] * dimensions)
    transposed = getattr(torch.nn.functional, f"conv_transpose{dimensions}d")
    with pytest.raises(RuntimeError) as expected:
        transposed(x, weight, padding=padding)
    with pytest.raises(RuntimeError, match="Output size is too small") as raised:
        transposed(x.to("npu"), weight.to("npu"), padding=padding)
    assert str(raised.value) == str(expected.value)


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_a_transposed_convolution_of_many_samples_may_be_empty(dimensions, check):
    others = [1] * (dimensions - 1)
    x, weight = torch.randn(9, 4, *others, 3), torch.randn(4, 3, *others, 2)
    ones, zeros = [1] * dimensions, [0] * dimensions
    geometry = (ones, [*zeros[1:], 2], ones, True, zeros, 1)
    check(aten.convolution.default, x, weight, None, *geometry)
    check(aten.convolution_backward.default, torch.ones(9, 3, *others, 0), x, weight, [3], *geometry, [True] * 3)
    with pytest.raises(RuntimeError, match="Output size is too small"):
        torch.convolution(x.npu(), weight.npu(), None, ones, [*zeros[1:], 3], ones, True, zeros, 1)


@pytest.mark.parametrize("samples", [1, 9])
@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_output_padding_of_a_window_of_one_place(dimensions, samples, check):
    x, weight = torch.randn(samples, 4, *[3] * dimensions), torch.randn(4, 2, *[1] * dimensions)
    ones, twos, zeros = ([number] * dimensions for number in (1, 2, 0))
    geometry = (ones, zeros, twos, True, ones, 1)
    check(aten.convolution.default, x, weight, torch.randn(2), *geometry)
    gradient = torch.randn(samples, 2, *[4] * dimensions)
    check(aten.convolution_backward.default, gradient, x, weight, [2], *geometry, [True] * 3, scale=10)


def test_output_padding_is_smaller_than_stride_or_dilation():
    x, weight = torch.ones(2, 2, 3), torch.ones(2, 2, 2)
    for device in ("cpu", "npu"):
        with pytest.raises(RuntimeError, match="output padding must be smaller than either stride or dilation"):
            torch.conv_transpose1d(x.to(device), weight.to(device), output_padding=1)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("window", [[3, 2], [1, 1]], ids=str)
@pytest.mark.parametrize(
    ("stride", "padding", "dilation", "groups"), [(1, 1, 1, 1), (2, 1, 2, 2), (1, 0, 1, 4), (2, 0, 1, 1)]
)
def test_convolution_of_many_samples_with_few_places(transposed, window, stride, padding, dilation, groups, check):
    """One product over many samples, in blocks of unlike size."""
    torch.manual_seed(0)
    x = torch.randn(70, 64, 6, 5)
    weight = torch.randn(64, 64 // groups, *window)
    geometry = ([stride], [padding], [dilation], transposed, [0], groups)
    check(aten.convolution.default, x, weight, None, *geometry, scale=20)
    y = torch.convolution(x, weight, None, *geometry)
    check(aten.convolution_backward.default, torch.randn_like(y), x, weight, [64], *geometry, [True] * 3, scale=100)


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_convolution_of_every_dimension(dimensions, check):
    x, weight = torch.randn(8, 3, *(3,) * dimensions), torch.randn(4, 3, *(2,) * dimensions)
    ones, zeros = [1] * dimensions, [0] * dimensions
    check(aten.convolution.default, x, weight, torch.randn(4), ones, ones, ones, False, zeros, 1)


def test_pointwise_convolution_of_channels_last_memory(check):
    x = torch.randn(2, 6, 5, 5).to(memory_format=torch.channels_last)
    check(aten.convolution.default, x, torch.randn(4, 6, 1, 1), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)


@pytest.mark.parametrize(
    ("x", "weight", "bias"),
    [
        (torch.ones(1, 3, 4, 4), torch.ones(2, 5, 3, 3), None),
        (torch.ones(1, 3, 4, 4), torch.ones(2, 3, 3, 3, dtype=torch.float16), None),
        (torch.ones(1, 3, 4, 4), torch.ones(2, 3, 3, 3), torch.ones(2, dtype=torch.float16)),
        (torch.ones(1, 3, 4, 4), torch.ones(2, 3, 5, 5), None),
        (torch.ones(4, 4), torch.ones(2, 3, 3, 3), None),
    ],
    ids=["channels", "dtype", "dtype of the bias", "kernel larger than the input", "dimensions"],
)
def test_convolution_refuses_what_does_not_fit(x, weight, bias):
    for device in ("cpu", "npu"):
        with pytest.raises(RuntimeError):
            torch.conv2d(x.to(device), weight.to(device), None if bias is None else bias.to(device))


POOLS = [
    *[([2, 2], [], [0, 0], [1, 1]), ([3, 3], [2, 2], [1, 1], [1, 1]), ([2, 3], [1, 2], [1, 1], [2, 2])],
    ([9, 10], [], [0, 0], [1, 1]),  # one window
    ([2, 2], [3, 3], [0, 0], [1, 1]),  # of whose steps one more would begin where the image ends
]


@pytest.mark.parametrize("geometry", POOLS, ids=str)
@pytest.mark.parametrize("ceil_mode", [False, True])
def test_max_pool_and_its_gradient(geometry, ceil_mode, check):
    x = torch.randn(2, 3, 9, 10)
    x[0, 0, 2, 3], x[0, 1], x[1, 2, :4, :4] = NAN, -INF, INF
    check(aten.max_pool2d_with_indices.default, x, *geometry, ceil_mode)
    check(aten.max_pool2d_with_indices.default, x[0].bfloat16(), *geometry, ceil_mode)
    y, indices = aten.max_pool2d_with_indices(x, *geometry, ceil_mode)
    check(aten.max_pool2d_with_indices_backward.default, torch.randn_like(y), x, *geometry, ceil_mode, indices)


@pytest.mark.parametrize("dimensions", [2, 3])
def test_max_unpool_and_the_indices_that_it_refuses(dimensions: int) -> None:
    """The first and the last place of a plane are in it, what is before and behind is not."""
    unpool = getattr(torch.nn.functional, f"max_unpool{dimensions}d")
    ones, size = [1] * dimensions, (3,) * dimensions
    plane = 3**dimensions
    for device in ("cpu", "npu"):
        x = torch.tensor([1.0, 2.0, 3.0], device=device).reshape(3, 1, *ones)
        indices = torch.tensor([0, 4, plane - 1], device=device).reshape(x.shape)
        result = unpool(x, indices, [3] * dimensions, output_size=size).flatten(1)
        assert result.shape == (3, plane)
        assert result.nonzero().tolist() == [[0, 0], [1, 4], [2, plane - 1]]
        assert result.sum(1).tolist() == [1, 2, 3]
        for wrong in (-1, plane):
            message = f"invalid max index: {wrong} .* of size {'x'.join('3' * dimensions)}"
            with pytest.raises(RuntimeError, match=message):
                unpool(x, indices.clamp(max=4).index_fill(0, indices.new_tensor([1]), wrong), [3] * dimensions)


def test_max_pool_with_more_taps_than_a_byte_counts(check):
    check(aten.max_pool2d_with_indices.default, torch.randn(1, 2, 20, 20), [17, 17], [1, 1])


@pytest.mark.parametrize("geometry", [each[:3] for each in POOLS], ids=str)
@pytest.mark.parametrize("include_pad", [False, True])
@pytest.mark.parametrize("divisor", [None, 3])
def test_average_pool_and_its_gradient(geometry, include_pad, divisor, check):
    x = torch.randn(2, 3, 9, 10)
    for ceil_mode in (False, True):
        options = (*geometry, ceil_mode, include_pad, divisor)
        check(aten.avg_pool2d.default, x, *options)
        y = torch.randn_like(aten.avg_pool2d(x, *options))
        check(aten.avg_pool2d_backward.default, y, x, *options)


@pytest.mark.parametrize("size", [[1, 1], [3, 4], [7, 7]], ids=str)
def test_adaptive_pools(size, check):
    x = torch.randn(2, 3, 7, 9)
    check(aten._adaptive_avg_pool2d.default, x, size)
    check(aten._adaptive_avg_pool2d_backward.default, torch.randn(2, 3, *size), x)
    check(aten.adaptive_max_pool2d.default, x, size)
    y, indices = aten.adaptive_max_pool2d(x, size)
    check(aten.adaptive_max_pool2d_backward.default, torch.randn_like(y), x, indices)


@pytest.mark.parametrize("size", [[3, 4], [9, 13], [5, 6]], ids=str)
@pytest.mark.parametrize("align_corners", [False, True])
def test_resizing(size, align_corners, check):
    x, grad = torch.randn(2, 3, 5, 6), torch.randn(2, 3, *size)
    for name in ("upsample_bilinear2d", "upsample_bicubic2d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"):
        check(getattr(aten, name).default, x, size, align_corners, scale=4)
        check(getattr(aten, f"{name}_backward").default, grad, size, [2, 3, 5, 6], align_corners, scale=4)
    for name in ("upsample_nearest2d", "_upsample_nearest_exact2d"):
        check(getattr(aten, name).default, x, size)
        check(getattr(aten, f"{name}_backward").default, grad, size, [2, 3, 5, 6])


def test_a_resized_row_has_zeros_where_the_scale_leads_out_of_the_image(check):
    x = torch.rand(1, 2, 5, 5)
    for name in ("_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"):
        check(getattr(aten, name).default, x, [8, 8], False, 3.0, 0.5)
    for name in ("upsample_bilinear2d", "upsample_bicubic2d", "upsample_nearest2d"):
        options = () if "nearest" in name else (False,)
        check(getattr(aten, name).default, x, [8, 8], *options, 3.0, 0.5)


def test_resizing_by_factors(check):
    x = torch.randn(1, 2, 5, 6)
    check(aten.upsample_nearest2d.default, x, [8, 9], 1.7, 1.6)
    check(aten.upsample_bilinear2d.default, x, [8, 9], False, 1.7, 1.6)
