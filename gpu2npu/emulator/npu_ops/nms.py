"""torch_npu's non-maximum suppression, for upright and rotated boxes."""

from __future__ import annotations

import numpy as np

from gpu2npu.emulator.kernels.promotion import Array, Number, rounded, wide
from gpu2npu.emulator.kernels.registry import kernel
from gpu2npu.emulator.npu_ops.arguments import Arguments, by_schema
from gpu2npu.emulator.npu_ops.boxes import overlaps


def survivors(order: Array, overlap: Array, threshold: float, limit: int | None = None) -> list[int]:
    """Greedy choice along `order`: what overlaps a chosen box by more than `threshold` is dropped."""
    dropped = np.zeros(len(overlap), bool)
    chosen: list[int] = []
    for index in order:
        if dropped[index]:
            continue
        chosen.append(int(index))
        if limit is not None and len(chosen) >= limit:
            break
        dropped |= overlap[index] > threshold
    return chosen


def _by_score(scores: Array) -> Array:
    return np.argsort(-scores, kind="stable")


@kernel("npu::npu_nms_with_mask")
def npu_nms_with_mask(input: Array, iou_threshold: Number) -> tuple[Array, Array, Array]:  # noqa: A002
    """(N, 8) boxes x1 y1 x2 y2 score ..., in order of their scores: (N, 5) boxes, (N,) int32 indices, (N,) uint8 mask.

    Sorted here by falling score, so that the mask is right for boxes in any order.
    """
    boxes = wide(input)
    chosen = survivors(_by_score(boxes[:, 4]), overlaps(boxes[:, :4], boxes[:, :4]), float(iou_threshold))  # type: ignore[arg-type]
    mask = np.zeros(len(boxes), np.uint8)
    mask[chosen] = 1
    return input[:, :5].copy(), np.arange(len(boxes), dtype=np.int32), mask


@by_schema(kernel, "npu::npu_nms_v4")
def npu_nms_v4(a: Arguments) -> tuple[Array, Array]:
    """Indices, int32, of the boxes (N, 4) that remain, best first, and how many; padded with 0 if asked."""
    boxes, marks = wide(a.self), wide(a.scores)
    limit = int(a.max_output_size)  # type: ignore[arg-type]
    order = _by_score(marks)
    order = order[marks[order] > float(a.scores_threshold.reshape(()))]
    chosen = survivors(order, overlaps(boxes, boxes), float(a.iou_threshold.reshape(())), limit) if limit else []
    indices = np.zeros(limit if a.pad_to_max_output_size else len(chosen), np.int32)
    indices[: len(chosen)] = chosen
    return indices, np.array(len(chosen), np.int32)


@by_schema(kernel, "npu::npu_batch_nms")
def npu_batch_nms(a: Arguments) -> tuple[Array, Array, Array, Array]:
    """Suppression class by class of a batch: boxes (B, N, Q, 4), Q 1 or the number of classes; scores (B, N, classes).

    Returns:
        (B, max_total_size, 4) boxes, (B, max_total_size) scores and classes, all float16 and 0 where there are fewer,
        and (B,) int32 counts.
    """
    if a.change_coordinate_frame:
        raise NotImplementedError("boxes normalised to the image (change_coordinate_frame=True)")
    boxes, marks = wide(a.self), wide(a.scores)
    if a.transpose_box:
        boxes = np.moveaxis(boxes, -2, -1) if boxes.shape[-1] != 4 else boxes
    if boxes.ndim == 3:
        boxes = boxes[:, :, None]
    batch, classes = marks.shape[0], marks.shape[2]
    out_boxes = np.zeros((batch, a.max_total_size, 4), np.float16)
    out_scores, out_classes = (np.zeros((batch, a.max_total_size), np.float16) for _ in range(2))
    counts = np.zeros(batch, np.int32)
    for b in range(batch):
        found: list[tuple[float, int, int]] = []
        for c in range(classes):
            place = boxes[b, :, c if boxes.shape[2] > 1 else 0]
            order = _by_score(marks[b, :, c])
            order = order[marks[b, order, c] > a.score_threshold]
            retained = survivors(order, overlaps(place, place), a.iou_threshold, a.max_size_per_class)
            found += [(-float(marks[b, i, c]), c, i) for i in retained]
        best = sorted(found)[: a.max_total_size]
        counts[b] = len(best)
        for row, (mark, c, i) in enumerate(best):
            out_boxes[b, row] = boxes[b, i, c if boxes.shape[2] > 1 else 0]
            out_scores[b, row], out_classes[b, row] = -mark, c
    return out_boxes, out_scores, out_classes, counts


