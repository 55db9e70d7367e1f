"""Losses with weights of elements and classes, targets that do not count, and each reduction, against PyTorch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

aten = torch.ops.aten
Check = Callable[..., None]
REDUCTIONS = pytest.mark.parametrize("reduction", [0, 1, 2])


@REDUCTIONS
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("positive", [True, False], ids=["weights of positives", "none"])
def test_binary_cross_entropy_with_logits(reduction: int, weighted: bool, positive: bool, check: Check) -> None:
    torch.manual_seed(0)
    x, target = torch.randn(4, 3) * 3, torch.rand(4, 3)
    weight, positives = torch.rand(4, 3) if weighted else None, torch.rand(3) * 4 if positive else None
    check(aten.binary_cross_entropy_with_logits.default, x, target, weight, positives, reduction)


@REDUCTIONS
@pytest.mark.parametrize("weighted", [True, False])
def test_binary_cross_entropy_and_its_gradient(reduction: int, weighted: bool, check: Check) -> None:
    torch.manual_seed(0)
    x, target = torch.rand(4, 3), torch.rand(4, 3)
    x[0], target[0] = torch.tensor([0.0, 1.0, 1.0]), torch.tensor([1.0, 0.0, 1.0])
    weight = torch.rand(4, 3) if weighted else None
    loss = aten.binary_cross_entropy(x, target, weight, reduction)
    check(aten.binary_cross_entropy.default, x, target, weight, reduction)
    check(aten.binary_cross_entropy_backward.default, torch.rand_like(loss), x, target, weight, reduction)


@REDUCTIONS
@pytest.mark.parametrize("name", ["smooth_l1_loss", "huber_loss"])
@pytest.mark.parametrize("bound", [0.5, 1.0, 2.5])
def test_losses_that_are_linear_beyond_a_bound(name: str, reduction: int, bound: float, check: Check) -> None:
    x, target = torch.linspace(-4, 4, 33), torch.zeros(33)
    loss = getattr(aten, name)(x, target, reduction, bound)
    if name == "smooth_l1_loss":
        check(getattr(aten, name).default, x, target, reduction, bound)
    check(getattr(aten, f"{name}_backward").default, torch.rand_like(loss), x, target, reduction, bound)


@REDUCTIONS
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 4, 5), (2, 4, 2, 3)], ids=str)
def test_negative_log_likelihood_and_its_gradient(
    shape: tuple[int, ...], weighted: bool, reduction: int, check: Check
) -> None:
    torch.manual_seed(0)
    places = torch.Size(shape[:1] + shape[2:]) if len(shape) > 1 else torch.Size()
    x, target = torch.randn(shape), torch.randint(0, 4, places)
    if places:
        target[0] = -7
    weight = torch.rand(4) if weighted else None
    name = "nll_loss2d" if len(shape) == 4 else "nll_loss"
    if len(shape) == 3:
        x, target, name = x[:, :, None], target[:, None], "nll_loss2d"
    loss, total = getattr(aten, f"{name}_forward")(x, target, weight, reduction, -7)
    check(getattr(aten, f"{name}_forward").default, x, target, weight, reduction, -7)
    gradient = torch.rand_like(loss)
    check(getattr(aten, f"{name}_backward").default, gradient, x, target, weight, reduction, -7, total)


@pytest.mark.parametrize("target", [-1, 4])
def test_a_target_that_is_not_a_class_is_refused(target: int) -> None:
    for device in ("cpu", "npu"):
        x = torch.zeros(1, 4, device=device)
        F.nll_loss(x, torch.tensor([3], device=device))
        with pytest.raises(IndexError, match=f"Target {target} is out of bounds"):
            F.nll_loss(x, torch.tensor([target], device=device))


@pytest.mark.parametrize("wrong", [-0.01, 1.01, float("nan")])
def test_probabilities_lie_between_0_and_1(wrong: float) -> None:
    for device in ("cpu", "npu"):
        target = torch.tensor([0.0, 1.0, 0.5], device=device)
        F.binary_cross_entropy(target, target)
        with pytest.raises(RuntimeError, match="between 0 and 1"):
            F.binary_cross_entropy(torch.tensor([0.0, wrong, 1.0], device=device), target)
