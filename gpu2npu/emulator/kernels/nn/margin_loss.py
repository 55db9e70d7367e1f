"""The multi-label margin loss. Reductions: 0 none, 1 mean, 2 sum."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpu2npu.emulator.kernels.parallel import blocks
from gpu2npu.emulator.kernels.promotion import Array, rounded, wide
from gpu2npu.emulator.kernels.registry import kernel

MEAN, SUM = 1, 2


def _reduced(losses: Array, reduction: int, is_single: bool, dtype: np.dtype) -> Array:
    if reduction == MEAN:
        losses = np.sum(losses) / losses.dtype.type(len(losses))
    elif reduction == SUM:
        losses = np.sum(losses)
    elif is_single:
        losses = losses[0]
    return rounded(np.asarray(losses), dtype)


def _label_sets(x: Array, target: Array) -> tuple[Array, Array]:
    """Return masks of the places of target (N, classes) before the first -1, which hold labels, and of the labels."""
    labels = np.atleast_2d(target)
    valid = np.logical_and.accumulate(labels >= 0, axis=1)
    is_target = np.zeros(x.shape, bool)
    rows, places = np.nonzero(valid)
    is_target[rows, labels[rows, places]] = True
    return valid, is_target


def _label_margins(x: Array, target: Array, valid: Array, is_target: Array) -> Iterator[tuple[Array, Array, Array]]:
    """Some labels at a time, each with its row: 1 - x[label] + x[class] where positive, for classes that are none."""
    rows, places = np.nonzero(valid)
    labels = np.atleast_2d(target)[rows, places]
    for part in blocks(rows.size, rows.size * x.shape[1]):
        row, label = rows[part], labels[part]
        distances = np.maximum(1 - x[row, label][:, None] + x[row], 0)
        yield row, label, distances * ~is_target[row]


@kernel("aten::multilabel_margin_loss_forward")
def multilabel_margin_loss(self: Array, target: Array, reduction: int) -> tuple[Array, Array]:
    """The mean over classes of the margins between labels and other classes, and which classes are labels."""
    x = np.atleast_2d(wide(self))
    valid, is_target = _label_sets(x, target)
    losses = np.zeros(len(x))
    for rows, _, distances in _label_margins(x, target, valid, is_target):
        np.add.at(losses, rows, np.sum(distances, axis=1))
    losses /= max(x.shape[1], 1)
    loss = _reduced(losses.astype(x.dtype), reduction, target.ndim < 2, self.dtype)
    return loss, is_target.reshape(target.shape).astype(self.dtype)