def _rotated_corners(box: Array) -> Array:
    """The corners, counterclockwise, of x y w h and an angle in degrees."""
    x, y, w, h, angle = (float(value) for value in box[:5])
    cos, sin = np.cos(np.deg2rad(angle)), np.sin(np.deg2rad(angle))
    half = np.array([[-w, -h], [w, -h], [w, h], [-w, h]]) / 2
    return half @ np.array([[cos, sin], [-sin, cos]]) + (x, y)


def _clipped(polygon: Array, a: Array, b: Array) -> Array:
    """Return the part of a convex polygon that lies left of the line from a to b (Sutherland and Hodgman)."""
    side = (b[0] - a[0]) * (polygon[:, 1] - a[1]) - (b[1] - a[1]) * (polygon[:, 0] - a[0])
    points = []
    for i, point in enumerate(polygon):
        j = i - 1
        if (side[i] >= 0) != (side[j] >= 0):
            points.append(polygon[j] + (point - polygon[j]) * (side[j] / (side[j] - side[i])))
        if side[i] >= 0:
            points.append(point)
    return np.array(points).reshape(-1, 2)


def _area(polygon: Array) -> float:
    x, y = polygon[:, 0], polygon[:, 1]
    return abs(float(np.dot(x, np.roll(y, 1)) - np.dot(y, np.roll(x, 1)))) / 2


def rotated_overlap(first: Array, second: Array) -> tuple[float, float]:
    """Area of the intersection of two rotated boxes, and of their union."""
    polygon, other = _rotated_corners(first), _rotated_corners(second)
    for i in range(4):
        if len(polygon):
            polygon = _clipped(polygon, other[i], other[(i + 1) % 4])
    inner = _area(polygon) if len(polygon) > 2 else 0.0
    return inner, float(first[2] * first[3] + second[2] * second[3]) - inner


def _rotated(boxes: Array, others: Array, over_union: bool) -> Array:
    table = np.zeros((len(boxes), len(others)))
    for i, first in enumerate(boxes):
        for j, second in enumerate(others):
            inner, union = rotated_overlap(first, second)
            table[i, j] = (inner / union if union else 0.0) if over_union else inner
    return table


@by_schema(kernel, "npu::npu_nms_rotated")
def npu_nms_rotated(a: Arguments) -> tuple[Array, Array]:
    """Indices, int32, of the boxes x y w h angle (degrees) that remain, best first, and how many, as one element."""
    marks = wide(a.scores)
    order = _by_score(marks)
    order = order[marks[order] > a.scores_threshold]
    table = _rotated(wide(a.self), wide(a.self), over_union=True)
    chosen = survivors(order, table, a.iou_threshold, None if a.max_output_size < 0 else a.max_output_size)
    return np.array(chosen, np.int32), np.array([len(chosen)], np.int32)


def _rotated_batches(boxes: Array, others: Array, trans: bool, over_union: bool) -> Array:
    a, b = (np.swapaxes(wide(each), -1, -2) for each in (boxes, others))  # (B, 5, N) to (B, N, 5)
    if not trans:
        a, b = (_from_corners(each) for each in (a, b))
    return np.stack([_rotated(x, y, over_union) for x, y in zip(a, b, strict=True)])


def _from_corners(boxes: Array) -> Array:
    low, high = boxes[..., :2], boxes[..., 2:4]
    return np.concatenate(((low + high) / 2, high - low, boxes[..., 4:]), axis=-1)


@kernel("npu::npu_rotated_overlaps")
def npu_rotated_overlaps(self: Array, query_boxes: Array, trans: bool = False) -> Array:
    """(B, N, K) areas of the intersections of (B, 5, N) and (B, 5, K) boxes, x y w h angle if `trans`, else corners."""
    return rounded(_rotated_batches(self, query_boxes, trans, over_union=False), self.dtype)


@by_schema(kernel, "npu::npu_rotated_iou")
def npu_rotated_iou(a: Arguments) -> Array:
    """(B, N, K) intersections over unions of rotated boxes, laid out as for `npu_rotated_overlaps`."""
    if a.mode != 0 or not a.is_cross:
        raise NotImplementedError("rotated overlaps with mode=1 or is_cross=False")
    return rounded(_rotated_batches(a.self, a.query_boxes, a.trans, over_union=True), a.self.dtype)
