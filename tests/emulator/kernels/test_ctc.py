import pytest
import torch
import torch.nn.functional as F


@pytest.mark.parametrize("zero_infinity", [True, False])
def test_an_impossible_alignment_among_possible_ones(zero_infinity):
    scores = torch.randn(5, 2, 4, generator=torch.Generator().manual_seed(0))
    targets = torch.tensor([[1, 2, 0, 0, 0, 0], [1, 1, 2, 2, 3, 3]])  # six labels do not fit into five steps
    results = []
    for device in ("cpu", "npu"):
        x = scores.to(device, copy=True).requires_grad_()
        lengths = torch.tensor([5, 5]), torch.tensor([2, 6])
        loss = F.ctc_loss(
            x.log_softmax(-1), targets.to(device), *lengths, zero_infinity=zero_infinity, reduction="none"
        )
        loss.sum().backward()
        results.append((loss.detach().cpu(), x.grad.cpu()))
    torch.testing.assert_close(results[1], results[0], equal_nan=True)
    assert results[1][1][:, 1].abs().sum().item() == 0 or not zero_infinity
