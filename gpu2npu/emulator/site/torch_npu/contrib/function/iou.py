"""Overlaps of boxes, for matching and for losses. Deprecated in torch_npu in favour of the operators themselves."""

from __future__ import annotations

import warnings

import torch

from .box_dtype import floating

__all__ = ["npu_ciou", "npu_diou", "npu_giou", "npu_iou", "npu_ptiou"]

npu = torch.ops.npu


def _deprecated(name: str) -> None:
    warnings.warn(
        f"torch_npu.contrib.{name} is deprecated. Please use torch_npu.{name} as a replacement.",
        FutureWarning,
        stacklevel=3,
    )


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
    first, second = floating(boxes1) * scale, floating(boxes2) * scale
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
    first, second = floating(boxes1), floating(boxes2)
    if is_permuted:
        first, second = first.permute(1, 0), second.permute(1, 0)
    result: torch.Tensor = npu.npu_giou(first, second, trans=True, is_cross=False)
    return result


def npu_diou(
    boxes1: torch.Tensor, boxes2: torch.Tensor, trans: bool = True, is_cross: bool = False, mode: int = 0
) -> torch.Tensor:
    """(1, n) distance overlaps of pairs of boxes (4, n)."""
    _deprecated("npu_diou")
    result: torch.Tensor = npu.npu_diou(boxes1, boxes2, trans, is_cross, mode)
    return result


def npu_ciou(
    boxes1: torch.Tensor, boxes2: torch.Tensor, trans: bool = True, is_cross: bool = False, mode: int = 0
) -> torch.Tensor:
    """(1, n) complete overlaps of pairs of boxes (4, n)."""
    _deprecated("npu_ciou")
    result: torch.Tensor = npu.npu_ciou(boxes1, boxes2, trans, is_cross, mode, True)
    return result
