"""PyTorch's own test tables: operators (`op_db`), modules (`module_db`) and optimizers (`optim_db`)."""

from __future__ import annotations

import sys
import types
import unittest
import warnings
from typing import Any

import torch

SUITES = ("op_db", "module_db", "optim_db")


def load(suite: str) -> list[tuple[str, Any]]:
    """Names and entries of one suite; of operators those that support float32 on the CPU, in torch's order.

    Raises:
        ValueError: There is no such suite.
    """
    # torch's tables import expecttest, which users of torch do not have, for one base class.
    if "expecttest" not in sys.modules:
        module = types.ModuleType("expecttest")
        module.TestCase = unittest.TestCase  # type: ignore[attr-defined]
        sys.modules["expecttest"] = module
    warnings.simplefilter("ignore")  # PyTorch's samples try its edges and its deprecated forms
    if suite == "op_db":
        from torch.testing._internal.common_methods_invocations import op_db

        return _named([(op.full_name, op) for op in op_db if torch.float32 in op.dtypes])
    if suite == "module_db":
        from torch.testing._internal.common_modules import module_db

        return _named([(info.name, info) for info in module_db if torch.float32 in info.dtypes])
    if suite == "optim_db":
        from torch.testing._internal.common_optimizers import optim_db

        return _named([(info.name, info) for info in optim_db])
    raise ValueError(f"no suite {suite}: there are {', '.join(SUITES)}")


def _named(entries: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Entries that share a name get a number, so that every name means one."""
    seen: dict[str, int] = {}
    named = []
    for name, entry in entries:
        seen[name] = seen.get(name, 0) + 1
        named.append((name if seen[name] == 1 else f"{name}#{seen[name]}", entry))
    return named
