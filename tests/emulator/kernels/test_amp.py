"""GradScaler's operators against torch's."""

import pytest
import torch

aten = torch.ops.aten


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("bad", [None, float("inf"), float("nan")])
def test_unscale(dtype, bad, check):
    gradients = [torch.randn(3, 4).to(dtype), torch.randn(5).to(dtype)]
    if bad is not None:
        gradients[1][2] = bad
    check(aten._amp_foreach_non_finite_check_and_unscale_.default, gradients, torch.zeros(1), torch.tensor(1 / 64))


@pytest.mark.parametrize("overflow", [0.0, 1.0])
@pytest.mark.parametrize("tracker", [0, 4])
@pytest.mark.parametrize("scale", [1024.0, 3e38])
def test_update_scale(overflow, tracker, scale, check):
    state = (torch.tensor([scale]), torch.tensor([tracker], dtype=torch.int32), torch.tensor([overflow]))
    check(aten._amp_update_scale_.default, *state, 2.0, 0.5, 5)
