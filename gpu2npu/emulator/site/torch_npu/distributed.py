"""`torch_npu.distributed`: what it adds to torch.distributed, as far as the emulator has it."""

import torch.distributed

from gpu2npu.emulator.distributed.hccl import ProcessGroupHCCL

__all__ = ["ProcessGroupHCCL", "is_available"]


def is_available() -> bool:
    """Whether HCCL can be used: wherever PyTorch was built with gloo, which carries it here."""
    return torch.distributed.is_available() and torch.distributed.is_gloo_available()
