"""torch_npu's fused cross entropies."""

from __future__ import annotations

import numpy as np

from gpu2npu.emulator.kernels.nn.softmax import log_softmax
from gpu2npu.emulator.kernels.promotion import F32, Array, rounded, wide
from gpu2npu.emulator.kernels.registry import kernel
from gpu2npu.emulator.npu_ops.arguments import Arguments, by_schema


def _row_weights(target: Array, weight: Array | None, ignore_index: int) -> tuple[Array, Array]:
    """Each row's weight, 0 where it is ignored, and the target.

    A negative ignore_index ignores nothing:
    https://www.hiascend.com/document/detail/zh/Pytorch/700/apiref/apilist/ptaoplist_000146.html
    """
    counts = np.ones(target.shape, np.float32) if ignore_index < 0 else (target != ignore_index).astype(np.float32)
    return (counts if weight is None else counts * wide(weight)[target]), target


def _smoothed(log_prob: Array, weight: Array | None) -> Array:
    """The smoothing term of each row: minus the weighted sum of all its log probabilities."""
    return -(log_prob if weight is None else log_prob * wide(weight)).sum(axis=1)


@by_schema(kernel, "npu::npu_cross_entropy_loss")
def npu_cross_entropy_loss(a: Arguments) -> tuple[Array, Array, Array, Array]:
    """Cross entropy of (N, C) logits and (N,) classes.

    Returns:
        The loss, of shape (1,), or (N,) where it is not reduced; log probabilities (N, C); two empty tensors.
    """
    log_prob = log_softmax(wide(a.input), 1)
    weights, safe = _row_weights(a.target, a.weight, a.ignore_index)
    loss = -np.take_along_axis(log_prob, safe[:, None], 1)[:, 0] * weights
    if a.label_smoothing:
        smooth = np.where(weights > 0, _smoothed(log_prob, a.weight), 0) / np.float32(a.input.shape[1])
        loss = loss * np.float32(1 - a.label_smoothing) + smooth * np.float32(a.label_smoothing)
    if a.reduction != "none":
        loss = np.asarray(loss.sum(), F32).reshape(1)
        if a.reduction == "mean":
            loss = loss / weights.sum()
    empty = np.empty(0, a.input.dtype)
    return rounded(loss, a.input.dtype), rounded(log_prob, a.input.dtype), empty, empty.copy()


@by_schema(kernel, "npu::npu_cross_entropy_loss_backward")
def npu_cross_entropy_loss_backward(a: Arguments) -> Array:
    """The gradient for the logits, (N, C)."""
    p = np.exp(wide(a.log_prob))
    classes = a.log_prob.shape[1]
    weights, safe = _row_weights(a.target, a.weight, a.ignore_index)
    grad = wide(a.grad_loss)
    if a.reduction == "mean":
        grad = grad / weights.sum()
    grad = np.broadcast_to(grad, a.target.shape)
    rows = (grad * weights * np.float32(1 - a.label_smoothing))[:, None]
    result = p * rows
    np.put_along_axis(result, safe[:, None], np.take_along_axis(result, safe[:, None], 1) - rows, 1)
    if a.label_smoothing:
        every = np.ones(classes, np.float32) if a.weight is None else wide(a.weight)
        share = np.where(weights > 0, grad, 0)[:, None] * np.float32(a.label_smoothing / classes)
        result += share * (p * every.sum() - every)
    return rounded(result, a.log_prob.dtype)


@kernel("npu::npu_softmax_cross_entropy_with_logits")
def npu_softmax_cross_entropy_with_logits(self: Array, labels: Array) -> Array:
    """(N,) cross entropies of (N, C) logits with (N, C) probabilities."""
    return rounded(-(log_softmax(wide(self), 1) * wide(labels)).sum(axis=1), self.dtype)


@kernel("npu::npu_softmax_cross_entropy_with_logits_backward")
def npu_softmax_cross_entropy_with_logits_backward(grad: Array, self: Array, labels: Array) -> Array:
    """The gradient for the logits: (softmax - labels) of each row times its gradient, as CANN's kernel has it."""
    return rounded((np.exp(log_softmax(wide(self), 1)) - wide(labels)) * wide(grad)[:, None], self.dtype)
