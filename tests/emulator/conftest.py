"""Makes the emulated NPU of the test process, as PYTHONPATH does for a script."""

import random
import sys
from contextvars import ContextVar
from pathlib import Path

import numpy as np
import pytest
import torch

SITE = Path(__file__).parents[2] / "gpu2npu" / "emulator" / "site"

if str(SITE) not in sys.path:
    sys.path.insert(0, str(SITE))

import torch_npu  # noqa: E402, F401

from gpu2npu.emulator.device.dispatch import limits  # noqa: E402


@pytest.fixture(autouse=True)
def same_start(monkeypatch):
    """Every test begins alike, alone and after any other.

    What is tested are the NumPy kernels: borrowing torch's code is an error, but where a test is about that. Results
    are compared with the CPU's, which has no HF32; test_cube.py switches it on.
    """
    monkeypatch.setenv("GPU2NPU_STRICT", "1")
    monkeypatch.setenv("GPU2NPU_CONV_HF32", "0")  # for processes
    monkeypatch.setattr(torch.npu.conv, "allow_hf32", False)
    # What torch.manual_seed does, without half a millisecond of torch's compiler.
    for seed in (random.seed, np.random.seed, torch.default_generator.manual_seed, torch.npu.manual_seed_all):
        seed(0)


@pytest.fixture
def borrowing(monkeypatch, same_start):
    """Lets what has no kernel run torch's CPU code, as without `--strict`."""
    monkeypatch.delenv("GPU2NPU_STRICT")


@pytest.fixture
def beyond_the_table(monkeypatch):
    """Compute what the table of behaviour refuses, to compare more of the arithmetic."""
    monkeypatch.setattr(limits, "refuses", ContextVar("refuses", default=False))
