import pytest
import torch
import torch.nn.functional as F
import torch_npu

DTYPES = [torch.float32, torch.float16, torch.bfloat16]


def rms(x, gamma, epsilon=1e-6):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + epsilon) * gamma


@pytest.mark.parametrize("dtype", DTYPES)
def test_rms_norm(agrees, dtype):
    agrees(torch_npu.npu_rms_norm, rms, torch.randn(3, 5, 16), torch.rand(16) + 0.5, dtype=dtype)
    agrees(torch_npu.npu_rms_norm, rms, torch.randn(4, 16), torch.rand(16), epsilon=0.1)
    x = torch.randn(3, 5, 16, dtype=dtype)
    y, rstd = torch_npu.npu_rms_norm(x.npu(), torch.ones(16, dtype=dtype).npu())
    assert (y.dtype, rstd.dtype, rstd.shape) == (dtype, torch.float32, (3, 5, 1))
    expected = torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)
    torch.testing.assert_close(rstd.cpu(), expected)


def test_rms_norms_fused_with_more(agrees):
    x, y, gamma = torch.randn(4, 8), torch.randn(4, 8), torch.rand(8)
    agrees(torch_npu.npu_add_rms_norm, lambda a, b, g: rms(a + b, g), x, y, gamma, gradients=False)
    agrees(torch_npu.npu_add_rms_norm, lambda a, b, g: a + b, x, y, gamma, output=2, gradients=False)
    agrees(torch_npu.npu_gemma_rms_norm, lambda a, g: rms(a, 1 + g), x, gamma, gradients=False)
    wide, narrow, _, total = torch_npu.npu_add_rms_norm_cast(x.half().npu(), y.half().npu(), gamma.half().npu())
    assert (wide.dtype, narrow.dtype, total.dtype) == (torch.float32, torch.float16, torch.float16)


@pytest.mark.parametrize("dtype", DTYPES)
def test_layer_norms(agrees, dtype):
    x, gamma, beta = torch.randn(4, 3, 8), torch.rand(8), torch.rand(8)
    agrees(
        lambda a, w, b: torch_npu.npu_layer_norm_eval(a, (8,), w, b, 1e-3),
        lambda a, w, b: F.layer_norm(a, (8,), w, b, 1e-3),
        x, gamma, beta, dtype=dtype, gradients=False,
    )  # fmt: skip
    add = lambda a, b, w, c: F.layer_norm(a + b, (8,), w, c)  # noqa: E731
    agrees(torch_npu.npu_add_layer_norm, add, x, torch.randn(4, 3, 8), gamma, beta, dtype=dtype)
    deep = lambda a, g, b, w: F.layer_norm(0.3 * a + g, (8,), w, b, 1e-6)  # noqa: E731
    agrees(torch_npu.npu_deep_norm, deep, x, torch.randn(4, 3, 8), beta, gamma, output=2, dtype=dtype)


def test_the_sum_of_add_layer_norm_has_a_gradient_of_its_own():
    inputs = [torch.randn(4, 8), torch.randn(4, 8), torch.rand(8), torch.rand(8)]
    ours = [x.npu().requires_grad_() for x in inputs]
    y, _, _, total = torch_npu.npu_add_layer_norm(*ours, additional_output=True)
    (y * y + 3 * total).sum().backward()
    theirs = [x.requires_grad_() for x in inputs]
    total = theirs[0] + theirs[1]
    (F.layer_norm(total, (8,), *theirs[2:]) ** 2 + 3 * total).sum().backward()
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one.grad.cpu(), other.grad, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 6, 9), (2, 6, 3, 4)])
def test_group_norms(agrees, dtype, shape):
    def swish(x, groups, weight, bias, eps, scale):
        y = F.group_norm(x, groups, weight, bias, eps)
        return y * torch.sigmoid(scale * y)

    weight, bias = torch.rand(6), torch.rand(6)
    agrees(torch_npu.npu_group_norm_swish, swish, torch.randn(shape), 3, weight, bias, 1e-3, 1.5, dtype=dtype)
    agrees(
        torch_npu.npu_group_norm_silu,
        lambda x, w, b, groups, eps: F.silu(F.group_norm(x, groups, w, b, eps)),
        torch.randn(shape), weight, bias, 2, 1e-4, dtype=dtype, gradients=False,
    )  # fmt: skip
