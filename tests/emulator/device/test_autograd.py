import pytest
import torch
from torch.utils.checkpoint import checkpoint

from gpu2npu.emulator.device.dispatch import dispatch

NPU = torch.device("npu:0")


@pytest.mark.parametrize("index", [0, 1, 7])
def test_a_backward_pass_works_on_every_npu(index):
    w = torch.tensor([2.0, 3.0], device=f"npu:{index}", requires_grad=True)
    (w * w).sum().backward()
    assert w.grad.device == torch.device("npu", index)
    assert w.grad.tolist() == [4, 6]


def test_a_pass_may_cross_devices():
    w = torch.tensor([2.0], requires_grad=True)
    (w.npu(1) * 3).npu(2).cpu().mul(2).backward()
    assert w.grad.tolist() == [6]
    assert w.grad.device.type == "cpu"


def test_accumulation_retained_graphs_and_double_backward():
    x = torch.tensor([2.0], device=NPU, requires_grad=True)
    y = x**3
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [24]
    (first,) = torch.autograd.grad(x**3, x, create_graph=True)
    (second,) = torch.autograd.grad(first, x)
    assert second.tolist() == [12]


def test_hooks_and_custom_functions():
    calls = []

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            calls.append(ctx.saved_tensors[0].device)
            return grad * 2

    x = torch.ones(2, device=NPU, requires_grad=True)
    x.register_hook(lambda grad: grad * 10)
    x.register_post_accumulate_grad_hook(lambda leaf: calls.append(leaf.grad.device))
    Double.apply(x).sum().backward()
    assert x.grad.tolist() == [20, 20]
    assert calls == [NPU, NPU]


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointing_repeats_the_same_dropout(reentrant):
    def block(x):
        return torch.nn.functional.dropout(x * 2, 0.5)

    x = torch.ones(64, device=NPU, requires_grad=True)
    y = checkpoint(block, x, use_reentrant=reentrant)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())
    assert 0 < (y == 0).sum().item() < 64


@pytest.fixture(scope="module")
def failing():
    """An operator whose gradient, another operator, has a kernel that fails."""
    library = torch.library.Library("gpu2npu_test_grad", "FRAGMENT")
    library.define("bad(Tensor a) -> Tensor")

    def fail(a):
        raise ArithmeticError("the kernel cannot")

    dispatch.register("gpu2npu_test_grad::bad", fail)

    class Bad(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            return torch.ops.gpu2npu_test_grad.bad(grad)

    yield Bad.apply
    library._destroy()


def test_an_error_in_a_backward_pass_is_raised_as_it_is(failing):
    x = torch.ones(2, device=NPU, requires_grad=True)
    y = failing(x) * 3
    for _ in range(2):
        with pytest.raises(ArithmeticError, match="the kernel cannot"):
            y.sum().backward(retain_graph=True)
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_an_error_in_a_nested_backward_pass_is_raised_as_it_is(failing):
    x = torch.ones(2, device=NPU, requires_grad=True)
    y = checkpoint(lambda v: failing(v * 2), x, use_reentrant=True)
    with pytest.raises(ArithmeticError, match="the kernel cannot"):
        y.sum().backward()


def test_an_error_of_the_npu_in_a_built_in_gradient_is_raised_as_it_is():
    x = torch.ones(2, 2, device=NPU, requires_grad=True)
    y = x.to(NPU, torch.float64)
    grad = torch.ones(2, 2, dtype=torch.float64)
    with pytest.raises(RuntimeError, match="DT_DOUBLE"):
        y @ y
    with pytest.raises(RuntimeError, match="device"):
        y.backward(grad)
    (x + 1).sum().backward()
    assert x.grad.tolist() == [[1, 1], [1, 1]]


def test_the_calling_thread_keeps_its_engine_setting():
    x = torch.ones(2, device=NPU, requires_grad=True)
    assert torch._C._is_multithreading_enabled()
    x.sum().backward()
    assert torch._C._is_multithreading_enabled()
