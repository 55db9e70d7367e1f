import pytest
import torch
import torch.nn.functional as F

EPS, MOMENTUM = 1e-5, 0.1


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("sizes", [(4, 2), (1, 5), (6,)])
def test_shares_of_a_batch_are_normalised_as_the_whole(affine, sizes):
    torch.manual_seed(0)
    x = torch.randn(6, 3, 5, requires_grad=True)
    g = torch.randn(6, 3, 5)
    weight, bias = (torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)) if affine else (None, None)
    running = torch.zeros(3), torch.ones(3)
    expected = F.batch_norm(x, *running, weight, bias, True, MOMENTUM, EPS)
    expected.backward(g)

    shares, grads = x.detach().npu().split(sizes), g.npu().split(sizes)
    w, b = (weight.detach().npu(), bias.detach().npu()) if affine else (None, None)
    each = [torch.batch_norm_stats(share, EPS) for share in shares]
    counts = torch.tensor([share.numel() / 3 for share in shares], device="npu")
    updated = torch.zeros(3, device="npu"), torch.ones(3, device="npu")
    mean, invstd = torch.batch_norm_gather_stats_with_counts(
        shares[0], torch.stack([e[0] for e in each]), torch.stack([e[1] for e in each]), *updated, MOMENTUM, EPS, counts
    )
    result = torch.cat([torch.batch_norm_elemt(share, w, b, mean, invstd, EPS) for share in shares])
    torch.testing.assert_close(result.cpu(), expected.detach())
    for actual, wanted in zip(updated, running, strict=True):
        torch.testing.assert_close(actual.cpu(), wanted)

    parts = [
        torch.batch_norm_backward_reduce(grad, share, mean, invstd, w, True, affine, affine)
        for grad, share in zip(grads, shares, strict=True)
    ]
    sum_dy, sum_dy_xmu = sum(part[0] for part in parts), sum(part[1] for part in parts)
    grad_input = [
        torch.batch_norm_backward_elemt(grad, share, mean, invstd, w, sum_dy, sum_dy_xmu, counts.int())
        for grad, share in zip(grads, shares, strict=True)
    ]
    torch.testing.assert_close(torch.cat(grad_input).cpu(), x.grad, rtol=1e-4, atol=1e-5)
    if affine:
        torch.testing.assert_close(sum(part[2] for part in parts).cpu(), weight.grad, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(sum(part[3] for part in parts).cpu(), bias.grad, rtol=1e-4, atol=1e-5)


def test_half_keeps_float32_statistics():
    x = torch.randn(4, 2, 3).half().npu()
    mean, invstd = torch.batch_norm_stats(x, EPS)
    assert mean.dtype is invstd.dtype is torch.float32
    assert torch.batch_norm_elemt(x, None, None, mean, invstd, EPS).dtype is torch.half
