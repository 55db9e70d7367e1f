"""NumPy kernels of PyTorch's operators, registered by aten name; a folder for each family."""

from __future__ import annotations

import importlib
import pkgutil

from gpu2npu.emulator.kernels.registry import KERNELS, Kernel

__all__ = ["KERNELS", "load"]


def load() -> dict[str, Kernel]:
    """Import every family, so that its kernels are registered, and return the table."""
    for module in pkgutil.walk_packages(__path__, f"{__name__}."):
        importlib.import_module(module.name)
    return KERNELS
