"""Tests that what is raised within a backward pass comes out of it as an error of Python, and ends no process."""

import pytest
import torch


def refuse(*_):
    """A hook that fails."""
    raise KeyError("refused")


def leaf():
    """A parameter on the NPU."""
    return torch.ones(2, 3, device="npu", requires_grad=True)


def from_hook(x):
    """A hook of an intermediate result."""
    y = x * 2
    y.register_hook(refuse)
    return y


def from_accumulation(x):
    """A hook of a finished gradient."""
    x.register_post_accumulate_grad_hook(refuse)
    return x * 2


def from_module(x):
    """A full backward hook of a module."""
    layer = torch.nn.Linear(3, 3).npu()
    layer.register_full_backward_hook(refuse)
    return layer(x)


def from_node(x):
    """A hook of the graph's node."""
    y = x * 2
    y.grad_fn.register_prehook(refuse)
    return y


def from_function(x):
    """A function of the user's."""

    class Refusing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            raise KeyError("refused")

    return Refusing.apply(x)


@pytest.mark.parametrize("place", [from_hook, from_accumulation, from_module, from_node, from_function])
def test_a_backward_pass_raises_what_is_raised_within(place):
    y = place(leaf())
    with pytest.raises(KeyError, match="refused"):
        y.sum().backward()


def test_the_next_pass_runs():
    with pytest.raises(KeyError):
        from_hook(leaf()).sum().backward()
    x = leaf()
    (x * 3).sum().backward()
    assert x.grad.cpu().eq(3).all()


def test_an_operator_that_fails_in_a_hook_is_named():
    y = leaf() * 2
    y.register_hook(lambda grad: grad @ grad)
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied") as caught:
        y.sum().backward()
    text = "\n".join([*getattr(caught.value, "__notes__", ()), repr(caught.value.__cause__)])
    assert "aten::mm(self=float32[2, 3]" in text


def test_an_error_within_a_pass_within_a_hook_comes_out_once():
    def inner(grad):
        with torch.enable_grad(), pytest.raises(KeyError):
            from_hook(leaf()).sum().backward()
        return grad

    x = leaf()
    y = x * 2
    y.register_hook(inner)
    y.sum().backward()
    assert x.grad.cpu().eq(2).all()
