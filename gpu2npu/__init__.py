"""Migrate PyTorch projects from NVIDIA GPUs to Huawei Ascend NPUs."""

# Nothing is imported here: `python -m gpu2npu` comes here before it takes the current folder from sys.path.
TYPE_CHECKING = False
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


def __getattr__(name: str) -> object:
    """Import gpu2npu.api when one of its names is first asked for: it takes longer than all that is here."""
    if name in __all__:
        from importlib import import_module

        return getattr(import_module("gpu2npu.api"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
