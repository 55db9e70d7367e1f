"""Ascend's apex: levels of mixed precision, scaled losses and skipped steps."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from gpu2npu.emulator import launch


@pytest.fixture
def amp(monkeypatch):
    monkeypatch.syspath_prepend(str(launch.APEX))
    from apex import amp

    return amp


def _model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1)).npu()


def _trained(amp, level: str, optimizer_class, **options) -> tuple[nn.Module, list[float]]:
    model = _model()
    optimizer = optimizer_class(model.parameters(), lr=0.05)
    model, optimizer = amp.initialize(model, optimizer, opt_level=level, **options)
    x = torch.randn(16, 6, generator=torch.Generator().manual_seed(1)).npu()
    losses = []
    for _ in range(12):
        optimizer.zero_grad()
        loss = (model(x) - x[:, :1]).square().mean()
        with amp.scale_loss(loss, optimizer) as scaled:
            scaled.backward()
        optimizer.step()
        losses.append(loss.item())
    return model, losses


@pytest.mark.parametrize("level", ["O0", "O1", "O2", "O3"])
def test_each_level_learns_as_float32_does(amp, level):
    from apex.optimizers import NpuFusedSGD

    plain = _trained(amp, "O0", torch.optim.SGD)[1]
    for optimizer in (torch.optim.SGD, NpuFusedSGD):
        model, losses = _trained(amp, level, optimizer, loss_scale=128.0)
        assert losses == pytest.approx(plain, rel=0.05)
        halves = {"O0": 0, "O1": 0, "O2": 4, "O3": 6}[level]
        assert sum(each.dtype == torch.float16 for each in model.parameters()) == halves


def test_an_overflow_halves_the_scale_and_skips_the_step(amp):
    model = _model()
    model, optimizer = amp.initialize(model, torch.optim.SGD(model.parameters(), lr=1.0), opt_level="O2")
    before = [each.clone() for each in amp.master_params(optimizer)]
    for scale in (2.0**16, 2.0**15):
        assert amp.state_dict() == {"loss_scaler0": {"loss_scale": scale, "unskipped": 0}}
        with amp.scale_loss(model(torch.ones(4, 6).npu()).sum() * 1e30, optimizer) as scaled:
            scaled.backward()
        optimizer.step()
        optimizer.zero_grad()
    assert all(torch.equal(one, other) for one, other in zip(before, amp.master_params(optimizer), strict=True))


def test_what_amp_refuses(amp):
    with pytest.raises(RuntimeError, match="Unexpected optimization level O5"):
        amp.initialize(_model(), opt_level="O5")
    with pytest.raises(RuntimeError, match="on cpu: move the model to the NPU first"):
        amp.initialize(nn.Linear(2, 2), opt_level="O1")


def test_programs_find_apex_only_where_it_is_requested():
    for value, expected in (("0", False), ("1", True)):
        environment = launch.emulating({"GPU2NPU_APEX": value}, python="/usr/bin/python")
        assert (str(launch.APEX) in environment["PYTHONPATH"]) == expected
