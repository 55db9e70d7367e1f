"""torch_npu.contrib: modules and functions that run well on NPUs, and the migration of CUDA scripts as they run."""

from .._absent import publish as _publish
from .function import *
from .module import *

_publish(globals())
