"""The choice of what a profile collects, in torch_npu's words.

The emulator has no counters, so most of it is only kept.
"""

from __future__ import annotations

import warnings
from typing import Any

__all__ = [
    "AiCMetrics",
    "ExportType",
    "HostSystem",
    "ProfilerLevel",
    "_ExperimentalConfig",
    "supported_ai_core_metrics",
    "supported_export_type",
    "supported_profiler_level",
]


class ProfilerLevel:
    """The amount that is collected; Level1 and above add shapes and dtypes to the kernels."""

    Level0 = "Level0"
    Level1 = "Level1"
    Level2 = "Level2"
    Level_none = "Level_none"


class AiCMetrics:
    """Groups of counters of the AI cores."""

    PipeUtilization = "ACL_AICORE_PIPE_UTILIZATION"
    ArithmeticUtilization = "ACL_AICORE_ARITHMETIC_UTILIZATION"
    Memory = "ACL_AICORE_MEMORY_BANDWIDTH"
    MemoryL0 = "ACL_AICORE_L0B_AND_WIDTH"
    MemoryUB = "ACL_AICORE_MEMORY_UB"
    ResourceConflictRatio = "ACL_AICORE_RESOURCE_CONFLICT_RATIO"
    L2Cache = "ACL_AICORE_L2_CACHE"
    MemoryAccess = "ACL_AICORE_MEMORY_ACCESS"
    AiCoreNone = "ACL_AICORE_NONE"


class ExportType:
    """Text is CSV and JSON, Db two SQLite databases."""

    Db = "db"
    Text = "text"


class HostSystem:
    """The parts of the host that may be sampled."""

    CPU = "cpu"
    MEM = "mem"
    DISK = "disk"
    NETWORK = "network"
    OSRT = "osrt"


def _values(kind: type) -> set[str]:
    return {value for name, value in vars(kind).items() if not name.startswith("__")}


def supported_profiler_level() -> set[str]:
    """The values of ProfilerLevel."""
    return _values(ProfilerLevel)


def supported_ai_core_metrics() -> set[str]:
    """The values of AiCMetrics."""
    return _values(AiCMetrics)


def supported_export_type() -> set[str]:
    """The values of ExportType."""
    return _values(ExportType)


class _ExperimentalConfig:
    """Options of a profile; an `export_type` that does not exist becomes text, with a warning."""

    def __init__(
        self,
        profiler_level: str = ProfilerLevel.Level0,
        aic_metrics: str = AiCMetrics.AiCoreNone,
        l2_cache: bool = False,
        msprof_tx: bool = False,
        mstx: bool = False,
        data_simplification: bool = True,
        record_op_args: bool = False,
        op_attr: bool = False,
        gc_detect_threshold: float | None = None,
        export_type: str | list[str] = ExportType.Text,
        host_sys: list[str] | None = None,
        mstx_domain_include: list[str] | None = None,
        mstx_domain_exclude: list[str] | None = None,
        sys_io: bool = False,
        sys_interconnection: bool = False,
    ) -> None:
        types = [export_type] if isinstance(export_type, str) else list(export_type or ())
        if not types or not supported_export_type().issuperset(types):
            warnings.warn("Invalid parameter export_type, reset it to text.", stacklevel=2)
            types = [ExportType.Text]
        self.options: dict[str, Any] = {
            "_profiler_level": profiler_level,
            "_aic_metrics": aic_metrics,
            "_l2_cache": l2_cache,
            "_msprof_tx": msprof_tx or mstx,
            "_data_simplification": data_simplification,
            "_record_op_args": record_op_args,
            "_export_type": types,
            "_mstx_domain_include": mstx_domain_include or [],
            "_mstx_domain_exclude": mstx_domain_exclude or [],
        }
