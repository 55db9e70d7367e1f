"""Losses and their gradients. Reductions are torch's numbers: 0 none, 1 mean, 2 sum.

Halves are computed in float32 and rounded once, after the reduction.
"""

from __future__ import annotations

from math import prod

import numpy as np

from gpu2npu.emulator.kernels.promotion import Array, compute_dtype, float_dtype, result_type, rounded, wide
from gpu2npu.emulator.kernels.registry import kernel

MEAN, SUM = 1, 2


def _reduced(loss: Array, reduction: int, dtype: np.dtype) -> Array:
    if reduction == MEAN:
        loss = np.sum(loss) / loss.dtype.type(loss.size)
    elif reduction == SUM:
        loss = np.sum(loss)
    return rounded(np.asarray(loss), dtype)


def _pair(self: Array, target: Array) -> tuple[Array, Array, np.dtype]:
    dtype = float_dtype(result_type(self, target))
    compute = compute_dtype(dtype)
    return self.astype(compute, copy=False), target.astype(compute, copy=False), dtype


def _gradient(grad_output: Array, slope: Array, reduction: int, dtype: np.dtype) -> Array:
    grad = wide(grad_output)
    if reduction == MEAN:
        grad = grad / slope.dtype.type(slope.size)
    return rounded(np.asarray(slope * grad), dtype)


@kernel("aten::mse_loss")
def mse_loss(self: Array, target: Array, reduction: int = MEAN) -> Array:
    """(self - target)^2."""
    x, y, dtype = _pair(self, target)
    difference = np.asarray(x - y)
    return _reduced(np.multiply(difference, difference), reduction, dtype)


@kernel("aten::mse_loss_backward")
def mse_loss_backward(grad_output: Array, self: Array, target: Array, reduction: int) -> Array:
    """The gradient of mse_loss for self."""
    x, y, dtype = _pair(self, target)
    return _gradient(grad_output, 2 * (x - y), reduction, dtype)


@kernel("aten::smooth_l1_loss")
def smooth_l1_loss(self: Array, target: Array, reduction: int = MEAN, beta: float = 1.0) -> Array:
    """Quadratic where |self - target| < beta, linear beyond."""
    x, y, dtype = _pair(self, target)
    distance = np.abs(x - y)
    loss = distance if beta == 0 else np.where(distance < beta, distance * distance / (2 * beta), distance - beta / 2)
    return _reduced(loss.astype(x.dtype, copy=False), reduction, dtype)


@kernel("aten::smooth_l1_loss_backward")
def smooth_l1_loss_backward(grad_output: Array, self: Array, target: Array, reduction: int, beta: float) -> Array:
    """The gradient of smooth_l1_loss for self."""
    x, y, dtype = _pair(self, target)
    difference = x - y
    slope = np.sign(difference) if beta == 0 else np.clip(difference / x.dtype.type(beta), -1, 1)
    return _gradient(grad_output, slope, reduction, dtype)


@kernel("aten::huber_loss_backward")
def huber_loss_backward(grad_output: Array, self: Array, target: Array, reduction: int, delta: float) -> Array:
    """The gradient of huber_loss for self."""
    x, y, dtype = _pair(self, target)
    return _gradient(grad_output, np.clip(x - y, x.dtype.type(-delta), x.dtype.type(delta)), reduction, dtype)


@kernel("aten::binary_cross_entropy")
def binary_cross_entropy(self: Array, target: Array, weight: Array | None = None, reduction: int = MEAN) -> Array:
    """-(target * log(self) + (1 - target) * log(1 - self)), logarithms at least -100.

    Raises:
        RuntimeError: self leaves [0, 1].
    """
    x, y, dtype = _pair(self, target)
    if x.size and not (x.min() >= 0 and x.max() <= 1):
        raise RuntimeError("all elements of input should be between 0 and 1")
    floor = x.dtype.type(-100)
    loss = (y - 1) * np.maximum(np.log1p(-x), floor) - y * np.maximum(np.log(x), floor)
    return _reduced(loss if weight is None else loss * wide(weight), reduction, dtype)


@kernel("aten::binary_cross_entropy_backward")
def binary_cross_entropy_backward(
    grad_output: Array, self: Array, target: Array, weight: Array | None = None, reduction: int = MEAN
) -> Array:
    """The gradient of binary_cross_entropy for self."""
    x, y, dtype = _pair(self, target)
    slope = (x - y) / np.maximum((1 - x) * x, x.dtype.type(1e-12))
    return _gradient(grad_output, slope if weight is None else slope * wide(weight), reduction, dtype)


