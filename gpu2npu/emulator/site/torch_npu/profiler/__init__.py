"""torch_npu.profiler: the operators of a script on the NPU, in a trace and in tables."""

from .experimental_config import (
    AiCMetrics,
    ExportType,
    HostSystem,
    ProfilerLevel,
    _ExperimentalConfig,
    supported_ai_core_metrics,
    supported_export_type,
    supported_profiler_level,
)
from .scheduler import ProfilerAction, Schedule

__all__ = [
    "AiCMetrics",
    "ExportType",
    "HostSystem",
    "ProfilerAction",
    "ProfilerActivity",
    "ProfilerLevel",
    "_ExperimentalConfig",
    "profile",
    "schedule",
    "supported_activities",
    "supported_ai_core_metrics",
    "supported_export_type",
    "supported_profiler_level",
    "tensorboard_trace_handler",
]

from .profiler import ProfilerActivity, _KinetoProfile, profile, supported_activities, tensorboard_trace_handler

schedule = Schedule
_ = _KinetoProfile
