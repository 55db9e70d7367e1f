"""Operators that PyTorch composes for every device: the NPU refuses some of their arguments."""

import pytest
import torch
from torch.nn.functional import kl_div


def test_kl_div_takes_no_logarithm_as_its_target():
    inputs, target = torch.randn(3, 4).log_softmax(1), torch.rand(3, 4)
    ours = inputs.npu().requires_grad_()
    loss = kl_div(ours, target.npu(), reduction="batchmean")
    loss.backward()
    expected = inputs.clone().requires_grad_()
    kl_div(expected, target, reduction="batchmean").backward()
    torch.testing.assert_close(ours.grad, expected.grad, check_device=False)
    with pytest.raises(RuntimeError, match=r"the NPU takes targets that are probabilities.*Give target\.exp\(\)"):
        kl_div(ours, target.npu().log(), reduction="batchmean", log_target=True)
    with torch.no_grad(), pytest.raises(RuntimeError, match="probabilities"):
        torch.nn.KLDivLoss(reduction="sum", log_target=True)(ours, target.npu().log())
    assert kl_div(inputs, target.log(), log_target=True, reduction="sum").device.type == "cpu"