@kernel("aten::binary_cross_entropy_with_logits")
def binary_cross_entropy_with_logits(
    self: Array,
    target: Array,
    weight: Array | None = None,
    pos_weight: Array | None = None,
    reduction: int = MEAN,
) -> Array:
    """binary_cross_entropy of sigmoid(self), without overflow; pos_weight scales the positive part."""
    x, y, dtype = _pair(self, target)
    softplus = np.log1p(np.exp(-np.abs(x))) + np.maximum(-x, x.dtype.type(0))
    if pos_weight is not None:
        softplus = softplus * ((wide(pos_weight) - 1) * y + 1)
    loss = (1 - y) * x + softplus
    return _reduced(loss if weight is None else loss * wide(weight), reduction, dtype)


def _classes_last(self: Array) -> Array:
    """(C,), (N, C) or (N, C, *) with the classes last: (positions, C)."""
    if self.ndim == 1:
        return self[None]
    return np.moveaxis(self, 1, -1).reshape(len(self) * prod(self.shape[2:]), self.shape[1])


def _checked(target: Array, classes: int, ignore_index: int) -> tuple[Array, Array]:
    """Flat targets, and which of them count.

    Raises:
        IndexError: A target is not a class.
    """
    flat = target.reshape(-1)
    counted = flat != ignore_index
    wrong = counted & ((flat < 0) | (flat >= classes))
    if wrong.any():
        raise IndexError(f"Target {flat[wrong][0]} is out of bounds.")
    return np.where(counted, flat, 0), counted


def _class_weights(weight: Array | None, chosen: Array, counted: Array, dtype: np.dtype) -> Array:
    weights = counted.astype(dtype)
    return weights if weight is None else weights * wide(weight)[chosen]


@kernel("aten::nll_loss_forward", "aten::nll_loss2d_forward")
def nll_loss(
    self: Array, target: Array, weight: Array | None, reduction: int, ignore_index: int
) -> tuple[Array, Array]:
    """Minus the log-probability of each target, and the total weight that a mean divides by.

    Args:
        self: Log-probabilities (C,), (N, C) or (N, C, *).
        target: Classes, in self's shape without C.
        weight: One for each class.
        reduction: 0 none, 1 mean, 2 sum.
        ignore_index: The target that counts for nothing.

    Raises:
        IndexError: A target is not a class.
        ValueError: There is not one weight for each class.
    """
    rows = _classes_last(wide(self))
    if weight is not None and weight.shape != rows.shape[1:]:
        raise ValueError(f"weights of shape {weight.shape} for {rows.shape[1]} classes")
    chosen, counted = _checked(target, rows.shape[1], ignore_index)
    weights = _class_weights(weight, chosen, counted, rows.dtype)
    loss = -rows[np.arange(chosen.size), chosen] * weights
    loss = np.where(counted, loss, rows.dtype.type(0))
    if reduction == 0 and self.ndim > 1:
        return rounded(loss.reshape(target.shape), self.dtype), np.zeros((), self.dtype)
    total, count = np.sum(loss), np.sum(weights)
    result = total / count if reduction == MEAN else total
    return rounded(np.asarray(result), self.dtype), rounded(np.asarray(count), self.dtype)


@kernel("aten::nll_loss_backward", "aten::nll_loss2d_backward")
def nll_loss_backward(
    grad_output: Array,
    self: Array,
    target: Array,
    weight: Array | None,
    reduction: int,
    ignore_index: int,
    total_weight: Array,
) -> Array:
    """The gradient of nll_loss: minus the weight at each target, 0 elsewhere."""
    classes = self.shape[0] if self.ndim == 1 else self.shape[1]
    chosen, counted = _checked(target, classes, ignore_index)
    grad = wide(grad_output)
    share = _class_weights(weight, chosen, counted, grad.dtype) * (grad.reshape(-1) if reduction == 0 else grad)
    if reduction == MEAN:
        share = share / wide(total_weight)
    rows = np.zeros((chosen.size, classes), grad.dtype)
    rows[np.arange(chosen.size), chosen] = np.where(counted, -share, grad.dtype.type(0))
    if self.ndim <= 2:
        return rounded(rows.reshape(self.shape), self.dtype)
    back = np.moveaxis(rows.reshape(self.shape[0], *self.shape[2:], classes), -1, 1)
    return rounded(np.ascontiguousarray(back), self.dtype)
