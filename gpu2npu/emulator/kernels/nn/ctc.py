"""Connectionist temporal classification (Graves et al. 2006): the loss of unaligned sequences, and its gradient.

In float64 on the log scale, one batch element after another, as steps over time of the whole label sequence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gpu2npu.emulator.kernels.promotion import F64, Array, rounded
from gpu2npu.emulator.kernels.registry import kernel

Lengths = Sequence[int] | Array


def _targets(targets: Array, lengths: Sequence[int], blank: int) -> Iterator[Array]:
    """Each target sequence with blanks around its labels; targets are (N, S) or all in a row."""
    start = 0
    for number, length in enumerate(lengths):
        labels = targets[number, :length] if targets.ndim == 2 else targets[start : start + length]
        start += length
        extended = np.full(2 * length + 1, blank, np.int64)
        extended[1::2] = labels
        yield extended


def _skips(labels: Array) -> Array:
    """Return a mask of the positions that can be reached from two before: labels unlike the one before them."""
    skips = np.zeros(len(labels), bool)
    skips[3::2] = labels[3::2] != labels[1:-2:2]
    return skips


def _shifted(state: Array, by: int) -> Array:
    out = np.full_like(state, -np.inf)
    if by > 0:
        out[by:] = state[:-by]
    else:
        out[:by] = state[-by:]
    return out


def _ints(lengths: Lengths) -> list[int]:
    return [int(each) for each in lengths]


@kernel("aten::_ctc_loss")
def ctc_loss(
    log_probs: Array,
    targets: Array,
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int = 0,
    zero_infinity: bool = False,
) -> tuple[Array, Array]:
    """Minus the log likelihood of each target (N,), and the log forward variables (N, T, 2 * longest target + 1).

    Args:
        log_probs: (T, N, classes), or (T, classes) of one sequence.
        targets: (N, S), or all targets in a row.
        input_lengths: N numbers, at most T.
        target_lengths: N numbers.
        blank: The class of no label.
        zero_infinity: Not used here: torch zeroes the losses of impossible alignments itself.
    """
    batched = log_probs.astype(F64) if log_probs.ndim == 3 else log_probs.astype(F64)[:, None]
    steps, sizes = _ints(input_lengths), _ints(target_lengths)
    alpha = np.full((len(sizes), batched.shape[0], 2 * max(sizes) + 1), -np.inf)
    losses = np.zeros(len(sizes))
    for number, labels in enumerate(_targets(targets, sizes, blank)):
        emitted = batched[:, number, :][:, labels]
        skips = _skips(labels)
        width = len(labels)
        if steps[number] == 0:
            losses[number] = 0 if sizes[number] == 0 else np.inf
            continue
        state = np.full(width, -np.inf)
        state[:2] = emitted[0, :2]
        alpha[number, 0, :width] = state
        for t in range(1, steps[number]):
            skipped = np.where(skips, _shifted(state, 2), -np.inf)
            state = np.logaddexp(np.logaddexp(state, _shifted(state, 1)), skipped) + emitted[t]
            alpha[number, t, :width] = state
        losses[number] = -np.logaddexp.reduce(state[-2:])
    alpha = alpha.astype(log_probs.dtype)
    losses = losses.astype(log_probs.dtype)
    return (losses, alpha) if log_probs.ndim == 3 else (losses.reshape(()), alpha)


@kernel("aten::_ctc_loss_backward")
def ctc_loss_backward(
    grad: Array,
    log_probs: Array,
    targets: Array,
    input_lengths: Lengths,
    target_lengths: Lengths,
    neg_log_likelihood: Array,
    log_alpha: Array,
    blank: int,
    zero_infinity: bool = False,
) -> Array:
    """The gradient for log_probs, as though they were a log softmax's: exp(log_probs) less the posterior."""
    batched = log_probs.astype(F64) if log_probs.ndim == 3 else log_probs.astype(F64)[:, None]
    steps, sizes = _ints(input_lengths), _ints(target_lengths)
    losses = neg_log_likelihood.astype(F64).reshape(-1)
    scale = np.broadcast_to(grad.astype(F64).reshape(-1), losses.shape)
    out = np.zeros(batched.shape)
    for number, labels in enumerate(_targets(targets, sizes, blank)):
        length = steps[number]
        if length == 0 or (zero_infinity and np.isinf(losses[number])):
            continue
        logs = batched[:length, number, :]
        emitted = logs[:, labels]
        skips = np.roll(_skips(labels), -2)
        state = np.full(len(labels), -np.inf)
        state[-2:] = emitted[-1, -2:]
        beta = np.empty((length, len(labels)))
        beta[-1] = state
        for t in range(length - 2, -1, -1):
            skipped = np.where(skips, _shifted(state, -2), -np.inf)
            state = np.logaddexp(np.logaddexp(state, _shifted(state, -1)), skipped) + emitted[t]
            beta[t] = state
        paths = log_alpha[number, :length, : len(labels)].astype(F64) + beta
        posterior = np.full(logs.shape, -np.inf)
        for position, label in enumerate(labels):
            posterior[:, label] = np.logaddexp(posterior[:, label], paths[:, position])
        out[:length, number] = (np.exp(logs) - np.exp(posterior + losses[number] - logs)) * scale[number]
    return rounded(out.reshape(log_probs.shape), log_probs.dtype)
