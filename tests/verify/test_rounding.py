"""Operators of a device that round otherwise, as on a real GPU; tried on the CPU."""

import numpy as np
import pytest
import torch
from torch import nn

from gpu2npu.verify.reference import rounding
from gpu2npu.verify.reference.rounding_mode import Rounding


@pytest.fixture
def mode(monkeypatch: pytest.MonkeyPatch) -> Rounding:
    monkeypatch.setattr(rounding, "_numbers", np.random.default_rng(0))
    return Rounding("cpu")


def trained() -> tuple[torch.Tensor, torch.Tensor]:
    """A gradient and a weight after one step."""
    numbers = torch.linspace(-1, 1, 60).view(4, 15)
    net = nn.Sequential(nn.Linear(15, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3))
    for number, parameter in enumerate(net.parameters()):
        nn.init.constant_(parameter, 0.1 + number / 7) if parameter.dim() == 1 else parameter.data.copy_(
            torch.linspace(-0.5, 0.4, parameter.numel()).sin().view_as(parameter)
        )
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    nn.functional.cross_entropy(net(numbers), torch.tensor([0, 1, 2, 0])).backward()
    optimizer.step()
    first = net[0].weight
    assert isinstance(first, nn.Parameter) and first.grad is not None
    return first.grad, first.detach()


def test_training_rounds_otherwise_and_hardly_differs(mode: Rounding) -> None:
    plain = trained()
    with mode:
        moved = trained()
    assert trained()[0].equal(plain[0])
    for one, other in zip(plain, moved, strict=True):
        apart = float((one - other).norm() / one.norm())
        assert 0 < apart < 1e-3


def test_whole_numbers_and_other_devices_stay_as_they_are(mode: Rounding) -> None:
    numbers = torch.arange(1 << 10)
    with mode:
        assert (numbers * 3).sum() == 3 * (1 << 10) * ((1 << 10) - 1) // 2
        assert (torch.ones(3) > 0.5).all() and torch.relu(torch.tensor([-1.0, 2.0])).tolist() == [0.0, 2.0]
    with Rounding("cuda"):
        assert (torch.ones(8) * 3).tolist() == [3.0] * 8
