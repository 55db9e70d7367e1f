"""torch.npu.amp.common."""

__all__ = ["amp_definitely_not_available"]


def amp_definitely_not_available() -> bool:
    """False: the NPU always has mixed precision."""
    return False
