"""Factorizations L D L^T of symmetric matrices that need not be positive definite, and systems solved with them.

D has blocks of one and two rows, chosen as LAPACK's `sytf2` and `hetf2` choose them for the lower triangle (Bunch and
Kaufman). A positive pivot p says that row p - 1 came here; two equal negative ones mark a block of two rows whose
second is row -p - 1. Computed in double precision and rounded once.
"""

from __future__ import annotations

from math import prod, sqrt

import numpy as np

from gpu2npu.emulator.kernels.linalg.factorisations import double
from gpu2npu.emulator.kernels.promotion import I32, Array
from gpu2npu.emulator.kernels.registry import kernel

THRESHOLD = (1 + sqrt(17)) / 8


def _size(x: Array) -> Array:
    return np.abs(x.real) + np.abs(x.imag)


def _swapped(x: Array, hermitian: bool) -> Array:
    """The transpose, or the adjoint of a Hermitian problem."""
    turned = np.swapaxes(x, -2, -1)
    return np.conj(turned) if hermitian else turned


def _chosen(a: Array, k: int) -> tuple[int, int]:
    """The row to bring forward at step k, and how many rows the block has; -1 where the column is zero."""
    diagonal = float(_size(a[k, k]))
    below = _size(a[k + 1 :, k])
    largest = float(below.max(initial=0))
    if max(diagonal, largest) == 0:
        return -1, 1
    if diagonal >= THRESHOLD * largest:
        return k, 1
    row = k + 1 + int(np.argmax(below))
    others = _size(a[row, k:])
    others[row - k] = 0
    widest = float(others.max())
    if diagonal >= THRESHOLD * largest * (largest / widest):
        return k, 1
    return row, 1 if float(_size(a[row, row])) >= THRESHOLD * widest else 2


def _exchange(a: Array, k: int, one: int, other: int) -> None:
    """Exchange two rows and columns of what is left from row k on."""
    a[[one, other], k:] = a[[other, one], k:]
    a[k:, [one, other]] = a[k:, [other, one]]


def _factor(matrix: Array, hermitian: bool) -> tuple[Array, Array, int]:
    """L and D in one lower triangle, the pivots and the first zero block (1-based; 0 where there is none)."""
    lower = np.tril(matrix, -1)
    diagonal = np.diagonal(matrix).real if hermitian else np.diagonal(matrix)
    a = lower + _swapped(lower, hermitian) + np.diag(diagonal)
    n, k, info = len(a), 0, 0
    pivots = np.zeros(n, I32)
    while k < n:
        row, step = _chosen(a, k)
        end = k + step
        if row < 0:
            row, info = k, info or k + 1
        elif row != end - 1:
            _exchange(a, k, end - 1, row)
        pivots[k:end] = row + 1 if step == 1 else -(row + 1)
        if np.any(a[k:end, k:end]):
            rest = a[end:, k:end].copy()
            factor = rest @ np.linalg.inv(a[k:end, k:end])
            a[end:, end:] -= factor @ _swapped(rest, hermitian)
            a[end:, k:end] = factor
        k = end
    return np.tril(a), pivots, info


@kernel("aten::linalg_ldl_factor_ex")
def ldl_factor_ex(self: Array, *, hermitian: bool = False, check_errors: bool = False) -> tuple[Array, Array, Array]:
    """L and D in one lower triangle (..., n, n), the pivots (..., n) and `info` (...).

    Raises:
        ValueError: A block of D is zero and errors are to be checked.
    """
    *batch, n, _ = self.shape
    factors, pivots = np.zeros((prod(batch), n, n), double(self).dtype), np.zeros((prod(batch), n), I32)
    info = np.zeros(prod(batch), I32)
    for i, matrix in enumerate(double(self).reshape(prod(batch), n, n)):
        factors[i], pivots[i], info[i] = _factor(matrix, hermitian and self.dtype.kind == "c")
    if check_errors and info.any():
        raise ValueError("a block of D is zero")
    return factors.reshape(self.shape).astype(self.dtype), pivots.reshape(*batch, n), info.reshape(batch)


def _blocks(pivots: Array) -> list[tuple[int, int, int]]:
    """Start, end and the row that was brought to the end, of each block."""
    found, k = [], 0
    while k < len(pivots):
        end = k + (1 if pivots[k] > 0 else 2)
        found.append((k, end, abs(int(pivots[k])) - 1))
        k = end
    return found


def _solved(factors: Array, pivots: Array, b: Array, hermitian: bool) -> Array:
    x = b.copy()
    blocks = _blocks(pivots)
    for start, end, row in blocks:
        x[[end - 1, row]] = x[[row, end - 1]]
        x[end:] -= factors[end:, start:end] @ x[start:end]
        block = np.tril(factors[start:end, start:end])
        block = block + _swapped(np.tril(block, -1), hermitian)
        x[start:end] = np.linalg.solve(block, x[start:end])
    for start, end, row in reversed(blocks):
        x[start:end] -= _swapped(factors[end:, start:end], hermitian) @ x[end:]
        x[[end - 1, row]] = x[[row, end - 1]]
    return x


@kernel("aten::linalg_ldl_solve")
def ldl_solve(
    LD: Array,  # noqa: N803
    pivots: Array,
    B: Array,  # noqa: N803
    *,
    hermitian: bool = False,
) -> Array:
    """X with A X = B, for A in factors (..., n, n) with pivots (..., n), and B (..., n, k)."""
    n, columns = B.shape[-2:]
    batch = np.broadcast_shapes(LD.shape[:-2], B.shape[:-2])
    factors = np.broadcast_to(double(LD), (*batch, n, n)).reshape(prod(batch), n, n)
    order = np.broadcast_to(pivots, (*batch, n)).reshape(prod(batch), n)
    right = np.broadcast_to(double(B), (*batch, n, columns)).reshape(prod(batch), n, columns)
    out = np.empty(right.shape, right.dtype)
    for i in range(len(out)):
        out[i] = _solved(factors[i], order[i], right[i], hermitian and LD.dtype.kind == "c")
    return out.reshape(*batch, n, columns).astype(B.dtype)
