"""Factorizations of batches of matrices: LU, Cholesky, QR and Householder reflections.

Computed in double precision and rounded once. Loops run over columns, each step over the whole batch.
"""

from __future__ import annotations

from math import prod

import numpy as np

from gpu2npu.emulator.kernels.promotion import C128, F64, I32, Array
from gpu2npu.emulator.kernels.registry import kernel


def double(x: Array) -> Array:
    """A float64 or complex128 copy."""
    return x.astype(C128 if x.dtype.kind == "c" else F64)


def adjoint(x: Array) -> Array:
    """The conjugate transpose of each matrix."""
    return np.conj(np.swapaxes(x, -2, -1))


def lu_factor(matrix: Array, pivot: bool = True) -> tuple[Array, Array, Array]:
    """L below and U on and above the diagonal (m, n), 1-based row exchanges (min(m, n)) and where the first pivot is 0.

    In double precision, as LAPACK's getrf: the exchanges and `info` are int32, `info` 0 where no pivot is 0.
    """
    *batch, rows, columns = matrix.shape
    steps = min(rows, columns)
    a = double(matrix).reshape(prod(batch), rows, columns)
    each = np.arange(len(a))
    pivots = np.tile(np.arange(1, steps + 1, dtype=I32), (len(a), 1))
    info = np.zeros(len(a), I32)
    for j in range(steps):
        if pivot and len(a):
            column = a[:, j:, j]
            size = np.abs(column.real) + np.abs(column.imag) if a.dtype == C128 else np.abs(column)
            chosen = np.argmax(size, axis=1) + j
            pivots[:, j] = chosen + 1
            upper, lower = a[each, j], a[each, chosen]
            a[each, j], a[each, chosen] = lower, upper
        value = a[:, j, j]
        info = np.where((value == 0) & (info == 0), j + 1, info).astype(I32)
        factor = a[:, j + 1 :, j] / np.where(value == 0, 1, value)[:, None]
        a[:, j + 1 :, j] = factor
        a[:, j + 1 :, j + 1 :] -= factor[:, :, None] * a[:, j, None, j + 1 :]
    return a.reshape(matrix.shape), pivots.reshape(*batch, steps), info.reshape(batch)


def permutation(pivots: Array, rows: int) -> Array:
    """The order of rows (..., rows) that exchanges lead to: row i of P^T A is row order[i] of A."""
    flat = pivots.reshape(prod(pivots.shape[:-1]), pivots.shape[-1])
    order = np.tile(np.arange(rows), (len(flat), 1))
    each = np.arange(len(flat))
    for j in range(flat.shape[1]):
        other = flat[:, j].astype(np.int64) - 1
        upper, lower = order[each, j], order[each, other]
        order[each, j], order[each, other] = lower, upper
    return order.reshape(*pivots.shape[:-1], rows)


@kernel("aten::linalg_lu_factor_ex")
def linalg_lu_factor(
    A: Array,  # noqa: N803
    *,
    pivot: bool = True,
    check_errors: bool = False,
) -> tuple[Array, Array, Array]:
    """LU in one matrix, the row exchanges and `info`.

    Raises:
        ValueError: A pivot is zero and errors are to be checked.
    """
    factors, pivots, info = lu_factor(A, pivot)
    if check_errors and info.any():
        raise ValueError("a pivot is zero")
    return factors.astype(A.dtype), pivots, info


def _triangles(factors: Array) -> tuple[Array, Array]:
    """L, with ones on its diagonal, and U of a packed factorization."""
    rows, columns = factors.shape[-2:]
    steps = min(rows, columns)
    lower = np.tril(factors[..., :, :steps], -1) + np.eye(rows, steps, dtype=factors.dtype)
    return lower, np.triu(factors[..., :steps, :])


def _exchanges(pivots: Array, factors: Array) -> Array:
    """P, the matrix (..., rows, rows) of the row exchanges."""
    rows = factors.shape[-2]
    return np.swapaxes(np.eye(rows, dtype=factors.dtype)[permutation(pivots, rows)], -2, -1)


@kernel("aten::lu_unpack")
def lu_unpack(
    LU_data: Array,  # noqa: N803
    LU_pivots: Array,  # noqa: N803
    unpack_data: bool = True,
    unpack_pivots: bool = True,
) -> tuple[Array, Array, Array]:
    """P, L and U of a packed factorization; empty what is not requested."""
    nothing = np.zeros(0, LU_data.dtype)
    placed = _exchanges(LU_pivots, LU_data) if unpack_pivots else nothing
    return placed, *(_triangles(LU_data) if unpack_data else (nothing, nothing))


