"""Kernels that few programs call, against PyTorch's CPU code."""

from __future__ import annotations

import itertools

import pytest
import torch
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
