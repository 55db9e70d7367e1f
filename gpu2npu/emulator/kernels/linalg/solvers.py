"""Linear systems: triangular ones and least squares. Double precision, rounded once."""

from __future__ import annotations

import numpy as np

from gpu2npu.emulator.kernels.linalg.factorisations import adjoint, double
from gpu2npu.emulator.kernels.promotion import I64, Array, real_dtype
from gpu2npu.emulator.kernels.registry import kernel


def substitute(matrix: Array, b: Array, upper: bool, unitriangular: bool = False) -> Array:
    """x with T x = b for a triangle T of (..., n, n) and b (..., n, k), batches broadcast; inf where T is singular."""
    n = matrix.shape[-1]
    batch = np.broadcast_shapes(matrix.shape[:-2], b.shape[:-2])
    x = np.zeros((*batch, n, b.shape[-1]), np.result_type(matrix, b))
    for i in reversed(range(n)) if upper else range(n):
        known = slice(i + 1, None) if upper else slice(None, i)
        rest = b[..., i, :] - (matrix[..., i, None, known] @ x[..., known, :])[..., 0, :]
        x[..., i, :] = rest if unitriangular else rest / matrix[..., i, i, None]
    return x


@kernel("aten::linalg_solve_triangular")
def solve_triangular(
    self: Array,
    B: Array,  # noqa: N803
    *,
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
) -> Array:
    """X with self X = B, or X self = B; only one triangle of `self` is read."""
    a, b = double(self), double(B)
    if left:
        return substitute(a, b, upper, unitriangular).astype(B.dtype)
    turned = substitute(np.swapaxes(a, -2, -1), np.swapaxes(b, -2, -1), not upper, unitriangular)
    return np.swapaxes(turned, -2, -1).astype(B.dtype)


@kernel("aten::triangular_solve")
def triangular_solve(
    self: Array,
    A: Array,  # noqa: N803
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
) -> tuple[Array, Array]:
    """X with A X = self, A^T X = self where transposed, and A once more."""
    batch = np.broadcast_shapes(self.shape[:-2], A.shape[:-2])
    a = np.swapaxes(double(A), -2, -1) if transpose else double(A)
    x = substitute(a, double(self), upper != transpose, unitriangular).astype(self.dtype)
    return x, np.broadcast_to(A, (*batch, *A.shape[-2:])).copy()


@kernel("aten::linalg_lstsq")
def least_squares(
    self: Array, b: Array, rcond: float | None = None, *, driver: str | None = None
) -> tuple[Array, Array, Array, Array]:
    """The least-squares solution of least norm, residuals of overdetermined systems, ranks and singular values.

    As torch's CPU code: drivers "gelsy" (the default) and "gels" give no singular values, "gels" no ranks; residuals
    are empty with "gelsy", unless there are more rows than columns, and where a known rank is not full.
    """
    is_vector = b.ndim == 1 or (self.ndim - 1 == b.ndim and b.shape == self.shape[:-1])
    a, right = double(self), double(b[..., None] if is_vector else b)
    rows, columns = a.shape[-2:]
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    real = real_dtype(self.dtype)
    threshold = rcond if rcond is not None else float(np.finfo(real).eps) * max(rows, columns)
    largest = np.max(s, axis=-1, keepdims=True, initial=0)
    retained = s > threshold * largest
    inverse_s = np.where(retained, 1 / np.where(retained, s, 1), 0)
    x = adjoint(vh) @ (inverse_s[..., :, None] * (adjoint(u) @ right))
    rank = np.asarray(np.sum(retained, axis=-1)).astype(I64)
    empty = np.zeros(0, real)
    residuals = empty
    if rows > columns and (driver == "gels" or (driver in ("gelsd", "gelss") and (rank == columns).all())):
        residuals = np.sum(np.abs(a @ x - right) ** 2, axis=-2).astype(real)
    if is_vector:
        x = x[..., 0]
    ranks = np.zeros(0, I64) if driver == "gels" else rank
    return x.astype(self.dtype), residuals, ranks, s.astype(real) if driver in ("gelsd", "gelss") else empty
