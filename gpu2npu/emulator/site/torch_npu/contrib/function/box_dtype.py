"""Boxes come in any dtype; operators want float."""

import torch


def floating(boxes: torch.Tensor) -> torch.Tensor:
    """Boxes in float32 or float16."""
    return boxes if boxes.dtype in (torch.float32, torch.float16) else boxes.float()
