"""Suppression of overlapping boxes, class by class; results are padded to `max_num`."""

from __future__ import annotations

import torch

__all__ = ["npu_batched_multiclass_nms", "npu_multiclass_nms"]


def npu_multiclass_nms(
    multi_bboxes: torch.Tensor,
    multi_scores: torch.Tensor,
    score_thr: float = 0.05,
    nms_thr: float = 0.45,
    max_num: int = 50,
    score_factors: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Boxes (n, 4) or (n, classes, 4) and scores (n, classes + 1), the background last.

    Returns:
        (max_num, 5) boxes with their scores, and (max_num,) classes, in float16.
    """
    factors = None if score_factors is None else score_factors[None]
    boxes, classes = npu_batched_multiclass_nms(
        multi_bboxes[None], multi_scores[None], score_thr, nms_thr, max_num, factors
    )
    return boxes[0], classes[0]


def npu_batched_multiclass_nms(
    multi_bboxes: torch.Tensor,
    multi_scores: torch.Tensor,
    score_thr: float = 0.05,
    nms_thr: float = 0.45,
    max_num: int = 50,
    score_factors: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """As `npu_multiclass_nms` with a batch in front of every shape."""
    batch, count = multi_scores.shape[:2]
    scores = multi_scores[..., :-1]
    if score_factors is not None:
        scores = scores * score_factors[..., None]
    boxes = multi_bboxes.reshape(batch, count, -1, 4).half()
    found, best, classes, _ = torch.ops.npu.npu_batch_nms(boxes, scores.half(), score_thr, nms_thr, max_num, max_num)
    return torch.cat([found, best[..., None]], -1), classes
