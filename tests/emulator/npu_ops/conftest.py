"""Compare an operator of torch_npu's on the npu device with its formula in torch on the CPU, gradients included."""

import pytest
import torch

TOLERANCE = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


def _moved(value):
    if isinstance(value, torch.Tensor):
        return value.npu()
    if isinstance(value, (list, tuple)):
        return type(value)(_moved(item) for item in value)
    return value


def _first(result, output):
    return result[output] if isinstance(result, (tuple, list)) else result


def _close(ours, reference, what):
    assert ours.device.type == "npu", what
    error = TOLERANCE.get(ours.dtype, 0)
    expected = reference.to(ours.dtype)
    scale = max(1.0, float(reference.abs().max())) if reference.is_floating_point() and reference.numel() else 1.0
    torch.testing.assert_close(ours.cpu(), expected, rtol=error, atol=error * scale, msg=lambda m: f"{what}: {m}")


def agrees(operator, formula, *args, output=0, dtype=torch.float32, gradients=True, **kwargs):
    """The operator's result number `output`, and the gradients of every floating tensor, equal the formula's.

    The formula is computed in float32 on what the arguments are worth in `dtype`.
    """

    def prepared(value):
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            return value.to(dtype)
        return value

    args = [prepared(value) for value in args]
    kwargs = {name: prepared(value) for name, value in kwargs.items()}
    ours, theirs, named_ours, named_theirs = [], [], {}, {}
    for key, value in [*enumerate(args), *kwargs.items()]:
        one, other = _moved(value), value
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            other = value.float().clone().requires_grad_(gradients)
            one = one.requires_grad_(gradients)
        if isinstance(key, int):
            ours.append(one)
            theirs.append(other)
        else:
            named_ours[key], named_theirs[key] = one, other
    result = _first(operator(*ours, **named_ours), output)
    expected = formula(*theirs, **named_theirs)
    _close(result.detach(), expected.detach(), "result")
    assert result.shape == expected.shape
    if not gradients:
        return
    flow = torch.linspace(-1, 2, expected.numel()).reshape(expected.shape)
    result.backward(flow.to(result.dtype).npu())
    expected.backward(flow)
    pairs = [*zip(ours, theirs, strict=True), *((named_ours[name], named_theirs[name]) for name in named_ours)]
    for i, (one, other) in enumerate(pairs):
        if isinstance(other, torch.Tensor) and other.grad is not None:
            assert one.grad is not None, f"no gradient for argument {i}"
            assert one.grad.dtype is one.dtype
            _close(one.grad, other.grad, f"gradient of argument {i}")


@pytest.fixture(name="agrees", scope="session")
def agrees_fixture():
    return agrees


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(7)
    torch.set_num_threads(1)
