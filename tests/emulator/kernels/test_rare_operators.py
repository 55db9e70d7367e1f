"""Kernels that few programs call, against PyTorch's CPU code."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.nn.functional as F
from torch.utils._pytree import tree_map

from gpu2npu.emulator.kernels import load

KERNELS = load()
BILINEAR, NEAREST, BICUBIC = range(3)


def _random(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(sum(shape)))


def _agree(name: str, *args: object, **options: object) -> None:
    """Compare a kernel with the operator of that name on the same arguments."""
    namespace, _, rest = name.partition("::")
    operator = getattr(getattr(torch.ops, namespace), rest.partition(".")[0])
    expected = operator(*args, **options)
    plain, named = tree_map(lambda each: each.numpy() if isinstance(each, torch.Tensor) else each, (args, options))
    actual = KERNELS[name](*plain, **named)
    pairs = zip(actual, expected, strict=True) if isinstance(expected, tuple) else [(actual, expected)]
    for ours, theirs in pairs:
        torch.testing.assert_close(torch.from_numpy(ours), theirs, rtol=1e-4, atol=1e-4, equal_nan=True)


@pytest.mark.parametrize("padding", [0, 1, 2])
@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize(
    ("interpolation", "sizes"),
    [*itertools.product([BILINEAR, NEAREST], [(5, 6), (1, 6), (4, 5, 6)]), (BICUBIC, (5, 6)), (BICUBIC, (1, 6))],
)
def test_sampling_and_its_gradient(interpolation, sizes, padding, align):
    """In the image and outside it; bicubic samples are of planes alone."""
    count = len(sizes)
    places = (4, 3, 3)[:count]
    image, grid, grad = _random(2, 3, *sizes), _random(2, *places, count) * 1.7, _random(2, 3, *places)
    grid[0, 0, :, 0] = torch.tensor([-1.0, 0, 1]).reshape(3, *(1,) * (count - 2))  # the bounds and the middle
    _agree(f"aten::grid_sampler_{count}d", image, grid, interpolation, padding, align)
    _agree(f"aten::grid_sampler_{count}d_backward", grad, image, grid, interpolation, padding, align, [True, True])


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("batch", [2, 0])
def test_fractional_pooling_takes_the_windows_of_its_samples(count, batch):
    image = _random(batch, 3, *(9, 8, 7)[:count])
    samples = torch.rand(batch, 3, count, generator=torch.Generator().manual_seed(0))
    sizes = [3, 2, 2][:count], [4, 5, 1][:count]
    _agree(f"aten::fractional_max_pool{count}d", image, *sizes, samples)
    pooled, indices = getattr(torch.ops.aten, f"fractional_max_pool{count}d")(image, *sizes, samples)
    _agree(f"aten::fractional_max_pool{count}d_backward", pooled, image, *sizes, indices)


@pytest.mark.parametrize("reduce", ["sum", "mean", "prod", "max", "min"])
@pytest.mark.parametrize("initial", [None, 2.0])
def test_segments_are_reduced_and_empty_ones_too(reduce, initial):
    data = _random(2, 7, 3)
    data[0, 2] = 0
    lengths = torch.tensor([[3, 0, 4], [1, 5, 1]])
    for options in ({"lengths": lengths}, {"offsets": F.pad(lengths.cumsum(1), (1, 0))}):
        _agree("aten::segment_reduce", data, reduce, axis=1, initial=initial, unsafe=True, **options)
        result = torch.segment_reduce(data, reduce, axis=1, initial=initial, unsafe=True, **options)
        grad = torch.ones_like(result)
        _agree("aten::_segment_reduce_backward", grad, result, data, reduce, axis=1, initial=initial, **options)


@pytest.mark.parametrize("hermitian", [True, False])
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_indefinite_matrices_are_factored_as_lapack_does(hermitian, dtype):
    for size in (1, 2, 5, 12):
        x = _random(3, size, size, dtype=dtype)
        matrix = x + (x.mH if hermitian else x.mT)
        matrix[:, 0, 0] *= size == 1  # so that a block of two rows is needed
        _agree("aten::linalg_ldl_factor_ex", matrix, hermitian=hermitian)
        factors, pivots = torch.linalg.ldl_factor(matrix, hermitian=hermitian)
        right = _random(3, size, 2, dtype=dtype)
        _agree("aten::linalg_ldl_solve", factors, pivots, right, hermitian=hermitian)


def test_a_zero_matrix_has_no_factors():
    _agree("aten::linalg_ldl_factor_ex", torch.zeros(2, 3, 3))
    with pytest.raises(ValueError, match="a block of D is zero"):
        KERNELS["aten::linalg_ldl_factor_ex"](torch.zeros(3, 3).numpy(), check_errors=True)


@pytest.mark.parametrize("density", [True, False])
def test_histograms_of_edges_that_do_not_ascend(density):
    values, weight = _random(40, 2), _random(40).abs()
    edges = [torch.tensor([-1.0, 0.5, 0.0, 2.0]), torch.tensor([-2.0, 0.0, 1.0])]
    _agree("aten::_histogramdd_from_bin_tensors", values, edges, weight=weight, density=density)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int8, torch.bool])
def test_hashes_of_numbers(dtype):
    numbers = (_random(4, 5) * 3).to(dtype)
    _agree("aten::hash_tensor", numbers)
    _agree("aten::hash_tensor", numbers, [1], keepdim=True)


def test_samples_for_more_planes_than_an_image_has():
    torch.manual_seed(0)
    x, samples = torch.randn(4, 5, 5, 5), torch.rand(2, 4, 3)
    pool = torch.nn.FractionalMaxPool3d(2, output_ratio=0.5, _random_samples=samples)
    expected = pool(x)
    pool._random_samples = samples.npu()
    assert torch.equal(pool(x.npu()).cpu(), expected)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_an_image_of_one_pixel_is_sampled(mode, padding):
    grid = torch.tensor([[[[-1.5, 0.3], [3.0, 3.0], [0.0, 0.2]]]])
    expected, actual = (
        torch.nn.functional.grid_sample(
            torch.full((1, 1, 1, 1), 2.0).to(d), grid.to(d), mode, padding, align_corners=False
        )
        for d in ("cpu", "npu")
    )
    torch.testing.assert_close(actual.cpu(), expected)
