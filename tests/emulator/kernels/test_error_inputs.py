"""Tests that operators refuse what PyTorch's table says they must: as on the CPU, with the same kind of error."""

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

OPERATORS = [op for op in op_db if op.error_inputs_func is not None]
# (operator, number of the input): taken on the NPU, or refused with another kind of error.
DIFFERENT = {
    ("cat", 6),  # `out=` lies over an input and is resized
    ("gather", 6),
    ("narrow_copy", 1),  # IndexError, where the CPU's is an internal assertion
}
MORE_DIMENSIONS_THAN_NUMPY_HAS = ("amax", "amin", "aminmax")  # 65, to be refused


@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.full_name)
@pytest.mark.filterwarnings("ignore")
def test_an_operator_refuses_what_it_refuses_on_the_cpu(op, borrowing):
    def error(given):
        sample = given.sample_input
        try:
            op(sample.input, *sample.args, **sample.kwargs)
        except Exception as raised:
            return type(raised)
        return None

    if op.name in MORE_DIMENSIONS_THAN_NUMPY_HAS:
        with pytest.raises(ValueError, match="found 65"):
            list(op.error_inputs_func(op, "npu"))
        return
    # `op.error_inputs` seeds every generator anew for each input, which costs more than all the rest.
    expected = [error(given) for given in op.error_inputs_func(op, "cpu")]
    actual = [error(given) for given in op.error_inputs_func(op, "npu")]
    differing = {
        (op.full_name, number)
        for number, (ours, theirs) in enumerate(zip(actual, expected, strict=False))
        if theirs is not None and (ours is None or not issubclass(ours, theirs))
    }
    assert differing == {each for each in DIFFERENT if each[0] == op.full_name}


@pytest.mark.parametrize(
    "refused",
    [
        lambda x: torch.div(x, 2, rounding_mode="test"),
        lambda x: x.clamp(),
        lambda x: x.exponential_(-1),
        lambda x: x.roll((1, 2), (0,)),
        lambda x: x.to(torch.int8).random_(0, 1000),
        lambda x: x.to(torch.int8).random_(-1000, 10),
        lambda x: torch.add(x, 1.5, out=torch.empty(0, dtype=torch.int64, device=x.device)),
        lambda x: torch.argmax(x, 1, out=torch.empty(0, device=x.device)),
        lambda x: torch.mm(x, x.t(), out=torch.empty(0, dtype=torch.float64, device=x.device)),
        lambda x: torch.addmm(x.half(), x, x.t()),
        lambda x: torch.add(x.bool(), x.bool(), alpha=1.5),
        lambda x: x.to(torch.complex64) > 1,
        lambda x: x.to(torch.complex64).sort(),
        lambda x: x.to(torch.complex64).max(),
        lambda x: torch.dropout(x, 1.5, True),
        lambda x: x[0][1:].add_(x[0][:-1]),
        lambda x: x[:1].expand(4, 4).add_(1),
        lambda x: torch.empty(-1, device=x.device),
        lambda x: x.long().softmax(1),
        lambda x: x.bool().log_softmax(1),
        lambda x: torch.nn.functional.gelu(x.int()),
        lambda x: torch.nn.functional.silu(x.int()),
        lambda x: torch.nn.functional.layer_norm(x.long(), x.shape[1:]),
        lambda x: torch.nn.functional.batch_norm(x.long(), None, None, training=True),
        lambda x: torch.nn.functional.mse_loss(x.int(), x.int()),
        lambda x: torch.nn.functional.nll_loss(x.long(), x[:, 0].long()),
        lambda x: torch.nn.functional.nll_loss(x[:0], x[:0, 0].long(), x[0, 1:]),
        lambda x: torch.nn.functional.linear(x, x[0], x[0, 0]),
        lambda x: torch.nn.functional.linear(x[0], x[0], x[0, :1]),
        lambda x: torch._foreach_add_([x, x.clone()], [1.0, 2.0, 3.0]),
        lambda x: torch._foreach_mul([x, x], [1.0]),
        lambda x: torch._foreach_addcmul([x, x], [x, x], [x, x], [1.0]),
    ],
)
@pytest.mark.parametrize("size", [4, 256], ids=["small", "large"])
def test_what_the_cpu_refuses_is_refused(refused, size):
    for device in ("cpu", "npu"):
        with pytest.raises((RuntimeError, NotImplementedError)):
            refused(torch.ones(4 if size == 4 else size, size, device=device))


def test_integers_are_taken_where_cann_takes_them_and_the_cpu_does_not():
    x = torch.tensor([0, 1, 1, 3], device="npu")
    assert x.frac().tolist() == [0, 0, 0, 0]
    assert x.histc(4, 0, 4).tolist() == [1, 2, 0, 1]


def test_what_the_cpu_takes_is_checked_once_and_not_again():
    from gpu2npu.emulator.device.dispatch import checks

    checked = []
    original = checks.refusal

    def counting(signature, args, kwargs):
        checked.append(signature.name)
        return original(signature, args, kwargs)

    x = torch.randn(3, 7, device="npu")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checks, "refusal", counting)
        for value in (0.25, 0.6, 0.75):
            torch.nn.functional.leaky_relu(x, value)
        torch.nn.functional.leaky_relu(x, 1.5)
    assert checked == ["aten::leaky_relu"] * 2


def test_the_devices_of_a_call_must_agree():
    n, cpu = torch.ones(4, device="npu"), torch.ones(4)
    at = torch.tensor([0, 1], device="npu")
    for mixed in (
        lambda: torch.add(n, n, out=cpu),
        lambda: torch.add(cpu, cpu, out=n),
        lambda: n.__setitem__(at, cpu[:2]),
        lambda: n.__setitem__(n > 0, cpu),
    ):
        with pytest.raises(RuntimeError, match="same device"):
            mixed()
    n[at] = torch.tensor(3.0)
    n[torch.tensor([2])] = 5
    assert n.tolist() == [3, 3, 5, 1]
