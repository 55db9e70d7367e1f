"""Migrate PyTorch projects from NVIDIA GPUs to Huawei Ascend NPUs."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpu2npu.api import (
        Changes,
        CheckedProject,
        Findings,
        Migrated,
        MigratedProject,
        OutputError,
        SourceError,
        UsageError,
        check_project,
        migrate_project,
        migrate_source,
    )

__version__ = "0.1.0"
__all__ = [
    "Changes",
    "CheckedProject",
    "Findings",
    "Migrated",
    "MigratedProject",
    "OutputError",
    "SourceError",
    "UsageError",
    "check_project",
    "migrate_project",
    "migrate_source",
]


def __getattr__(name: str) -> Any:
    """Import gpu2npu.api when one of its names is first asked for: it takes longer than all that stands here."""
    if name in __all__:
        return getattr(import_module("gpu2npu.api"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
