import warnings

import pytest
import torch
import torch_npu


def test_formats_are_marks_where_private_ones_are_allowed():
    x = torch.randn(4, 4).npu().requires_grad_()
    assert torch_npu.get_npu_format(x) == 2
    assert torch_npu.get_npu_format(torch.ones(1, 1, 1, 1).npu()) == 0
    with pytest.warns(UserWarning, match="allow_internal_format=False"):
        assert torch_npu.get_npu_format(torch_npu.npu_format_cast(x, 29)) == 2
    torch.npu.config.allow_internal_format = True
    try:
        y = torch_npu.npu_format_cast(x, 29)
        assert torch_npu.get_npu_format(y) == 29
        assert torch_npu.get_npu_format(torch_npu.npu_format_cast(x, y)) == 29
        assert torch_npu.get_npu_format(torch_npu.npu_format_cast(y, 2)) == 2
        torch_npu.npu_format_cast_(y.detach_(), 2)
        assert torch_npu.get_npu_format(y) == 2
        made = torch_npu.empty_with_format([2, 3], dtype=torch.half, device="npu", acl_format=29)
        assert (torch_npu.get_npu_format(made), made.dtype, made.shape) == (29, torch.half, (2, 3))
    finally:
        torch.npu.config.allow_internal_format = False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch_npu.npu_format_cast(x, 29).pow(2).sum().backward()
    torch.testing.assert_close(x.grad, 2 * x.detach())


def test_a_private_format_takes_the_memory_of_its_blocks():
    torch.npu.config.allow_internal_format = True
    try:
        for shape, dtype, options, elements in (
            ((20, 40), torch.float16, {}, 32 * 48),
            ((20, 40), torch.int8, {}, 32 * 64),
            ((2, 3, 5), torch.float32, {}, 2 * 16 * 16),
            ((20, 9), torch.int32, {"customize_dtype": torch.int32}, 32 * 16),
            ((20, 9), torch.int32, {"customize_dtype": torch.float16}, 32 * 16),
            ((7,), torch.float32, {}, 7),  # stays in ND: it is no matrix
        ):
            x = torch.arange(torch.Size(shape).numel()).reshape(shape).to(dtype).npu()
            y = torch_npu.npu_format_cast(x, 29, **options)
            assert (y.untyped_storage().nbytes() // y.element_size(), y.shape) == (elements, shape)
            assert torch.equal(y.cpu(), x.cpu())
            assert (y + y).untyped_storage().nbytes() == x.untyped_storage().nbytes()
        image = torch_npu.npu_format_cast(torch.ones(2, 3, 4, 5).npu(), 3)
        assert image.untyped_storage().nbytes() == 2 * 16 * 4 * 5 * 4
    finally:
        torch.npu.config.allow_internal_format = False


def test_dtype_casts_are_differentiated():
    x = torch.randn(3).npu().requires_grad_()
    y = torch_npu.npu_dtype_cast(x, torch.float16)
    assert y.dtype is torch.float16
    y.sum().backward()
    assert x.grad.tolist() == [1, 1, 1]
    assert y.grad_fn.name() == "NpuDtypeCastBackward0"
    for _ in range(2):  # it saves nothing that the first pass would free
        assert torch.autograd.grad(y, x, torch.ones_like(y))[0].tolist() == [1, 1, 1]


def test_moving_data():
    x = torch.arange(6.0).view(2, 3).npu()
    y = torch_npu.npu_transpose(x, [1, 0])
    assert y.is_contiguous()
    assert torch.equal(y.cpu(), x.cpu().t())
    assert torch_npu.npu_reshape(x, [3, 2]).shape == (3, 2)
    assert torch_npu.npu_stride_copy(x, [2, 2], [3, 1], 1).tolist() == [[1, 2], [4, 5]]
    target = torch.empty(2, 3).npu()
    torch_npu.copy_memory_(target, x)
    assert torch.equal(target, x)
    with pytest.raises(RuntimeError, match="should have same dtype"):
        torch_npu.copy_memory_(target, x.half())
    with pytest.raises(RuntimeError, match="as many elements as there are"):
        torch_npu.copy_memory_(target, x[:1])
    assert torch_npu.one_(target).sum() == 6
    assert torch_npu.get_storage_size(x[:1]) == 6
    flags = torch_npu.npu_alloc_float_status(x)
    assert torch_npu.npu_get_float_status(flags).tolist() == [0] * 8


def test_an_adam_step_of_each_kind():
    start, grad = torch.randn(5), torch.randn(5)

    def state():
        return {name: torch.zeros(5).npu() for name in ("m", "v")} | {"var": start.npu()}

    ours = state()
    torch.ops.npu.npu_apply_adam.out(0.9, 0.999, 0.1, 0.9, 0.999, 1e-8, grad.npu(), False, False, **ours)
    weight = start.clone().requires_grad_()
    weight.grad = grad
    torch.optim.Adam([weight], lr=0.1).step()
    torch.testing.assert_close(ours["var"].cpu(), weight.detach(), rtol=1e-4, atol=1e-5)

    ours = state()
    torch.ops.npu.npu_apply_adam_w.out(0.9, 0.999, 0.1, 0.01, 0.9, 0.999, 1e-8, grad.npu(), None, False, False, **ours)
    weight = start.clone().requires_grad_()
    weight.grad = grad
    torch.optim.AdamW([weight], lr=0.1, weight_decay=0.01).step()
    torch.testing.assert_close(ours["var"].cpu(), weight.detach(), rtol=1e-4, atol=1e-5)

    ours = state()
    torch.ops.npu.npu_bert_apply_adam.out(0.1, 0.9, 0.999, 1e-6, grad.npu(), 1.0, 2.0, 0.01, **ours)
    g = grad / 2
    update = (0.1 * g) / ((0.001 * g * g).sqrt() + 1e-6) + 0.01 * start
    torch.testing.assert_close(ours["var"].cpu(), start - 0.1 * update, rtol=1e-4, atol=1e-5)
