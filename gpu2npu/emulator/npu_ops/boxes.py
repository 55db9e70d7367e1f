"""torch_npu's operators on boxes: overlaps and their gradients, encoding and decoding, anchors.

Formulas of the published losses (GIoU: Rezatofighi 2019; DIoU and CIoU: Zheng 2020), of Faster R-CNN's box coder with
the pixel added to widths, and of the examples in `torch_npu/_op_plugin_docs.py` (2.13.0). Computed in float32.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpu2npu.emulator.kernels.promotion import Array, rounded, wide
from gpu2npu.emulator.kernels.registry import kernel
from gpu2npu.emulator.npu_ops.arguments import Arguments, by_schema
from gpu2npu.emulator.soc import SOCS, current_soc

_EPS = np.float32(1e-9)
_ASCEND910B1 = SOCS["Ascend910B1"].number
_SIDE = np.float32(0.01)  # what the operator Iou adds to each side of a box (eps in op-plugin's IouKernelNpu.cpp)


def areas(boxes: Array, others: Array) -> tuple[Array, Array, Array]:
    """(N, M) areas of the intersections of (N, 4) and (M, 4) boxes x1 y1 x2 y2, and (N,) and (M,) of the boxes."""
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    high = np.minimum(boxes[:, None, 2:4], others[None, :, 2:4])
    sides = np.maximum(high - low, 0)
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    other = (others[:, 2] - others[:, 0]) * (others[:, 3] - others[:, 1])
    return sides[..., 0] * sides[..., 1], area, other


def overlaps(boxes: Array, others: Array) -> Array:
    """(N, M) intersections over unions of (N, 4) and (M, 4) boxes; 0 where both are empty."""
    inner, area, other = areas(boxes, others)
    union = area[:, None] + other[None, :] - inner
    return np.divide(inner, union, out=np.zeros_like(inner), where=union != 0)


@kernel("npu::npu_iou", "npu::npu_ptiou")
def npu_iou(bboxes: Array, gtboxes: Array, mode: int = 0) -> Array:
    """(M, N) of N and M boxes, read as float16: intersection over union; mode 1: over the area of gtboxes.

    The areas below the line are those of boxes whose sides are 0.01 longer, which is what the values that torch_npu
    documents come to. A real chip divides by an approximate reciprocal, with an error of up to 2^-9.
    """
    boxes, truth = wide(bboxes.astype(np.float16)), wide(gtboxes.astype(np.float16))
    inner, _, _ = areas(truth, boxes)
    area, other = _longer(truth), _longer(boxes)
    outer = area[:, None] + np.zeros_like(inner) if mode == 1 else area[:, None] + other[None, :] - inner
    return rounded(rounded(inner / outer, np.dtype(np.float16)), bboxes.dtype)


def _longer(boxes: Array) -> Array:
    sides = boxes[:, 2:4] - boxes[:, :2] + _SIDE
    return sides[:, 0] * sides[:, 1]


@dataclass
class _Var:
    """A value and its derivative by the four coordinates of each of two boxes, (8, ...): forward differentiation."""

    value: Array
    slope: Array

    def __add__(self, other: _Var) -> _Var:
        return _Var(self.value + other.value, self.slope + other.slope)

    def __sub__(self, other: _Var) -> _Var:
        return _Var(self.value - other.value, self.slope - other.slope)

    def __mul__(self, other: _Var) -> _Var:
        return _Var(self.value * other.value, self.slope * other.value + self.value * other.slope)

    def __truediv__(self, other: _Var) -> _Var:
        value = self.value / other.value
        return _Var(value, (self.slope - value * other.slope) / other.value)

    def scaled(self, factor: float | Array) -> _Var:
        return _Var(self.value * np.float32(factor), self.slope * np.float32(factor))

    def shifted(self, by: float | Array) -> _Var:
        return _Var(self.value + np.float32(by), self.slope)

    def fixed(self) -> _Var:
        return _Var(self.value, np.zeros_like(self.slope))


def _choose(first: bool, a: _Var, b: _Var) -> _Var:
    take = a.value >= b.value if first else a.value <= b.value
    return _Var(np.where(take, a.value, b.value), np.where(take, a.slope, b.slope))


def _largest(a: _Var, b: _Var) -> _Var:
    return _choose(True, a, b)


def _smallest(a: _Var, b: _Var) -> _Var:
    return _choose(False, a, b)


def _arctan(x: _Var) -> _Var:
    return _Var(np.arctan(x.value), x.slope / (1 + x.value * x.value))


@dataclass(frozen=True)
class _Pair:
    """Two sets of boxes as corners, sizes and what the losses need of them."""

    inner: _Var
    outer: _Var  # what the intersection is divided by
    union: _Var
    enclosing_width: _Var
    enclosing_height: _Var
    sizes: tuple[_Var, _Var, _Var, _Var]
    centre_distance: _Var  # squared

    @property
    def overlap(self) -> _Var:
        return self.inner / self.outer.shifted(_EPS)


def _variables(boxes: Array, others: Array, is_cross: bool) -> list[_Var]:
    """The eight coordinates of each pair: (n,), or crossed (number of others, number of boxes)."""
    first, second = wide(boxes), wide(others)
    if is_cross:
        shape = (second.shape[1], first.shape[1])
        values = [np.broadcast_to(row[None, :], shape) for row in first]
        values += [np.broadcast_to(row[:, None], shape) for row in second]
    else:
        values = [*first, *second]
    slopes = np.eye(8, dtype=np.float32)
    return [
        _Var(value, np.broadcast_to(slope.reshape(8, *(1,) * value.ndim), (8, *value.shape)))
        for value, slope in zip(values, slopes, strict=True)
    ]


def _corners(box: list[_Var], trans: bool) -> tuple[_Var, _Var, _Var, _Var]:
    if not trans:
        return box[0], box[1], box[2], box[3]
    x, y, w, h = box
    return x - w.scaled(0.5), y - h.scaled(0.5), x + w.scaled(0.5), y + h.scaled(0.5)


def _pair(boxes: Array, others: Array, trans: bool, is_cross: bool, mode: int) -> _Pair:
    variables = _variables(boxes, others, is_cross)
    ax1, ay1, ax2, ay2 = _corners(variables[:4], trans)
    bx1, by1, bx2, by2 = _corners(variables[4:], trans)
    zero = _Var(np.zeros_like(ax1.value), np.zeros_like(ax1.slope))
    width = _largest(_smallest(ax2, bx2) - _largest(ax1, bx1), zero)
    height = _largest(_smallest(ay2, by2) - _largest(ay1, by1), zero)
    aw, ah, bw, bh = ax2 - ax1, ay2 - ay1, bx2 - bx1, by2 - by1
    inner = width * height
    union = aw * ah + bw * bh - inner
    dx, dy = (bx1 + bx2 - ax1 - ax2).scaled(0.5), (by1 + by2 - ay1 - ay2).scaled(0.5)
    return _Pair(
        inner,
        bw * bh if mode == 1 else union,
        union,
        _largest(ax2, bx2) - _smallest(ax1, bx1),
        _largest(ay2, by2) - _smallest(ay1, by1),
        (aw, ah, bw, bh),
        dx * dx + dy * dy,
    )


def _giou(pair: _Pair) -> _Var:
    enclosing = pair.enclosing_width * pair.enclosing_height
    return pair.overlap - (enclosing - pair.union) / enclosing.shifted(_EPS)


def _diou(pair: _Pair) -> _Var:
    w, h = pair.enclosing_width, pair.enclosing_height
    return pair.overlap - pair.centre_distance / (w * w + h * h).shifted(_EPS)


def _angle(pair: _Pair) -> _Var:
    aw, ah, bw, bh = pair.sizes
    return _arctan(bw / bh.shifted(_EPS)) - _arctan(aw / ah.shifted(_EPS))


def _ciou(pair: _Pair) -> _Var:
    angle = _angle(pair)
    v = (angle * angle).scaled(4 / math.pi**2)
    weight = (v / (v - pair.overlap).shifted(np.float32(1) + _EPS)).fixed()
    return _diou(pair) - weight * v


def _shaped(value: Array, is_cross: bool, dtype: np.dtype) -> Array:
    return rounded(value if is_cross else value[None], dtype)


def _gradients(grad: Array, result: _Var, boxes: Array, others: Array, is_cross: bool) -> tuple[Array, Array]:
    flow = result.slope * wide(grad).reshape(result.value.shape)
    first, second = flow[:4], flow[4:]
    if is_cross:
        first, second = first.sum(axis=1), second.sum(axis=2)
    return rounded(first, boxes.dtype), rounded(second, others.dtype)


@kernel("npu::npu_giou")
def npu_giou(self: Array, gtboxes: Array, trans: bool = False, is_cross: bool = False, mode: int = 0) -> Array:
    """Generalised IoU of pairs of boxes x y w h, both (4, n): (n, 1)."""
    return rounded(_giou(_pair(self, gtboxes, trans, is_cross, mode)).value[:, None], self.dtype)


@kernel("npu::npu_giou_backward")
def npu_giou_backward(
    grad: Array, bboxes: Array, gtboxes: Array, trans: bool = False, is_cross: bool = False, mode: int = 0
) -> tuple[Array, Array]:
    """Gradients for both sets of boxes."""
    return _gradients(grad, _giou(_pair(bboxes, gtboxes, trans, is_cross, mode)), bboxes, gtboxes, is_cross)


@kernel("npu::npu_diou")
def npu_diou(self: Array, gtboxes: Array, trans: bool = False, is_cross: bool = False, mode: int = 0) -> Array:
    """IoU less the squared distance of the centres over the squared diagonal of the enclosing box."""
    return _shaped(_diou(_pair(self, gtboxes, trans, is_cross, mode)).value, is_cross, self.dtype)


@kernel("npu::npu_diou_backward")
def npu_diou_backward(
    grad: Array, bboxes: Array, gtboxes: Array, trans: bool = False, is_cross: bool = False, mode: int = 0
) -> tuple[Array, Array]:
    """Gradients for both sets of boxes."""
    return _gradients(grad, _diou(_pair(bboxes, gtboxes, trans, is_cross, mode)), bboxes, gtboxes, is_cross)


@by_schema(kernel, "npu::_npu_ciou")
def npu_ciou_with_angle(a: Arguments) -> tuple[Array, Array]:
    """DIoU less the weighted difference of the aspect ratios; and that difference, for the backward pass."""
    pair = _pair(a.self, a.gtboxes, a.trans, a.is_cross, a.mode)
    return _shaped(_ciou(pair).value, a.is_cross, a.self.dtype), _shaped(_angle(pair).value, a.is_cross, a.self.dtype)


@by_schema(kernel, "npu::npu_ciou_backward")
def npu_ciou_backward(a: Arguments) -> tuple[Array, Array]:
    """Gradients for both sets of boxes; the weight of the aspect ratios counts as constant, as published."""
    return _gradients(
        a.grad, _ciou(_pair(a.bboxes, a.gtboxes, a.trans, a.is_cross, a.mode)), a.bboxes, a.gtboxes, a.is_cross
    )


def _centres(boxes: Array) -> tuple[Array, Array]:
    """Centres and sizes of x1 y1 x2 y2, the last pixel included in the size."""
    return (boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2] + 1


@by_schema(kernel, "npu::npu_bounding_box_encode")
def npu_bounding_box_encode(a: Arguments) -> Array:
    """(N, 4) offsets dx dy dw dh from anchors to boxes x1 y1 x2 y2: (delta - mean) / std, of float16's precision.

    A box turned inside out counts with the size of its mirror image, as in the documentation's example; from Ascend
    910B on its offset is NaN (torch_npu's test/contrib/test_bbox_coder.py).
    """
    centre, size = _centres(wide(a.anchor_box))
    target, target_size = _centres(wide(a.ground_truth_box))
    ratio = target_size / size
    with np.errstate(invalid="ignore", divide="ignore"):
        logarithm = np.log(ratio if current_soc().number >= _ASCEND910B1 else np.abs(ratio))
    deltas = np.concatenate(((target - centre) / size, logarithm), axis=1)
    means, stds = np.array([a.means0, a.means1, a.means2, a.means3]), np.array([a.stds0, a.stds1, a.stds2, a.stds3])
    found = (deltas - means.astype(np.float32)) / stds.astype(np.float32)
    return rounded(rounded(found, np.dtype(np.float16)), a.anchor_box.dtype)


@by_schema(kernel, "npu::npu_grid_assign_positive")
def npu_grid_assign_positive(a: Arguments) -> Array:
    """Assigned boxes (N,), one more than the number of the true box of the K of `overlaps` (K, N): MMDetection's.

    A responsible box has the true box that it overlaps most, by more than `pos_iou_thr`; after that each true box has
    those that overlap it most, by more than `min_pos_iou`, or only the first of them.
    """
    assigned, responsible = a.self.copy(), a.box_responsible_flags.astype(bool)
    positive = (a.max_overlaps > a.pos_iou_thr) & responsible
    assigned[positive] = a.argmax_overlaps[positive] + 1
    for i in np.flatnonzero(a.gt_max_overlaps > a.min_pos_iou)[: a.num_gts]:
        best = (
            a.overlaps[i] == a.gt_max_overlaps[i]
            if a.gt_max_assign_all
            else np.arange(len(a.self)) == a.gt_argmax_overlaps[i]
        )
        assigned[best & responsible] = i + 1
    return assigned


@by_schema(kernel, "npu::npu_bounding_box_decode")
def npu_bounding_box_decode(a: Arguments) -> Array:
    """(N, 4) boxes x1 y1 x2 y2 of offsets from regions: within an image of `max_shape` (height, width).

    The logarithms of the ratios of the sizes stay within |log(wh_ratio_clip)|.
    """
    means, stds = np.array([a.means0, a.means1, a.means2, a.means3]), np.array([a.stds0, a.stds1, a.stds2, a.stds3])
    found = wide(a.deltas) * stds.astype(np.float32) + means.astype(np.float32)
    limit = np.float32(abs(math.log(a.wh_ratio_clip)))
    centre, size = _centres(wide(a.rois))
    centre = centre + found[:, :2] * size
    half = size * np.exp(np.clip(found[:, 2:], -limit, limit)) / 2
    boxes = np.concatenate((centre - half + np.float32(0.5), centre + half - np.float32(0.5)), axis=1)
    height, width = (a.max_shape[0], a.max_shape[-1])
    edges = np.array([width - 1, height - 1] * 2, np.float32)
    return rounded(np.clip(boxes, 0, edges), a.rois.dtype)


@kernel("npu::npu_anchor_response_flags")
def npu_anchor_response_flags(
    self: Array, featmap_size: Sequence[int], stride: Sequence[int], num_base_anchors: int
) -> Array:
    """(height * width * anchors,) uint8: 1 for the anchors of the cells that hold the centre of a box (N, 4)."""
    boxes = wide(self)
    height, width = featmap_size
    columns = np.floor((boxes[:, 0] + boxes[:, 2]) / 2 / stride[0]).astype(np.int64)
    rows = np.floor((boxes[:, 1] + boxes[:, 3]) / 2 / stride[1]).astype(np.int64)
    inside = (columns >= 0) & (columns < width) & (rows >= 0) & (rows < height)
    flags = np.zeros(height * width, np.uint8)
    flags[rows[inside] * width + columns[inside]] = 1
    return np.repeat(flags, num_base_anchors)


@kernel("npu::npu_yolo_boxes_encode")
def npu_yolo_boxes_encode(self: Array, gt_bboxes: Array, stride: Array, performance_mode: bool = False) -> Array:
    """(N, 4) YOLO offsets: the centre within its cell of `stride`, and logarithms of the ratios of the sizes."""
    boxes, truth, cells = wide(self), wide(gt_bboxes), wide(stride.astype(np.float32))[:, None]
    centre, target = (boxes[:, :2] + boxes[:, 2:]) / 2, (truth[:, :2] + truth[:, 2:]) / 2
    size, target_size = boxes[:, 2:] - boxes[:, :2], truth[:, 2:] - truth[:, :2]
    eps = np.float32(1e-6)
    offset = np.clip((target - centre) / cells + np.float32(0.5), eps, 1 - eps)
    return rounded(np.concatenate((offset, np.log(np.maximum(target_size / size, eps))), axis=1), self.dtype)
