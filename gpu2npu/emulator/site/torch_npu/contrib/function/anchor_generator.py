"""Flags for the anchors of a feature map that are responsible for the boxes of an image."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .box_dtype import floating

__all__ = ["npu_single_level_responsible_flags"]


def npu_single_level_responsible_flags(
    featmap_size: Sequence[int], gt_bboxes: torch.Tensor, stride: Sequence[int], num_base_anchors: int
) -> torch.Tensor:
    """(height * width * anchors,) flags: 1 in the cells that hold the centre of a box (n, 4)."""
    flags: torch.Tensor = torch.ops.npu.npu_anchor_response_flags(
        floating(gt_bboxes), featmap_size, stride, num_base_anchors
    )
    return flags
