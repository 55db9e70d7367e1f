"""Boxes as offsets from anchors, and back."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .box_dtype import floating

__all__ = ["npu_bbox_coder_decode_xywh2xyxy", "npu_bbox_coder_encode_xyxy2xywh", "npu_bbox_coder_encode_yolo"]

npu = torch.ops.npu


def _check(first: torch.Tensor, second: torch.Tensor) -> None:
    if first.shape[0] != second.shape[0]:
        raise ValueError("Expected bboxes.size(0) == gt_bboxes.size(0)")
    if not first.shape[-1] == second.shape[-1] == 4:
        raise ValueError("Expected bboxes.size(-1) == gt_bboxes.size(-1) == 4")


def npu_bbox_coder_encode_yolo(bboxes: torch.Tensor, gt_bboxes: torch.Tensor, stride: torch.Tensor) -> torch.Tensor:
    """(n, 4) offsets of YOLO; `stride` (n,) is each anchor's. Raises ValueError for other shapes."""
    _check(bboxes, gt_bboxes)
    result: torch.Tensor = npu.npu_yolo_boxes_encode(floating(bboxes), floating(gt_bboxes), stride.int(), False)
    return result


def npu_bbox_coder_encode_xyxy2xywh(
    bboxes: torch.Tensor,
    gt_bboxes: torch.Tensor,
    means: Sequence[float] | None = None,
    stds: Sequence[float] | None = None,
    is_normalized: bool = False,
    normalized_scale: float = 10000.0,
) -> torch.Tensor:
    """(n, 4) offsets dx dy dw dh; normalised boxes are scaled up, since sizes count pixels. Raises ValueError."""
    _check(bboxes, gt_bboxes)
    scale = normalized_scale if is_normalized else 1.0
    first, second = floating(bboxes) * scale, floating(gt_bboxes) * scale
    result: torch.Tensor = npu.npu_bounding_box_encode(first, second, *(means or [0.0] * 4), *(stds or [1.0] * 4))
    return result


def npu_bbox_coder_decode_xywh2xyxy(
    bboxes: torch.Tensor,
    pred_bboxes: torch.Tensor,
    means: Sequence[float] | None = None,
    stds: Sequence[float] | None = None,
    max_shape: Sequence[int] | None = None,
    wh_ratio_clip: float = 16 / 1000,
) -> torch.Tensor:
    """(n, 4) boxes x1 y1 x2 y2 of offsets, within an image of `max_shape` (height, width). Raises ValueError."""
    _check(bboxes, pred_bboxes)
    shape = list(max_shape) if max_shape is not None else [9999, 9999]
    result: torch.Tensor = npu.npu_bounding_box_decode(
        floating(bboxes), floating(pred_bboxes), *(means or [0.0] * 4), *(stds or [1.0] * 4), shape, wh_ratio_clip
    )
    return result
