import pytest
import torch
import torch_npu
from torch.fx.experimental.proxy_tensor import make_fx

from gpu2npu.emulator import npu_ops
from gpu2npu.emulator.kernels import KERNELS
from gpu2npu.emulator.npu_ops import definition, gradient, memory
from gpu2npu.support.release_tables import table_for


@pytest.mark.parametrize("release", ["2.1.0", "2.7.0", "2.13.0"])
def test_every_operator_of_a_release_exists_in_torch_and_in_torch_npu(release):
    without_names = {name for name in table_for(release).custom if "names" not in name.partition(".")[2]}
    defined = {f"npu::{schema.partition('(')[0]}" for schema in definition.schemas()}
    assert without_names <= defined
    for name in {each.removeprefix("npu::").partition(".")[0] for each in without_names}:
        assert name == "get_npu_format" or getattr(torch_npu, name) is getattr(torch.ops.npu, name)


def test_an_operator_that_is_not_computed_names_itself():
    x = torch.ones(2, 2).npu()
    with pytest.raises(NotImplementedError, match=r"torch_npu\.npu_anti_mx_quant: the emulated NPU does not compute"):
        torch_npu.npu_anti_mx_quant(x, x)


def test_a_kernel_belongs_to_an_operator_and_a_gradient_to_a_kernel():
    npu_ops.load()
    ours = {name.removeprefix("npu::") for name in KERNELS if name.startswith("npu::")}
    defined = {schema.partition("(")[0] for schema in definition.schemas()}
    assert ours <= defined
    assert {*gradient.listed(), *gradient.GRADIENTS} <= ours | set(memory.OWN)


def test_names_that_torch_npu_has_not():
    with pytest.raises(AttributeError, match="npu_nothing"):
        torch_npu.npu_nothing  # noqa: B018


def _rms_norm(x):
    return torch_npu.npu_rms_norm(x, torch.ones(4).npu())[0]


def _attention(x):
    return torch_npu.npu_fusion_attention(x, x, x, 1, "BSH")[0]


@pytest.mark.parametrize(
    ("compute", "shape", "name"),
    [
        (_rms_norm, (2, 4), "npu_rms_norm_backward"),
        (_attention, (1, 2, 16), "npu_fusion_attention_grad"),
        (lambda x: torch.nn.LSTM(4, 4).npu()(x)[0], (2, 1, 4), "npu_lstm_backward"),
    ],
)
def test_second_derivatives_are_refused_and_not_wrong(compute, shape, name):
    x = torch.randn(shape).npu().requires_grad_()
    (first,) = torch.autograd.grad(compute(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match=f"derivative for npu::{name} is not implemented"):
        first.pow(2).sum().backward()


def _transposed(x):
    return torch_npu.npu_confusion_transpose(x, (1, 0), (4, 2), True)


def _projected(x):
    return torch_npu.npu_linear(x, torch.ones(3, 4).npu(), torch.ones(3).npu())


@pytest.mark.parametrize("compute", [_transposed, _projected, _rms_norm, torch_npu.npu_gelu, torch_npu.npu_swiglu])
def test_a_result_that_the_gradient_does_not_need_may_be_written(compute):
    x = torch.randn(2, 4).npu()
    (expected,) = torch.autograd.grad((compute(given := x.clone().requires_grad_()) * 2).sum(), given)
    written = compute(given := x.clone().requires_grad_())
    written.mul_(2)
    (grad,) = torch.autograd.grad(written.sum(), given)
    torch.testing.assert_close(grad, expected)


@pytest.mark.parametrize("compute", [torch_npu.npu_silu, _rms_norm])
def test_an_argument_that_the_gradient_needs_may_not_be_written(compute):
    x = torch.randn(2, 4).npu().requires_grad_()
    argument = x * 1
    result = compute(argument)
    argument.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()


def test_an_argument_of_which_only_the_shape_is_needed_may_be_written():
    x = torch.randn(2, 4).npu().requires_grad_()
    argument = x * 1
    result = _transposed(argument)
    argument.add_(1)
    result.sum().backward()
    assert torch.equal(x.grad.cpu(), torch.ones(2, 4))


def test_operators_that_write_are_traced_as_those_that_do_not():
    def change(x, indices, updates):
        torch_npu.npu_scatter_nd_update_(x, indices, updates)
        return torch.ops.npu.npu_silu_(x.mul(2))

    given = (torch.randn(4, 3), torch.tensor([[1], [3]]), torch.ones(2, 3))
    eager = [each.npu() for each in given]
    expected = change(*eager)
    compiled = [each.npu() for each in given]
    traced = torch.compile(change, backend="aot_eager", fullgraph=True)(*compiled)
    torch.testing.assert_close(traced.cpu(), expected.cpu())
    torch.testing.assert_close(compiled[0].cpu(), eager[0].cpu())
    graph = make_fx(torch.func.functionalize(change))(*eager)
    assert "scatter_nd_update.default" in graph.code
    assert "scatter_nd_update_" not in graph.code
