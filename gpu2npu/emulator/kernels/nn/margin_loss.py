"""Multi-class and multi-label margin losses and their gradients. Reductions: 0 none, 1 mean, 2 sum."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpu2npu.emulator.kernels.parallel import blocks
from gpu2npu.emulator.kernels.promotion import Array, Number, rounded, wide
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


def _each_gradient(grad_output: Array, count: int, reduction: int) -> Array:
    """Return the factor of each row's slope: (count, 1)."""
    grad = wide(grad_output).reshape(-1, 1)
    return np.asarray(grad / grad.dtype.type(count) if reduction == MEAN else grad)


def _rows(self: Array, target: Array) -> tuple[Array, Array]:
    """self as (N, classes) and the target class of each row."""
    x = np.atleast_2d(wide(self))
    return x, np.atleast_1d(target).reshape(-1)


def _margins(x: Array, classes: Array, margin: Number) -> Array:
    """Return by how much every class but the target comes too near to it: (N, classes)."""
    rows = np.arange(len(x))
    distances = np.maximum(x.dtype.type(margin) - x[rows, classes][:, None] + x, 0)
    distances[rows, classes] = 0
    return distances


def _weights(weight: Array | None, x: Array, classes: Array) -> Array:
    """Each row's weight over the number of classes: (N, 1)."""
    share = np.full((len(x), 1), 1 / x.shape[1], x.dtype)
    return share if weight is None else share * wide(weight)[classes][:, None]


@kernel("aten::multi_margin_loss")
def multi_margin_loss(
    self: Array,
    target: Array,
    p: Number = 1,
    margin: Number = 1,
    weight: Array | None = None,
    reduction: int = MEAN,
) -> Array:
    """The mean over classes of max(0, margin - x[target] + x)^p; self is (N, classes) or (classes,)."""
    x, classes = _rows(self, target)
    distances = _margins(x, classes, margin)
    powers = distances if p == 1 else distances * distances
    losses = np.sum(powers * _weights(weight, x, classes), axis=1)
    return _reduced(losses, reduction, target.ndim == 0, self.dtype)


@kernel("aten::multi_margin_loss_backward")
def multi_margin_loss_backward(
    grad_output: Array,
    self: Array,
    target: Array,
    p: Number,
    margin: Number,
    weight: Array | None = None,
    reduction: int = MEAN,
) -> Array:
    """The gradient for self."""
    x, classes = _rows(self, target)
    distances = _margins(x, classes, margin)
    slope = (distances > 0).astype(x.dtype) if p == 1 else 2 * distances
    slope *= _weights(weight, x, classes)
    slope[np.arange(len(x)), classes] = -np.sum(slope, axis=1)
    return rounded(np.asarray(slope * _each_gradient(grad_output, len(x), reduction)), self.dtype).reshape(self.shape)


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


@kernel("aten::multilabel_margin_loss_backward")
def multilabel_margin_loss_backward(
    grad_output: Array, self: Array, target: Array, reduction: int, is_target: Array
) -> Array:
    """The gradient for self."""
    x = np.atleast_2d(wide(self))
    valid, targets = _label_sets(x, target)
    slope = np.zeros_like(x)
    for rows, labels, distances in _label_margins(x, target, valid, targets):
        active = distances > 0
        first = np.flatnonzero(np.diff(rows, prepend=-1))  # of each row: they are in order
        slope[rows[first]] += np.add.reduceat(active, first, axis=0, dtype=x.dtype)
        np.subtract.at(slope, (rows, labels), np.sum(active, axis=1))
    slope /= x.dtype.type(max(x.shape[1], 1))
    return rounded(np.asarray(slope * _each_gradient(grad_output, len(x), reduction)), self.dtype).reshape(self.shape)
