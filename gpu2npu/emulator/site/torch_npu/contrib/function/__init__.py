"""torch_npu.contrib.function."""

from ..._absent import publish as _publish
from .boxes import *
from .fuse_add_softmax_dropout import *
from .fused_attention import *
from .index_op import *
from .matmul_transpose import *
from .nms import *
from .npu_functional import *
from .roll import *

_publish(globals())

from .matmul_transpose import MatmulApply  # noqa: E402
