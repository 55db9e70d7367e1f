"""torch_npu.contrib: modules and functions that run well on NPUs, and the migration of CUDA scripts as they run."""

from . import function, module
from .function import *  # noqa: F403
from .module import *  # noqa: F403

__all__ = [*function.__all__, *module.__all__]
