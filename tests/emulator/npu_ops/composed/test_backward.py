"""torch_npu's backward passes of convolutions and losses against autograd on the CPU."""

import pytest
import torch
import torch.nn.functional as F
import torch_npu


def gradients(formula, *leaves, flow=None):
    leaves = [each.clone().requires_grad_() for each in leaves]
    y = formula(*leaves)
    y.backward(torch.ones_like(y) if flow is None else flow)
    return [each.grad for each in leaves]


@pytest.fixture(autouse=True)
def exact(monkeypatch):
    monkeypatch.setattr(torch.npu.conv, "allow_hf32", False)


@pytest.mark.parametrize("dimensions", [2, 3])
def test_convolutions(dimensions):
    x, w = torch.randn(2, 4, *[5] * dimensions), torch.randn(6, 2, *[3] * dimensions)
    ones, flow = [1] * dimensions, torch.randn(2, 6, *[5] * dimensions)
    conv = (F.conv2d, F.conv3d)[dimensions - 2]
    expected = gradients(lambda x, w, b: conv(x, w, b, padding=1, groups=2), x, w, torch.zeros(6), flow=flow)
    backward = getattr(torch_npu, f"npu_conv{dimensions}d_backward")
    ours = backward(x.npu(), flow.npu(), w.npu(), ones, ones, ones, 2, [True, True, True])
    torch.testing.assert_close(list(ours), expected, check_device=False, rtol=1e-4, atol=1e-4)


def test_transposed_convolutions():
    x, w, flow = torch.randn(2, 4, 5, 5), torch.randn(4, 3, 3, 3), torch.randn(2, 3, 9, 9)
    expected = gradients(
        lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2, padding=1), x, w, torch.zeros(3), flow=flow
    )
    ours = torch_npu.npu_conv_transpose2d_backward(
        x.npu(), flow.npu(), w.npu(), [1, 1], [0, 0], [2, 2], [1, 1], 1, [True, True, True]
    )
    torch.testing.assert_close(list(ours), expected, check_device=False, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_losses(reduction):
    x, y, weight = torch.randn(3, 4), torch.rand(3, 4), torch.rand(4)
    number = ("none", "mean", "sum").index(reduction)

    def close(name, formula, *args, **kwargs):
        flow = torch.rand(3, 4) if reduction == "none" else torch.tensor(2.0)
        given = [each.npu() if isinstance(each, torch.Tensor) else each for each in (flow, x, y, *args)]
        ours = getattr(torch.ops.npu, name)(*given, number, **kwargs)
        torch.testing.assert_close(ours.cpu(), gradients(formula, x, flow=flow)[0])

    close("l1_loss_backward", lambda x: F.l1_loss(x, y, reduction=reduction))
    for log in (False, True):
        close("kl_div_backward", lambda x, log=log: F.kl_div(x, y, reduction=reduction, log_target=log), log_target=log)
    close(
        "npu_binary_cross_entropy_with_logits_backward",
        lambda x: F.binary_cross_entropy_with_logits(x, y, weight, pos_weight=weight, reduction=reduction),
        weight, weight,
    )  # fmt: skip
