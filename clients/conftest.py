"""Fixtures of the clients' tests: the emulated NPU, as `gpu2npu run` sets it up, and comparisons with the CPU."""

import copy
import shutil
import sys
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

if not hasattr(torch, "npu"):
    pytest.exit("these tests run on the emulated NPU: start them with `gpu2npu run -m pytest clients`", 2)

TOLERANCES = {"rtol": 1e-4, "atol": 1e-5}


@pytest.fixture(autouse=True)
def exact_convolutions(monkeypatch):
    """The CPU has no HF32, which the NPU's convolutions use by default."""
    monkeypatch.setattr(torch.npu.conv, "allow_hf32", False)
    torch.manual_seed(0)


@pytest.fixture
def gpu2npu():
    """The command of the environment that the tests run in."""
    return shutil.which("gpu2npu", path=str(Path(sys.executable).parent))


@pytest.fixture
def same_training():
    """Compare training on both devices: losses, gradients and weights of two steps. Returns the model on the NPU."""

    def train(model, inputs, device):
        model = copy.deepcopy(model).to(device).train()
        inputs = {name: value.to(device) for name, value in inputs.items()}
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, eps=1e-4)
        losses = []
        for _ in range(2):
            optimizer.zero_grad()
            loss = model(**inputs).loss
            loss.backward()
            losses.append(loss.detach())
            gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
            optimizer.step()
        return model, {"losses": losses, "gradients": gradients, "weights": dict(model.named_parameters())}

    def check(model, inputs):
        _, expected = train(model, inputs, "cpu")
        trained, actual = train(model, inputs, "npu")
        assert {p.device.type for p in trained.parameters()} == {"npu"}
        assert expected["gradients"]
        assert expected["losses"][1] < expected["losses"][0]
        assert_close(actual, expected, check_device=False, **TOLERANCES)
        return trained

    return check
