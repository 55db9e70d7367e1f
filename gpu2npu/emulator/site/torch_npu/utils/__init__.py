"""torch_npu.utils."""

from .._absent import publish as _publish
from ..npu.utils import get_cann_version
from . import storage as storage  # a module, not a public name of the release
from .affinity import *
from .combine_tensors import *
from .flops_count import *
from .serialization import save_async

_publish(globals())
