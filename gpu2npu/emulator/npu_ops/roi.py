"""torch_npu's pooling of regions of interest: ROIAlign and position-sensitive pooling, with their gradients."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpu2npu.emulator.kernels.promotion import Array, rounded, wide
from gpu2npu.emulator.kernels.registry import kernel
from gpu2npu.emulator.npu_ops.arguments import Arguments, by_schema

# Four corners of a sample: row, column, weight.
Corners = list[tuple[Array, Array, Array]]


def _axis_samples(low: float, high: float, bins: int, samples: int) -> Array:
    """(bins, samples) positions, evenly within each bin."""
    width = (high - low) / bins
    return low + width * (np.arange(bins)[:, None] + (np.arange(samples)[None, :] + 0.5) / samples)


def _corners(ys: Array, xs: Array, height: int, width: int) -> Corners:
    """Bilinear weights at positions (ys x xs); positions more than one pixel outside weigh 0."""
    y, x = np.meshgrid(ys.reshape(-1), xs.reshape(-1), indexing="ij")
    inside = (y >= -1) & (y <= height) & (x >= -1) & (x <= width)
    y, x = np.maximum(y, 0), np.maximum(x, 0)
    y0, x0 = np.minimum(y.astype(np.int64), height - 1), np.minimum(x.astype(np.int64), width - 1)
    y1, x1 = np.minimum(y0 + 1, height - 1), np.minimum(x0 + 1, width - 1)
    dy, dx = np.where(y0 >= height - 1, 0, y - y0) * inside, np.where(x0 >= width - 1, 0, x - x0) * inside
    ny, nx = inside - dy, inside - dx
    return [(y0, x0, ny * nx), (y0, x1, ny * dx), (y1, x0, dy * nx), (y1, x1, dy * dx)]


def _region(
    roi: Array, spatial_scale: float, pooled: tuple[int, int], sample_num: int, end_mode: int
) -> tuple[int, Array, Array]:
    """The image of a region (index x1 y1 x2 y2), and its sample positions (bins, samples) by rows and columns."""
    if end_mode not in (0, 1, 2, 3):
        raise NotImplementedError(f"npu_roi_align with roi_end_mode {end_mode}")
    shift = 0.5 if end_mode > 1 else 0.0
    one = 1 if end_mode == 1 else 0
    x1, y1 = (float(v) * spatial_scale - shift for v in roi[1:3])
    x2, y2 = ((float(v) + one) * spatial_scale - shift for v in roi[3:5])
    if end_mode < 2:
        x2, y2 = max(x2, x1 + 1), max(y2, y1 + 1)
    rows = sample_num or max(int(np.ceil((y2 - y1) / pooled[0])), 1)
    columns = sample_num or max(int(np.ceil((x2 - x1) / pooled[1])), 1)
    return int(roi[0]), _axis_samples(y1, y2, pooled[0], rows), _axis_samples(x1, x2, pooled[1], columns)


@by_schema(kernel, "npu::npu_roi_align")
def npu_roi_align(a: Arguments) -> Array:
    """(R, C, pooled_height, pooled_width): averages of bilinear samples in regions (R, 5) index x1 y1 x2 y2.

    `roi_end_mode` 1 counts the last pixel of a region in, 2 and 3 shift by half a pixel. `sample_num` 0 takes as many
    samples a bin as it has pixels.
    """
    features = wide(a.self)
    result = np.zeros((len(a.rois), a.self.shape[1], a.pooled_height, a.pooled_width), features.dtype)
    for i, roi in enumerate(wide(a.rois)):
        image, ys, xs = _region(roi, a.spatial_scale, (a.pooled_height, a.pooled_width), a.sample_num, a.roi_end_mode)
        total = sum(
            features[image][:, y, x] * weight.astype(features.dtype)
            for y, x, weight in _corners(ys, xs, *a.self.shape[2:])
        )
        blocks = np.asarray(total).reshape(-1, a.pooled_height, ys.shape[1], a.pooled_width, xs.shape[1])
        result[i] = blocks.mean(axis=(2, 4))
    return rounded(result, a.self.dtype)


@by_schema(kernel, "npu::npu_roi_alignbk")
def npu_roi_alignbk(a: Arguments) -> Array:
    """The gradient of `npu_roi_align` for features of shape `xdiff_shape`; `self` is the gradient of its result."""
    result = np.zeros(tuple(a.xdiff_shape), np.float64)
    mode = 1 if a.roi_end_mode is None else a.roi_end_mode
    for grad, roi in zip(wide(a.self), wide(a.rois), strict=True):
        image, ys, xs = _region(roi, a.spatial_scale, (a.pooled_height, a.pooled_width), a.sample_num, mode)
        share = np.repeat(np.repeat(grad, ys.shape[1], axis=1), xs.shape[1], axis=2) / (ys.shape[1] * xs.shape[1])
        for y, x, weight in _corners(ys, xs, *result.shape[2:]):
            np.add.at(
                result[image].reshape(len(share), -1).T,
                (y * result.shape[3] + x).reshape(-1),
                (share * weight).reshape(len(share), -1).T,
            )
    return rounded(result, a.self.dtype)


def _bins(roi: Array, spatial_scale: float, group: int, height: int, width: int) -> list[tuple[int, int, slice, slice]]:
    """The bins of a region, row by row: their row, column, and the pixels they cover."""
    x1, y1 = (round(float(v)) * spatial_scale for v in roi[1:3])
    x2, y2 = ((round(float(v)) + 1) * spatial_scale for v in roi[3:5])
    bin_height, bin_width = max(y2 - y1, 0.1) / group, max(x2 - x1, 0.1) / group

    def pixels(start: float, size: float, place: int, limit: int) -> slice:
        first, last = int(np.floor(start + place * size)), int(np.ceil(start + (place + 1) * size))
        return slice(min(max(first, 0), limit), min(max(last, 0), limit))

    return [
        (i, j, pixels(y1, bin_height, i, height), pixels(x1, bin_width, j, width))
        for i in range(group)
        for j in range(group)
    ]


def _regions(rois: Array) -> Array:
    """(batch, 5, regions) as rows (batch * regions, 5)."""
    return wide(rois).transpose(0, 2, 1).reshape(-1, 5)


@kernel("npu::npu_ps_roi_pooling")
def npu_ps_roi_pooling(self: Array, rois: Array, spatial_scale: float, group_size: int, output_dim: int) -> Array:
    """Position-sensitive pooling of (B, output_dim * group_size^2, H, W) in regions (B, 5, R): averages of bins.

    Returns:
        (B * R, output_dim, group_size, group_size); each bin has channels of its own.
    """
    features = wide(self).reshape(len(self), output_dim, group_size, group_size, *self.shape[2:])
    regions = _regions(rois)
    result = np.zeros((len(regions), output_dim, group_size, group_size), features.dtype)
    for r, roi in enumerate(regions):
        for i, j, rows, columns in _bins(roi, spatial_scale, group_size, *self.shape[2:]):
            block = features[int(roi[0]), :, i, j, rows, columns]
            if block.size:
                result[r, :, i, j] = block.mean(axis=(1, 2))
    return rounded(result, self.dtype)


@kernel("npu::npu_ps_roi_pooling_backward")
def npu_ps_roi_pooling_backward(
    output_grad: Array, rois: Array, spatial_scale: float, group_size: int, output_dim: int, input_size: Sequence[int]
) -> Array:
    """The gradient for the features; `input_size` is their height and width."""
    height, width = input_size
    result = np.zeros((len(rois), output_dim, group_size, group_size, height, width), np.float32)
    for grad, roi in zip(wide(output_grad), _regions(rois), strict=True):
        for i, j, rows, columns in _bins(roi, spatial_scale, group_size, height, width):
            block = result[int(roi[0]), :, i, j, rows, columns]
            if block.size:
                block += (grad[:, i, j] / (block.shape[1] * block.shape[2]))[:, None, None]
    return rounded(result.reshape(len(rois), -1, height, width), output_grad.dtype)
