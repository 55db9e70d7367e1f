"""The name `torchair` for `torch_npu.dynamo.torchair` and its modules."""

import sys

from torch_npu.dynamo import torchair  # type: ignore[import-not-found]
from torch_npu.dynamo.torchair.configs import compiler_config  # type: ignore[import-not-found]

sys.modules[__name__] = torchair
sys.modules[f"{__name__}.configs"] = sys.modules[compiler_config.__name__.rpartition(".")[0]]
sys.modules[f"{__name__}.configs.compiler_config"] = compiler_config
