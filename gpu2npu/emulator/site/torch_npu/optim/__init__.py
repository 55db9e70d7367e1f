"""torch_npu.optim: optimizers that update all parameters of a dtype with each operator."""

from .._absent import publish as _publish
from .npu_fused_adam import *
from .npu_fused_bert_adam import *
from .npu_fused_lamb import *
from .npu_fused_optim_base import *
from .npu_fused_rmsprop import *
from .npu_fused_sgd import *

_publish(globals())
