"""torch.npu.amp: mixed precision by PyTorch's own autocast and gradient scaler, for the device npu."""

from torch_npu.npu.amp import common
from torch_npu.npu.amp.autocast_mode import autocast, custom_bwd, custom_fwd
from torch_npu.npu.amp.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "common", "custom_bwd", "custom_fwd"]
