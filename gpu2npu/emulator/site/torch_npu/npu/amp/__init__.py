"""torch.npu.amp: mixed precision by PyTorch's own autocast and gradient scaler, for the device npu."""

from . import common
from .autocast_mode import autocast, custom_bwd, custom_fwd
from .grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "common", "custom_bwd", "custom_fwd"]
