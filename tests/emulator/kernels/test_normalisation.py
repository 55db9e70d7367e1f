"""Normalisation at the corners: empty tensors, no weights, statistics of the batch alone."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

aten = torch.ops.aten
Check = Callable[..., None]


def _with_gradients(normalise: Callable[..., torch.Tensor], *given: torch.Tensor) -> list[torch.Tensor]:
    """The result, and the gradient of each tensor given."""
    leaves = [each.clone().requires_grad_() for each in given]
    result = normalise(*leaves)
    gradients = torch.autograd.grad(result.sum(), leaves)
    return [result.detach().cpu(), *(each.cpu() for each in gradients)]


@pytest.mark.parametrize("normalise", [F.layer_norm, F.rms_norm])
@pytest.mark.parametrize("shape", [(0, 3, 4), (2, 3, 0), (2, 0, 4), (0, 0, 0)], ids=str)
@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_rows_without_elements_are_normalised(
    normalise: Callable[..., torch.Tensor], shape: tuple[int, ...], dimensions: int
) -> None:
    normalised = shape[-dimensions:]
    parameters = 2 if normalise is F.layer_norm else 1
    given = [torch.ones(shape), *(torch.ones(normalised) for _ in range(parameters))]

    def of(x: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
        return normalise(x, normalised, *weights)

    expected, actual = (_with_gradients(of, *(each.to(device) for each in given)) for device in ("cpu", "npu"))
    assert [each.shape for each in actual] == [each.shape for each in expected]
    assert all(not each.any() for each in actual)


@pytest.mark.parametrize("shape", [(0, 6, 4), (2, 6, 0), (2, 6, 3, 0), (0, 6, 0)], ids=str)
def test_groups_without_elements_are_normalised(shape: tuple[int, ...]) -> None:
    given = [torch.ones(shape), torch.ones(6), torch.ones(6)]

    def of(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        result, mean, deviation = torch.native_group_norm(x, weight, bias, shape[0], 6, math.prod(shape[2:]), 3, 1e-5)
        assert mean.shape == deviation.shape == (shape[0], 3)
        return result

    try:
        expected = _with_gradients(of, *given)
    except RuntimeError as error:  # PyTorch 2.14 refuses groups without elements
        with pytest.raises(RuntimeError, match=str(error).partition(",")[0]):
            _with_gradients(of, *(each.npu() for each in given))
        return
    actual = _with_gradients(of, *(each.npu() for each in given))
    assert [each.shape for each in actual] == [each.shape for each in expected]
    assert not actual[3].any()


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("biased", [True, False])
def test_layer_norm_of_several_dimensions(weighted: bool, biased: bool, check: Check) -> None:
    torch.manual_seed(0)
    x, g = torch.randn(5, 2, 3, 4), torch.randn(5, 2, 3, 4)
    weight, bias = torch.randn(3, 4) if weighted else None, torch.randn(3, 4) if biased else None
    check(aten.native_layer_norm.default, x, [3, 4], weight, bias, 1e-3, scale=4)
    _, *saved = torch.native_layer_norm(x, [3, 4], weight, bias, 1e-3)
    for mask in ([True, False, False], [True, weighted, False], [False, weighted, biased]):
        check(aten.native_layer_norm_backward.default, g, x, [3, 4], *saved, weight, bias, mask, scale=4)


@pytest.mark.parametrize("shape", [(2, 5), (6, 5, 3), (4, 5, 9, 8)], ids=str)
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_with_weights_or_without(shape: tuple[int, ...], affine: bool, training: bool, check: Check) -> None:
    torch.manual_seed(0)
    x, g = torch.randn(shape), torch.randn(shape)
    weight, bias = (torch.randn(5), torch.randn(5)) if affine else (None, None)
    running = torch.randn(5), torch.rand(5) + 0.5
    check(aten.native_batch_norm.default, x, weight, bias, *running, training, 0.3, 1e-3, scale=4)
    _, *saved = aten.native_batch_norm(x, weight, bias, *(each.clone() for each in running), training, 0.3, 1e-3)
    for mask in ([True, True, True], [True, False, False], [False, affine, True]):
        check(aten.native_batch_norm_backward.default, g, x, weight, *running, *saved, training, 1e-3, mask, scale=10)


@pytest.mark.parametrize("affine", [True, False])
def test_batch_norm_without_running_statistics(affine: bool) -> None:
    torch.manual_seed(0)
    given = [torch.randn(4, 3, 5), torch.randn(3), torch.randn(3)][: 3 if affine else 1]

    def of(x: torch.Tensor, weight: torch.Tensor | None = None, bias: torch.Tensor | None = None) -> torch.Tensor:
        return F.batch_norm(x, None, None, weight, bias, training=True) ** 2

    expected, actual = (_with_gradients(of, *(each.to(device) for each in given)) for device in ("cpu", "npu"))
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)


def test_running_statistics_of_halves_stay_halves() -> None:
    torch.manual_seed(0)
    x, running = torch.randn(4, 3, 5).half(), (torch.randn(3).half(), torch.rand(3).half())
    results = [
        aten._native_batch_norm_legit_functional(
            x.to(device), None, None, *(each.to(device) for each in running), True, 0.1, 1e-5
        )
        for device in ("cpu", "npu")
    ]
    for expected, actual in zip(*(each[3:] for each in results), strict=True):
        torch.testing.assert_close(actual.cpu(), expected)


@pytest.mark.parametrize("groups", [1, 3, 6])
@pytest.mark.parametrize("affine", [True, False])
def test_group_norm_with_weights_or_without(groups: int, affine: bool, check: Check) -> None:
    torch.manual_seed(0)
    x, g = torch.randn(4, 6, 5), torch.randn(4, 6, 5)
    weight, bias = (torch.randn(6), torch.randn(6)) if affine else (None, None)
    check(aten.native_group_norm.default, x, weight, bias, 4, 6, 5, groups, 1e-3, scale=4)
    _, *saved = torch.native_group_norm(x, weight, bias, 4, 6, 5, groups, 1e-3)
    for mask in ([True, False, False], [True, affine, affine], [False, affine, False]):
        check(aten.native_group_norm_backward.default, g, x, *saved, weight, 4, 6, 5, groups, mask, scale=4)


@pytest.mark.parametrize("width", [1, 2, 5])
@pytest.mark.parametrize("eps", [None, 1.0])
def test_root_mean_squares_of_narrow_rows(width: int, eps: float | None) -> None:
    torch.manual_seed(0)
    x, weight = torch.randn(4, width), torch.randn(width)
    expected, actual = (F.rms_norm(x.to(device), (width,), weight.to(device), eps) for device in ("cpu", "npu"))
    torch.testing.assert_close(actual.cpu(), expected)


def test_batch_norm_that_leaves_its_running_statistics(check: Check) -> None:
    torch.manual_seed(0)
    x, mean, var = torch.randn(4, 3, 5), torch.rand(3), torch.rand(3) + 0.5
    for weight, bias in ((torch.rand(3), torch.rand(3)), (None, None)):
        check(aten._batch_norm_no_update.default, x, weight, bias, mean, var, 0.3, 1e-3)


@pytest.mark.parametrize("channels", [1, 2, 3])
def test_running_variances_are_unbiased(channels: int) -> None:
    torch.manual_seed(0)
    x, found = torch.randn(5, channels, 2), []
    for device in ("cpu", "npu"):
        layer = torch.nn.BatchNorm1d(channels, momentum=0.3).to(device)
        layer(x.to(device))
        found.append((layer.running_mean.cpu(), layer.running_var.cpu()))
    torch.testing.assert_close(found[1], found[0])
