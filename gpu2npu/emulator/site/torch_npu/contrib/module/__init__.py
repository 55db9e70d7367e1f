"""torch_npu.contrib.module."""

from ..._absent import publish as _publish
from ._batchnorm_with_int32_count import *
from ._ensemble_dropout import *
from ._unsupported import *
from .activations import *
from .deform_conv import *
from .layers import *
from .multihead_attention import MultiheadAttention
from .prefetcher import *
from .quantized import *

_publish(globals())
