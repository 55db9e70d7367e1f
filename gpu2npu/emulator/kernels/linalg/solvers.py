"""Linear systems: triangular, general, least squares; inverses and determinants. Double precision, rounded once."""

from __future__ import annotations

import numpy as np

from gpu2npu.emulator.kernels.linalg.factorisations import adjoint, double, lu_factor, permutation
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


@kernel("aten::cholesky_inverse")
def cholesky_inverse(self: Array, upper: bool = False) -> Array:
    """The inverse of the matrix whose triangular factor is given."""
    return cholesky_solve(np.broadcast_to(np.eye(self.shape[-1], dtype=self.dtype), self.shape), self, upper)


@kernel("aten::_cholesky_solve_helper")
def cholesky_solve(self: Array, A: Array, upper: bool) -> Array:  # noqa: N803
    """X with M X = self for the matrix M whose triangular factor is A."""
    lower = adjoint(double(A)) if upper else double(A)
    return substitute(adjoint(lower), substitute(lower, double(self), False), True).astype(self.dtype)


def _solve_factored(factors: Array, order: Array, b: Array, adjoined: bool) -> Array:
    """X with A X = b, or A^H X = b, for A = P L U in double precision."""
    batch = np.broadcast_shapes(factors.shape[:-2], b.shape[:-2])
    order = np.broadcast_to(order, (*batch, order.shape[-1]))[..., None]
    b = np.broadcast_to(b, (*batch, *b.shape[-2:]))
    if not adjoined:
        return substitute(factors, substitute(factors, np.take_along_axis(b, order, -2), False, True), True)
    turned = adjoint(factors)
    x = substitute(turned, substitute(turned, b, False), True, True)
    return np.take_along_axis(x, np.argsort(order, axis=-2), -2)


def _solve_lu(factors: Array, pivots: Array, b: Array, left: bool, adjoined: bool) -> Array:
    order = permutation(pivots, factors.shape[-2])
    if left:
        return _solve_factored(factors, order, b, adjoined)
    return adjoint(_solve_factored(factors, order, adjoint(b), not adjoined))


@kernel("aten::linalg_lu_solve")
def lu_solve(
    LU: Array,  # noqa: N803
    pivots: Array,
    B: Array,  # noqa: N803
    *,
    left: bool = True,
    adjoint: bool = False,
) -> Array:
    """X with A X = B, or X A = B, for a factored A or its adjoint."""
    return _solve_lu(double(LU), pivots, double(B), left, adjoint).astype(B.dtype)


@kernel("aten::_linalg_solve_ex")
def solve(
    A: Array,  # noqa: N803
    B: Array,  # noqa: N803
    *,
    left: bool = True,
    check_errors: bool = False,
) -> tuple[Array, Array, Array, Array]:
    """X with A X = B, or X A = B, of vectors or matrices, then LU, its pivots and `info`.

    Raises:
        ValueError: A is singular and errors are to be checked.
    """
    factors, pivots, info = lu_factor(A)
    if check_errors and info.any():
        raise ValueError("a matrix is singular")
    is_vector = B.ndim == 1 or (A.ndim - 1 == B.ndim and B.shape == A.shape[:-1])
    b = double(B[..., None] if is_vector else B)
    x = _solve_lu(factors, pivots, b, left, False)
    return (x[..., 0] if is_vector else x).astype(B.dtype), factors.astype(A.dtype), pivots, info


@kernel("aten::linalg_inv_ex")
def inverse(A: Array, *, check_errors: bool = False) -> tuple[Array, Array]:  # noqa: N803
    """The inverse, and `info`, which is not 0 for singular matrices.

    Raises:
        ValueError: A is singular and errors are to be checked.
    """
    factors, pivots, info = lu_factor(A)
    if check_errors and info.any():
        raise ValueError("a matrix is singular")
    unit = np.broadcast_to(np.eye(A.shape[-1], dtype=factors.dtype), A.shape)
    return _solve_lu(factors, pivots, unit, True, False).astype(A.dtype), info


def _sign(pivots: Array) -> Array:
    exchanged = np.count_nonzero(pivots != np.arange(1, pivots.shape[-1] + 1), axis=-1)
    return 1 - 2 * (np.asarray(exchanged) % 2)


def _factored_for_determinant(matrix: Array) -> tuple[Array, Array]:
    """LU and pivots; of the transpose where torch factors that, since its gradient solves with what it expects."""
    transposed = matrix.flags.c_contiguous and matrix.dtype.kind != "c"
    factors, pivots, _ = lu_factor(np.swapaxes(matrix, -2, -1) if transposed else matrix)
    return factors, pivots


@kernel("aten::_linalg_det")
def determinant(A: Array) -> tuple[Array, Array, Array]:  # noqa: N803
    """The determinant, LU and its pivots."""
    factors, pivots = _factored_for_determinant(A)
    diagonal = np.diagonal(factors, axis1=-2, axis2=-1)
    value = np.prod(diagonal, axis=-1) * _sign(pivots)
    return np.asarray(value).astype(A.dtype), factors.astype(A.dtype), pivots


@kernel("aten::_linalg_slogdet")
def log_determinant(A: Array) -> tuple[Array, Array, Array, Array]:  # noqa: N803
    """The determinant's sign (complex: its direction), the logarithm of its magnitude, LU and its pivots."""
    factors, pivots = _factored_for_determinant(A)
    diagonal = np.diagonal(factors, axis1=-2, axis2=-1)
    magnitude = np.abs(diagonal)
    direction = np.where(magnitude == 0, 0, diagonal / np.where(magnitude == 0, 1, magnitude))
    sign = np.prod(direction, axis=-1) * _sign(pivots)
    logarithm = np.sum(np.log(magnitude), axis=-1)
    results = np.asarray(sign).astype(A.dtype), np.asarray(logarithm).astype(real_dtype(A.dtype))
    return *results, factors.astype(A.dtype), pivots


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
