"""Boxes: overlaps, for matching and for losses (deprecated in torch_npu), offsets from anchors, and anchors."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import torch

__all__ = [
    "npu_bbox_coder_decode_xywh2xyxy",
    "npu_bbox_coder_encode_xyxy2xywh",
    "npu_bbox_coder_encode_yolo",
    "npu_ciou",
    "npu_diou",
    "npu_giou",
    "npu_iou",
    "npu_ptiou",
    "npu_single_level_responsible_flags",
]

npu = torch.ops.npu


def _floating(boxes: torch.Tensor) -> torch.Tensor:
    """Boxes in float32 or float16."""
    return boxes if boxes.dtype in (torch.float32, torch.float16) else boxes.float()


def _deprecated(name: str, stacklevel: int = 3) -> None:
    warnings.warn(
        f"torch_npu.contrib.{name} is deprecated. Please use torch_npu.{name} as a replacement.",
        FutureWarning,
        stacklevel=stacklevel,
    )


def _overlaps(name: str, *arguments: object) -> torch.Tensor:
    _deprecated(name, stacklevel=4)
    result: torch.Tensor = getattr(npu, name)(*arguments)
    return result


def npu_iou(
    boxes1: torch.Tensor,
    boxes2: torch.Tensor,
    mode: str = "ptiou",
    is_normalized: bool = False,
    normalized_scale: float = 100.0,
) -> torch.Tensor:
    """(N, M) overlaps of (N, 4) and (M, 4) boxes; normalised ones are scaled up, since sides get 0.01 added.

    Raises:
        ValueError: `mode` is neither "iou" nor "ptiou".
    """
    _deprecated("npu_iou")
    if mode not in ("iou", "ptiou"):
        raise ValueError("Expected mode in [iou, ptiou]")
    scale = normalized_scale if is_normalized else 1.0
    first, second = _floating(boxes1) * scale, _floating(boxes2) * scale
    result: torch.Tensor = (npu.npu_iou if mode == "iou" else npu.npu_ptiou)(second, first)
    return result


npu_ptiou = npu_iou


def npu_giou(boxes1: torch.Tensor, boxes2: torch.Tensor, is_permuted: bool = True) -> torch.Tensor:
    """(n, 1) generalised overlaps of pairs of boxes x y w h, (n, 4), or (4, n) unless `is_permuted`.

    Raises:
        ValueError: The shapes differ.
    """
    _deprecated("npu_giou")
    if boxes1.shape != boxes2.shape:
        raise ValueError("Expected boxes1.shape == boxes2.shape")
    first, second = _floating(boxes1), _floating(boxes2)
    if is_permuted:
        first, second = first.permute(1, 0), second.permute(1, 0)
    result: torch.Tensor = npu.npu_giou(first, second, trans=True, is_cross=False)
    return result


def npu_diou(
    boxes1: torch.Tensor, boxes2: torch.Tensor, trans: bool = True, is_cross: bool = False, mode: int = 0
) -> torch.Tensor:
    """(1, n) distance overlaps of pairs of boxes (4, n)."""
    return _overlaps("npu_diou", boxes1, boxes2, trans, is_cross, mode)


def npu_ciou(
    boxes1: torch.Tensor, boxes2: torch.Tensor, trans: bool = True, is_cross: bool = False, mode: int = 0
) -> torch.Tensor:
    """(1, n) complete overlaps of pairs of boxes (4, n)."""
    return _overlaps("npu_ciou", boxes1, boxes2, trans, is_cross, mode, True)


def _pairs(first: torch.Tensor, second: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    if first.shape[0] != second.shape[0]:
        raise ValueError("Expected bboxes.size(0) == gt_bboxes.size(0)")
    if not first.shape[-1] == second.shape[-1] == 4:
        raise ValueError("Expected bboxes.size(-1) == gt_bboxes.size(-1) == 4")
    return _floating(first), _floating(second)


def npu_bbox_coder_encode_yolo(bboxes: torch.Tensor, gt_bboxes: torch.Tensor, stride: torch.Tensor) -> torch.Tensor:
    """(n, 4) offsets of YOLO; `stride` (n,) is each anchor's. Raises ValueError for other shapes."""
    result: torch.Tensor = npu.npu_yolo_boxes_encode(*_pairs(bboxes, gt_bboxes), stride.int(), False)
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
    scale = normalized_scale if is_normalized else 1.0
    scaled = [boxes * scale for boxes in _pairs(bboxes, gt_bboxes)]
    result: torch.Tensor = npu.npu_bounding_box_encode(*scaled, *(means or [0.0] * 4), *(stds or [1.0] * 4))
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
    shape = list(max_shape) if max_shape is not None else [9999, 9999]
    result: torch.Tensor = npu.npu_bounding_box_decode(
        *_pairs(bboxes, pred_bboxes), *(means or [0.0] * 4), *(stds or [1.0] * 4), shape, wh_ratio_clip
    )
    return result


def npu_single_level_responsible_flags(
    featmap_size: Sequence[int], gt_bboxes: torch.Tensor, stride: Sequence[int], num_base_anchors: int
) -> torch.Tensor:
    """(height * width * anchors,) flags: 1 in the cells that hold the centre of a box (n, 4)."""
    flags: torch.Tensor = torch.ops.npu.npu_anchor_response_flags(
        _floating(gt_bboxes), featmap_size, stride, num_base_anchors
    )
    return flags
