"""torch_npu's own operators, `torch.ops.npu.*`: schemas, kernels and gradients, one module a family."""

from __future__ import annotations

import importlib
import pkgutil


def load() -> None:
    """Import every family, so that its kernels and gradients are registered."""
    for module in pkgutil.walk_packages(__path__, f"{__name__}."):
        importlib.import_module(module.name)
