"""torch.npu.amp.sharded_grad_scaler: gradient scaling for sharded parameters is PyTorch's own."""

from typing import Any

from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler

__all__ = ["_ShardedGradScaler"]


class _ShardedGradScaler(ShardedGradScaler):
    """`torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler` for the device npu."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("npu", *args, **kwargs)
