"""`torch_npu.distributed`: what it adds to torch.distributed, as far as the emulator has it."""

import torch.distributed

__all__ = ["is_available"]

is_available = torch.distributed.is_available  # hccl is carried by gloo, which every build with c10d has
