"""torch_npu.contrib.module."""

from ..._absent import publish as _publish
from ..._absent import refusing_class as _refusing_class
from ._batchnorm_with_int32_count import *
from ._ensemble_dropout import *
from .activations import *
from .deform_conv import *
from .layers import *
from .multihead_attention import MultiheadAttention
from .prefetcher import *
from .quantized import *

FusedColorJitter = _refusing_class("torch_npu.contrib.module.FusedColorJitter")
QuantConv2d = _refusing_class("torch_npu.contrib.module.QuantConv2d")
_publish(globals())
