"""Operators over images and volumes of a batch that has none, forward and backward, as on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
import torch.nn.functional as F

Layer = Callable[..., torch.Tensor]


def _of(name: str, dimensions: int) -> Layer:
    return getattr(F, f"{name}{dimensions}d")  # type: ignore[no-any-return]


def _unpooled(x: torch.Tensor) -> torch.Tensor:
    count = x.ndim - 2
    return _of("max_unpool", count)(x, torch.zeros(x.shape, dtype=torch.int64, device=x.device), (2,) * count)


def _convolved(x: torch.Tensor) -> torch.Tensor:
    count = x.ndim - 2
    return _of("conv", count)(x, torch.ones(2, 3, *[2] * count, device=x.device))


def _sampled(x: torch.Tensor, mode: str) -> torch.Tensor:
    count = x.ndim - 2
    return F.grid_sample(x, torch.zeros(len(x), *[2] * count, count, device=x.device), mode, align_corners=False)


LAYERS: dict[str, Callable[[int], Layer]] = {
    "max_pool": lambda count: partial(_of("max_pool", count), kernel_size=2, stride=1),
    "max_pool, windows apart": lambda count: partial(_of("max_pool", count), kernel_size=2),
    "avg_pool": lambda count: partial(_of("avg_pool", count), kernel_size=2),
    "adaptive_max_pool": lambda count: partial(_of("adaptive_max_pool", count), output_size=3),
    "adaptive_avg_pool": lambda count: partial(_of("adaptive_avg_pool", count), output_size=3),
    "fractional_max_pool": lambda count: partial(_of("fractional_max_pool", count), kernel_size=2, output_size=2),
    "max_unpool": lambda _: _unpooled,
    "convolution": lambda _: _convolved,
    "group_norm": lambda _: partial(F.group_norm, num_groups=3),
    "grid_sample, bilinear": lambda _: partial(_sampled, mode="bilinear"),
    "grid_sample, nearest": lambda _: partial(_sampled, mode="nearest"),
    "interpolate, nearest": lambda _: partial(F.interpolate, scale_factor=2, mode="nearest"),
    "interpolate, linear": lambda count: partial(
        F.interpolate, scale_factor=2, mode="bilinear" if count == 2 else "trilinear"
    ),
}


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("dimensions", [2, 3])
def test_a_batch_without_images(layer: str, dimensions: int) -> None:
    apply = LAYERS[layer](dimensions)
    shapes = []
    for device in ("cpu", "npu"):
        x = torch.ones(0, 3, *[4] * dimensions, device=device, requires_grad=True)
        y = apply(x)
        (gradient,) = torch.autograd.grad(y.sum(), x)
        shapes.append((y.shape, gradient.shape))
    assert shapes[1] == shapes[0]


def test_bicubic_samples_of_no_images() -> None:
    x, grid = torch.ones(0, 3, 4, 4, device="npu"), torch.zeros(0, 5, 2, 2, device="npu")
    assert F.grid_sample(x, grid, "bicubic", align_corners=False).shape == (0, 3, 5, 2)


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_samples_of_no_channels(mode: str) -> None:
    for device in ("cpu", "npu"):
        x, grid = torch.ones(2, 0, 4, 4, device=device), torch.zeros(2, 5, 2, 2, device=device, requires_grad=True)
        y = F.grid_sample(x, grid, mode, align_corners=False)
        assert y.shape == (2, 0, 5, 2)
        assert not torch.autograd.grad(y.sum(), grid)[0].any()


@pytest.mark.parametrize(("rows", "columns", "outputs"), [((0,), 3, 0), ((0, 4), 3, 0), ((2,), 3, 0), ((), 0, 0)])
def test_a_linear_layer_without_rows_or_outputs(rows: tuple[int, ...], columns: int, outputs: int) -> None:
    x = torch.ones(*rows, columns, device="npu", requires_grad=True)
    weight = torch.ones(outputs, columns, device="npu", requires_grad=True)
    y = F.linear(x, weight)
    assert y.shape == (*rows, outputs)
    for gradient, given in zip(torch.autograd.grad(y.sum(), (x, weight)), (x, weight), strict=True):
        assert gradient.shape == given.shape
        assert not gradient.any()


@pytest.mark.parametrize("shape", [(0, 0), (0, 0, 2, 2)])
def test_the_loss_of_no_classes(shape: tuple[int, ...]) -> None:
    target = torch.zeros(0, *shape[2:], dtype=torch.int64, device="npu")
    assert F.nll_loss(torch.zeros(shape, device="npu"), target, reduction="sum").tolist() == 0


def test_weights_of_nothing_are_counted_in_int64() -> None:
    nothing = torch.zeros(0, dtype=torch.int64, device="npu")
    assert torch.bincount(nothing, weights=torch.zeros(0, device="npu")).dtype is torch.int64


@pytest.mark.parametrize("bias", [True, False])
def test_a_convolution_without_channels(bias: bool) -> None:
    for device in ("cpu", "npu"):
        layer = torch.nn.Conv2d(0, 4, 3, bias=bias).to(device)
        x = torch.ones(2, 0, 5, 5, device=device, requires_grad=True)
        y = layer(x)
        y.sum().backward()
        sizes = [tuple(each.grad.shape) for each in (x, *layer.parameters()) if each.grad is not None]
        assert (tuple(y.shape), *sizes) == ((2, 0, 3, 3), (2, 0, 5, 5), (4, 0, 3, 3), *([(4,)] if bias else []))


def test_bags_whose_indices_and_offsets_have_unlike_dtypes() -> None:
    results = []
    for device in ("cpu", "npu"):
        table = torch.arange(8.0, device=device).view(4, 2).requires_grad_()
        indices = torch.tensor([1, 2, 1], device=device)
        y = torch.nn.functional.embedding_bag(indices, table, torch.tensor([0, 2], dtype=torch.int32, device=device))
        y.sum().backward()
        results.append(table.grad.cpu())
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32, torch.bool, torch.complex64], ids=str)
def test_deterministic_algorithms_fill_new_memory(dtype: torch.dtype) -> None:
    torch.use_deterministic_algorithms(True)
    try:
        made = {
            device: (
                torch.empty(3, dtype=dtype, device=device),
                torch.empty_strided((2, 2), (1, 2), dtype=dtype, device=device),
                torch.zeros(1, dtype=dtype, device=device).resize_(3),
            )
            for device in ("cpu", "npu")
        }
    finally:
        torch.use_deterministic_algorithms(False)
    for expected, actual in zip(*made.values(), strict=True):
        torch.testing.assert_close(actual.cpu(), expected, equal_nan=True)
