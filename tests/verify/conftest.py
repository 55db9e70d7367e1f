"""Tests that play CUDA's part need a PyTorch without it."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def cpu_build() -> None:
    """Skip a test where PyTorch is built for GPUs, whose part nothing else can play there."""
    import torch

    if torch.version.cuda or torch.version.hip:
        pytest.skip(f"torch {torch.__version__} is built for GPUs, whose part only a CPU build can play")
