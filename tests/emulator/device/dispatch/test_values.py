"""Rows that depend on the numbers of a tensor."""

import pytest
import torch

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


def test_nested_tensors_are_made_and_nothing_else():
    """A limit of tools/behaviour/drawn.csv without a row: a verdict says so."""
    with pytest.raises((RuntimeError, NotImplementedError)):
        torch.nested.as_nested_tensor([X.npu(), X.npu()[:2]]).mul(2)


def test_float8_is_moved_and_neither_made_nor_copied():
    there = torch.ones(4).to(torch.float8_e4m3fn).npu()
    assert there.view(2, 2)[1:].cpu().float().tolist() == [[1, 1]]
    for call in (
        lambda: torch.full((2,), 1.0, dtype=torch.float8_e5m2, device="npu"),
        lambda: torch.zeros_like(there),
        lambda: there.new_ones(2),
        lambda: there.view(2, 2).t().contiguous(),
        lambda: there.fill_(there[0]),
        lambda: torch.stack([there, there]),
    ):
        with pytest.raises(RuntimeError, match=r"call aclnn.*DT_FLOAT8_E"):
            call()
