"""Moving, repeating and cutting, and the gradients of views, against PyTorch's CPU code."""

import numpy as np
import pytest
import torch

aten = torch.ops.aten
X = torch.arange(60.0).reshape(3, 4, 5)


def compare(function, *args):
    """Assert that what PyTorch composes on the device is what it gives on the CPU."""
    on_npu = function(*(each.npu() if isinstance(each, torch.Tensor) else each for each in args))
    assert torch.equal(on_npu.cpu(), function(*args))


@pytest.mark.parametrize("offset", [-2, -1, 0, 1, 2])
@pytest.mark.parametrize("dims", [(-2, -1), (0, 1), (2, 0), (1, 3)], ids=str)
def test_diagonals(offset, dims):
    compare(torch.diag_embed, X, offset, *dims)
    first, second = (each % 3 for each in dims)
    if first != second:
        source = torch.diagonal(X, offset, first, second) * -2
        compare(torch.diagonal_scatter, X, source, offset, first, second)


@pytest.mark.parametrize("dims", [(), (0,), (-1,), (0, 2), (2, 1)], ids=str)
def test_rolled_and_flipped(dims, check):
    for shifts in ([1, -2], [7, 3]):
        check(aten.roll.default, X, shifts[: max(len(dims), 1)], dims)
    check(aten.flip.default, X, dims)
    for x in (torch.tensor(2.0), torch.empty(0, 3, 2)):
        check(aten.roll.default, x, [1])
        check(aten.flip.default, x, [])


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize(
    ("start", "end", "step"),
    [(None, None, 1), (0, 2, 1), (-2, None, 1), (1, -1, 2), (-9, 9, 3), (2, 1, 1), (1, 0, 1), (5, 9, 1)],
)
def test_slices_written_to(dim, start, end, step, check):
    source = aten.slice(X, dim, start, end, step) * -2
    compare(torch.slice_scatter, X, source, dim, start, end, step)
    check(aten.slice_backward.default, source, [3, 4, 5], dim, start or 0, 9 if end is None else end, step)


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_single_places_written_to(dim, check):
    for index in (0, 2, -1):
        source = X.select(dim, index) * -2
        compare(torch.select_scatter, X, source, dim, index)
        check(aten.select_backward.default, source, [3, 4, 5], dim, index)


@pytest.mark.parametrize(("size", "step"), [(1, 1), (2, 1), (3, 2), (2, 3)])
def test_the_gradient_of_windows(size, step, check):
    for dim in (0, 1, 2):
        windows = X.unfold(dim, size, step)
        check(aten.unfold_backward.default, windows * -2, [3, 4, 5], dim, size, step)


def test_cropped_to_nothing_but_no_further(check, kernels_of):
    check(aten.constant_pad_nd.default, X, [-2, -3], 1.0)
    with pytest.raises(RuntimeError, match="negative"):
        kernels_of["aten::constant_pad_nd"](np.ones((2, 3)), [-2, -2])


def test_channels_and_pixels_change_places(check):
    x = torch.arange(2.0 * 12 * 4 * 6).reshape(2, 12, 4, 6)
    for each in (x, x[0]):
        for change in (aten.pixel_shuffle, aten.pixel_unshuffle):  # composed by PyTorch
            assert torch.equal(change(each.npu(), 2).cpu(), change(each, 2))
    check(aten.channel_shuffle.default, x, 3)
    check(aten.repeat.default, X, [2, 1, 3, 1])
