"""Operators that PyTorch composes of others, and torch_npu does not register, need no kernel of their own."""

import pytest
import torch
from torch.testing import assert_close

from gpu2npu.emulator.device.dispatch.tally import ComputedBy, counts
from gpu2npu.emulator.kernels.registry import KERNELS

aten = torch.ops.aten
X = torch.arange(60.0).reshape(3, 4, 5)
HIDDEN = torch.tensor([[0.5, -float("inf"), 2.0], [-float("inf")] * 3])
BATCH, CHANNELS = torch.arange(60.0).reshape(4, 3, 5).sin(), torch.tensor([0.5, 1.5, 2.0])
INDEX, MASK = torch.tensor([0, 9, 0, 2]), torch.tensor([True, False, True, True])

COMPOSED = {
    "rot90": [(X, turns, dims) for turns in (-1, 0, 1, 2, 5) for dims in ([0, 1], [2, 0], [-1, -2])],
    "block_diag": [([X[0], torch.tensor(3), torch.ones(2), torch.empty(0, 2)],)],
    "diagonal_backward": [(torch.ones(5, 3), [3, 4, 5], 0, 0, 1), (torch.ones(4, 2), [3, 4, 5], -1, 0, 2)],
    "masked_scatter_backward": [(X, X > 20, [50]), (X[0], MASK[:, None].expand(4, 5), [4, 5])],
    "value_selecting_reduction_backward": [
        (X[0], 1, torch.arange(20).reshape(4, 5) % 3, [4, 3, 5], False),
        (X[0, :, :1], 1, INDEX[:, None] % 3, [4, 3], True),
    ],
    "_safe_softmax": [(HIDDEN, 1), (HIDDEN.half(), 0), (HIDDEN, -1, torch.float64)],
    "_unsafe_masked_index": [(X[0, :, 0], MASK, [INDEX % 4], 0.5)],
    "_unsafe_masked_index_put_accumulate": [(torch.zeros(4), MASK, [INDEX % 4], torch.ones(4))],
    "_native_batch_norm_legit_functional": [
        (BATCH, CHANNELS, CHANNELS, CHANNELS, CHANNELS, training, 0.2, 1e-4) for training in (True, False)
    ],
    "_native_batch_norm_legit_no_training": [(BATCH, None, None, CHANNELS, CHANNELS, 0.1, 1e-3)],
}  # fmt: skip


# What the NPU has as one operator, and PyTorch's definition composes here: `here` of the report is "its parts".
GRAD, INPUT = torch.arange(-6.0, 6).reshape(3, 4), torch.arange(12.0).reshape(3, 4).cos()
DEFINED = {
    "elu_backward": (GRAD, 1, 2, 1, False, INPUT),
    "log_sigmoid_forward": (INPUT,),
    "softshrink": (INPUT, 0.25),
    "renorm": (GRAD, 2, 0, 3.0),
    "trace": (GRAD[:, :3],),
}


def on(device, value):
    if isinstance(value, list):
        return [on(device, each) for each in value]
    return value.to(device) if isinstance(value, torch.Tensor) else value


def borrowed():
    return sum(calls for (_, kind), (calls, _) in counts().items() if kind is not ComputedBy.NUMPY)


@pytest.mark.parametrize("name", COMPOSED)
def test_it_gives_what_the_cpu_gives_by_kernels_alone(name):
    operator, before = getattr(aten, name).default, borrowed()
    assert f"aten::{name}" not in KERNELS
    for arguments in COMPOSED[name]:
        expected, result = (operator(*on(device, list(arguments))) for device in ("cpu", "npu"))
        results = result if isinstance(result, tuple) else (result,)
        assert all(each.device.type == "npu" for each in results)
        expected = expected if isinstance(expected, tuple) else (expected,)
        for theirs, ours in zip(expected, results, strict=True):
            assert_close(ours.cpu(), theirs, check_dtype=theirs.dtype is not torch.float64, equal_nan=True)
    assert borrowed() == before


@pytest.mark.parametrize("name", DEFINED)
def test_a_definition_computes_and_the_report_says_so(name):
    packet = getattr(aten, name)
    kinds = {kind: counts().get((packet.default.name(), kind), (0,))[0] for kind in ComputedBy}
    expected, result = (packet.default(*on(device, list(DEFINED[name]))) for device in ("cpu", "npu"))
    results, expected = ((each if isinstance(each, tuple) else (each,)) for each in (result, expected))
    for ours, theirs in zip(results, expected, strict=True):
        if theirs.numel():  # the CPU alone fills the buffer of log_sigmoid
            assert_close(ours.cpu(), theirs)
    now = {kind: counts().get((packet.default.name(), kind), (0,))[0] for kind in ComputedBy}
    assert {kind for kind in ComputedBy if now[kind] > kinds[kind]} == {ComputedBy.PARTS}


def test_a_definition_writes_into_what_it_is_given():
    target, scaled = torch.empty(3, 4, device="npu"), GRAD.npu()
    assert aten.softshrink.out(INPUT.npu(), 0.25, out=target) is target
    assert_close(target.cpu(), aten.softshrink(INPUT, 0.25))
    assert scaled.renorm_(2, 0, 3.0) is scaled
    assert_close(scaled.cpu(), GRAD.renorm(2, 0, 3.0))
    with pytest.raises(RuntimeError, match="lambda must be in range") as caught:
        aten.softshrink(INPUT.npu(), -1)
    assert str(caught.value.__notes__[0]).startswith("raised by the operator aten::softshrink")
