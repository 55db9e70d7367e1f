"""torch_npu's own operators, `torch.ops.npu.*`: schemas, kernels and gradients, one module a family."""

from __future__ import annotations

import importlib
import pkgutil


def load() -> None:
    """Import every family, so that its kernels and gradients are registered."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
