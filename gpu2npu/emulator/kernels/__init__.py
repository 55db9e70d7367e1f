"""NumPy kernels, one module a family, registered by aten name."""

from __future__ import annotations

import importlib
import pkgutil

from gpu2npu.emulator.kernels.registry import KERNELS, Kernel

__all__ = ["KERNELS", "load"]


def load() -> dict[str, Kernel]:
    """Import every family, so that its kernels are registered, and return the table."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return KERNELS
