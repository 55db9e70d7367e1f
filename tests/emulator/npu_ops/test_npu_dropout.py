import pytest
import torch
import torch_npu

DTYPES = [torch.float32, torch.float16, torch.bfloat16]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("operator", ["_npu_dropout", "_dropout_with_byte_mask"])
def test_dropout_scales_what_it_keeps_and_the_gradient_alike(operator, dtype):
    x = (torch.rand(40, 50) + 1).to(dtype).npu().requires_grad_()
    y, mask = getattr(torch_npu, operator)(x, 0.25)
    assert mask.dtype is torch.uint8
    assert mask.numel() == (2048 // 8 if operator == "_npu_dropout" else 2000)
    nonzero = y != 0
    assert 0.68 < nonzero.float().mean().item() < 0.82
    torch.testing.assert_close(y[nonzero], x[nonzero] / 0.75)
    y.backward(torch.ones_like(y))
    torch.testing.assert_close(x.grad.cpu(), nonzero.cpu().to(dtype) * torch.tensor(1 / 0.75).to(dtype))


def test_dropout_follows_the_generator_of_the_device():
    x = torch.ones(64).npu()
    torch.npu.manual_seed(1)
    first = torch_npu._npu_dropout(x, 0.5)[0]
    second = torch_npu._npu_dropout(x, 0.5)[0]
    torch.npu.manual_seed(1)
    assert torch.equal(torch_npu._npu_dropout(x, 0.5)[0], first)
    assert not torch.equal(first, second)


def test_a_bit_mask_can_be_made_apart_and_applied_again():
    x = torch.rand(3, 50).npu()
    y, mask = torch_npu._npu_dropout(x, 0.5)
    again, same = torch_npu.npu_dropout_do_mask(x, mask, 0.5)
    assert torch.equal(y, again)
    assert torch.equal(mask, same)
    made = [torch_npu._npu_dropout_gen_mask(x, [3, 50], 0.5, seed, 0) for seed in (1, 1, 2)]
    assert made[0].numel() == 256 // 8
    assert torch.equal(made[0], made[1])
    assert not torch.equal(made[0], made[2])
    with pytest.raises(ValueError, match="too short for 150 elements"):
        torch_npu.npu_dropout_do_mask(x, mask[:3], 0.5)


def test_dropout_with_byte_mask_is_the_identity_in_evaluation():
    x = torch.rand(8).npu()
    assert torch.equal(torch_npu.dropout_with_byte_mask(x, 0.5, False), x)
    assert (torch_npu.dropout_with_byte_mask(x, 0.9, True) == 0).any()
    assert not torch_npu.dropout_with_byte_mask(x, 1.0, True).any()


@pytest.mark.usefixtures("beyond_the_table")
@pytest.mark.parametrize("dtype", DTYPES)
def test_softmax_of_a_sum(agrees, dtype):
    operator = lambda a, b: torch_npu.npu_dropout_with_add_softmax(a, b, 0.5, 0.0, -1)  # noqa: E731
    agrees(
        operator,
        lambda a, b: (0.5 * a + b).softmax(-1),
        torch.randn(2, 3, 4),
        torch.randn(2, 3, 4),
        output=2,
        dtype=dtype,
    )
    x = torch.randn(2, 8, 16, 16).npu().requires_grad_()
    mask, p, y = torch_npu.npu_dropout_with_add_softmax(x, torch.zeros_like(x), 1.0, 0.5, -1)
    torch.testing.assert_close(y, p * mask.view(p.shape) * 2)
    flow = torch.randn_like(y)
    y.backward(flow)
    reference = x.detach().cpu().requires_grad_()
    (reference.softmax(-1) * mask.cpu().view(p.shape) * 2).backward(flow.cpu())
    torch.testing.assert_close(x.grad.cpu(), reference.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("beyond_the_table")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("triangular", [False, True])
@pytest.mark.parametrize("shape", [(2, 3, 5, 5), (2, 1, 5, 5), (1, 1, 5, 5)])
def test_scaled_masked_softmax(agrees, dtype, triangular, shape):
    mask = torch.rand(shape) < 0.4
    mask[..., 0] = False
    hidden = torch.ones(5, 5).triu(1).bool() if triangular else mask
    agrees(
        lambda x: torch_npu.npu_scaled_masked_softmax(x, mask.npu(), 0.7, triangular),
        lambda x: (x * 0.7).masked_fill(hidden, -10000).softmax(-1),
        torch.randn(2, 3, 5, 5), dtype=dtype,
    )  # fmt: skip


def test_masked_softmax_with_relative_positions(agrees):
    agrees(
        torch_npu.npu_masked_softmax_with_rel_pos_bias,
        lambda x, mask, bias, scale: (x * scale + mask + bias).softmax(-1),
        torch.randn(2, 3, 4, 6, 6), torch.randn(3, 1, 6, 6), torch.randn(1, 1, 4, 6, 6), 0.5, gradients=False,
    )  # fmt: skip