@kernel("aten::linalg_lu")
def linalg_lu(A: Array, *, pivot: bool = True) -> tuple[Array, Array, Array]:  # noqa: N803
    """P, L and U with A = P L U; P is empty without pivoting."""
    factors, pivots, _ = lu_factor(A, pivot)
    factors = factors.astype(A.dtype)
    return _exchanges(pivots, factors) if pivot else np.zeros(0, A.dtype), *_triangles(factors)


def cholesky_factor(matrix: Array, upper: bool) -> tuple[Array, Array]:
    """The lower factor in double precision, read from one triangle, and `info`: the order of the first bad minor."""
    a = adjoint(double(matrix)) if upper else double(matrix)
    batch, n = a.shape[:-2], a.shape[-1]
    a = a.reshape(prod(batch), n, n)
    factor = np.zeros_like(a)
    info = np.zeros(len(a), I32)
    for j in range(n):
        row = factor[:, j, :j]
        square = a[:, j, j].real - np.sum(np.abs(row) ** 2, axis=1)
        bad = ~(square > 0)
        info = np.where(bad & (info == 0), j + 1, info).astype(I32)
        diagonal = np.sqrt(np.where(bad, 1, square))
        factor[:, j, j] = diagonal
        below = a[:, j + 1 :, j] - np.einsum("bik,bk->bi", factor[:, j + 1 :, :j], np.conj(row))
        factor[:, j + 1 :, j] = below / diagonal[:, None]
    return factor.reshape(matrix.shape), info.reshape(batch)


@kernel("aten::linalg_cholesky_ex")
def cholesky_ex(self: Array, *, upper: bool = False, check_errors: bool = False) -> tuple[Array, Array]:
    """The triangular factor of positive definite matrices, and `info`.

    Raises:
        ValueError: One is not positive definite and errors are to be checked.
    """
    factor, info = cholesky_factor(self, upper)
    if check_errors and info.any():
        raise ValueError("a matrix is not positive definite")
    return (adjoint(factor) if upper else factor).astype(self.dtype), info


@kernel("aten::cholesky")
def cholesky(self: Array, upper: bool = False) -> Array:
    """The triangular factor of positive definite matrices.

    Raises:
        ValueError: One is not positive definite.
    """
    return cholesky_ex(self, upper=upper, check_errors=True)[0]


@kernel("aten::linalg_qr")
def qr(A: Array, mode: str = "reduced") -> tuple[Array, Array]:  # noqa: N803
    """Q and R with A = Q R; Q is empty in mode "r"."""
    if mode == "r":
        return np.zeros(0, A.dtype), np.asarray(np.linalg.qr(double(A), mode="r")).astype(A.dtype)
    q, r = np.linalg.qr(double(A), mode=mode)  # type: ignore[call-overload]
    return q.astype(A.dtype), r.astype(A.dtype)


@kernel("aten::geqrf")
def geqrf(self: Array) -> tuple[Array, Array]:
    """R on and above the diagonal, Householder vectors below it, and their factors tau."""
    reflectors, tau = np.linalg.qr(double(self), mode="raw")
    return np.swapaxes(reflectors, -2, -1).astype(self.dtype), tau.astype(self.dtype)


def _reflect(target: Array, reflectors: Array, tau: Array, inverse: bool) -> Array:
    """H1 H2 ... Hk target, or the inverse product applied to it; Hi = 1 - tau_i v_i v_i^H."""
    count, rows = tau.shape[-1], reflectors.shape[-2]
    factors = np.conj(tau) if inverse else tau
    for i in range(count) if inverse else reversed(range(count)):
        v = np.zeros((*reflectors.shape[:-2], rows), target.dtype)
        v[..., i] = 1
        v[..., i + 1 :] = reflectors[..., i + 1 :, i]
        along = np.conj(v)[..., None, :] @ target
        target = target - factors[..., i, None, None] * v[..., :, None] * along
    return target


@kernel("aten::linalg_householder_product")
def householder_product(input: Array, tau: Array) -> Array:  # noqa: A002
    """The first columns of the product of reflections whose vectors are below the diagonal of `input` (m, n)."""
    start = np.broadcast_to(np.eye(*input.shape[-2:], dtype=double(input[..., :0]).dtype), input.shape)
    return _reflect(start, double(input), double(tau), inverse=False).astype(input.dtype)


@kernel("aten::ormqr")
def ormqr(self: Array, input2: Array, input3: Array, left: bool = True, transpose: bool = False) -> Array:
    """The product of the reflections in `self` with factors `input2`, or its adjoint, times `input3`."""
    target = double(input3)
    reflectors, tau = double(self), double(input2)
    if left:
        return _reflect(target, reflectors, tau, inverse=transpose).astype(input3.dtype)
    return adjoint(_reflect(adjoint(target), reflectors, tau, inverse=not transpose)).astype(input3.dtype)
