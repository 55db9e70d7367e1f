"""`torch_npu.distributed`: what torch_npu adds to torch.distributed."""

import torch.distributed

from .._C._distributed_c10d import ParallelStore, _is_support_hccl_comm_name
from . import nn, tensor
from .distributed_c10d import (
    _all_gather_into_tensor_uneven as all_gather_into_tensor_uneven,
)
from .distributed_c10d import (
    _all_to_all_vc as all_to_all_vc,
)
from .distributed_c10d import (
    _reduce_scatter_tensor_uneven as reduce_scatter_tensor_uneven,
)
from .distributed_c10d import is_hccl_available, reinit_process_group

__all__ = [
    "ParallelStore",
    "_is_support_hccl_comm_name",
    "all_gather_into_tensor_uneven",
    "all_to_all_vc",
    "is_available",
    "is_hccl_available",
    "nn",
    "reduce_scatter_tensor_uneven",
    "reinit_process_group",
    "tensor",
]

is_available = torch.distributed.is_available  # hccl is carried by gloo, which every build with c10d has
_verify_params_across_processes = torch.distributed._verify_params_across_processes  # type: ignore[attr-defined]
torch.distributed.reinit_process_group = reinit_process_group  # type: ignore[attr-defined]
