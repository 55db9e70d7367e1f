"""Makes the emulated NPU of the test process, as PYTHONPATH does for a script."""

import os
import sys
from pathlib import Path

import pytest

SITE = Path(__file__).parents[2] / "gpu2npu" / "emulator" / "site"

if str(SITE) not in sys.path:
    sys.path.insert(0, str(SITE))

# Tests compare with the CPU, which has no HF32; test_cube.py switches it on.
os.environ["GPU2NPU_CONV_HF32"] = "0"

# What is tested are the NumPy kernels: borrowing torch's code is an error, but where a test is about that.
os.environ["GPU2NPU_STRICT"] = "1"

import torch_npu  # noqa: E402, F401


@pytest.fixture
def borrowing(monkeypatch):
    """Lets what has no kernel run torch's CPU code, as without `--strict`."""
    monkeypatch.delenv("GPU2NPU_STRICT")
