"""torch_npu.profiler: the operators of a script on the NPU, in a trace and in tables."""

from .._absent import publish as _publish
from .experimental_config import *
from .profiler import *
from .profiler import _KinetoProfile as _KinetoProfile
from .scheduler import ProfilerAction
from .scheduler import Schedule as schedule  # noqa: N813

_publish(globals(), "_ExperimentalConfig")
