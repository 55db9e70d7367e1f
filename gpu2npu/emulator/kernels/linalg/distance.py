"""Distances between rows, and limits on them."""

from __future__ import annotations

import numpy as np

from gpu2npu.emulator.kernels.promotion import Array, Number, rounded, wide
from gpu2npu.emulator.kernels.reduce.reduce import vector_norm
from gpu2npu.emulator.kernels.registry import kernel


def _differences(x1: Array, x2: Array) -> Array:
    """Every row of x1 less every row of x2: (*, n, m, width)."""
    return np.asarray(wide(x1)[..., :, None, :] - wide(x2)[..., None, :, :])


@kernel("aten::_cdist_forward")
def cdist(x1: Array, x2: Array, p: float, compute_mode: int | None) -> Array:
    """The p-norm distances of rows, (*, n, width) and (*, m, width) to (*, n, m)."""
    return rounded(vector_norm(_differences(x1, x2), p, [-1]), x1.dtype)


@kernel("aten::_cdist_backward")
def cdist_backward(grad: Array, x1: Array, x2: Array, p: float, cdist: Array) -> Array:
    """The gradient for x1; 0 where the distance is 0."""
    if not grad.size or not x1.size:
        return np.zeros_like(x1)
    difference = _differences(x1, x2)
    distance, scale = wide(cdist)[..., None], wide(grad)[..., None]
    sign = np.sign(difference)
    if p == 0:
        slope = np.zeros_like(difference)
    elif p == 1:
        slope = sign
    elif p == np.inf:
        slope = sign * (np.abs(difference) == distance)
    else:
        ratio = np.power(np.abs(difference) / distance, difference.dtype.type(p - 1))
        slope = np.where(distance == 0, difference.dtype.type(0), sign * ratio)
    return rounded(np.asarray((slope * scale).sum(axis=-2)), x1.dtype)


@kernel("aten::_pdist_forward")
def pdist(self: Array, p: float = 2) -> Array:
    """The p-norm distances of every two different rows of (n, width): (n * (n - 1) / 2,)."""
    first, second = np.triu_indices(self.shape[0], 1)
    x = wide(self)
    return rounded(vector_norm(np.asarray(x[first] - x[second]), p, [-1]), self.dtype)


@kernel("aten::_pdist_backward")
def pdist_backward(grad: Array, self: Array, p: float, pdist: Array) -> Array:
    """The gradient for the rows."""
    rows = self.shape[0]
    first, second = np.triu_indices(rows, 1)
    square_grad, distances = np.zeros((2, rows, rows), wide(self).dtype)
    square_grad[first, second] = square_grad[second, first] = wide(grad)
    distances[first, second] = distances[second, first] = wide(pdist)
    return rounded(cdist_backward(square_grad, wide(self), wide(self), p, distances), self.dtype)


@kernel("aten::renorm")
def renorm(self: Array, p: Number, dim: int, maxnorm: Number) -> Array:
    """Slices along `dim` scaled down to norm maxnorm where theirs is larger."""
    x = wide(self)
    others = [each for each in range(x.ndim) if each != dim % x.ndim]
    norms = vector_norm(x, p, others, True)
    limit = x.dtype.type(maxnorm.real)
    factor = np.where(norms > limit, limit / (norms + x.dtype.type(1e-7)), x.dtype.type(1))
    return rounded(np.asarray(x * factor), self.dtype)
