"""`torch_npu.distributed.fsdp`: PyTorch's FSDP runs unchanged, so nothing is patched."""

from torch.distributed.fsdp import fully_shard

__all__ = ["fully_shard"]
