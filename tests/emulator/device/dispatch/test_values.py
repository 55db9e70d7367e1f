"""Rows that depend on the numbers of a tensor."""

import pytest
import torch
from torch.nn import functional as F

from gpu2npu.emulator.device.dispatch.limits import LimitError

X = torch.ones(4, 8, dtype=torch.float16)


def quantized(groups):
    import torch_npu

    return torch_npu.npu_group_quant(X.npu(), torch.ones(len(groups), 8).npu(), torch.tensor(groups).int().npu())


@pytest.mark.parametrize("groups", [[4, 2], [-1, 4], [2, 3]])
def test_numbers_that_are_refused(groups):
    for _ in range(2):  # a call of these shapes and dtypes is not remembered as right
        assert quantized([2, 4]).shape == (4, 8)
        with pytest.raises(LimitError, match=r"\[npu_group_quant-order\]"):
            quantized(groups)


# The limits of tools/behaviour/drawn.csv without a row that PyTorch itself refuses, or of which a verdict says so.
@pytest.mark.parametrize(
    "call",
    [
        lambda: torch.bitwise_or(X.npu(), X.npu()),
        lambda: torch.lt(X.npu().to(torch.complex64), 1),
        lambda: F.batch_norm(X.npu(), torch.ones(8).npu(), torch.ones(8).npu(), bias=torch.ones(4).npu()),
        lambda: F.group_norm(X.npu()[0], 1),
        lambda: F.max_unpool2d(X.npu()[None, None], torch.zeros(1, 1, 4, 8).long().npu(), 2, output_size=(1, 1)),
        lambda: F.interpolate(X.npu(), 2, mode="nearest"),
        lambda: torch.nested.as_nested_tensor([X.npu(), X.npu()[:2]]).mul(2),
    ],
)
def test_drawn_limits_without_a_row(call):
    with pytest.raises((RuntimeError, ValueError, NotImplementedError)):
        call()
