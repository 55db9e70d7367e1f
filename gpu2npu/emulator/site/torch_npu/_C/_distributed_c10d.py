"""`torch_npu._C._distributed_c10d`: the process group and its options, under the names scripts import."""

from typing import Any

from gpu2npu.emulator.distributed.hccl import ProcessGroupHCCL

__all__ = ["ParallelStore", "ProcessGroupHCCL"]


class ParallelStore:
    """torch_npu's store for thousands of ranks, which the emulator has no use for."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError("ParallelStore: not emulated; use torch.distributed.TCPStore")


def _is_support_hccl_comm_name() -> bool:
    """Return whether `hccl_config` may name a communicator."""
    return True
