"""Eigenvalues, singular values and the matrix exponential. Double precision, rounded once."""

from __future__ import annotations

from typing import Literal

import numpy as np

from gpu2npu.emulator.kernels.linalg.factorisations import double
from gpu2npu.emulator.kernels.promotion import C64, C128, F64, Array, real_dtype
from gpu2npu.emulator.kernels.registry import kernel

# Terms of the exponential's series, enough for double precision where the norm is at most 1.
_TERMS = 18


@kernel("aten::_linalg_svd")
def svd(
    A: Array,  # noqa: N803
    full_matrices: bool = False,
    compute_uv: bool = True,
    *,
    driver: str | None = None,
) -> tuple[Array, Array, Array]:
    """U, S and V^H with A = U S V^H, singular values descending; U and V^H are empty unless asked for.

    Raises:
        ValueError: Values are not finite.
    """
    real = real_dtype(A.dtype)
    if not compute_uv:
        empty = np.zeros(0, A.dtype)
        return empty, np.linalg.svd(double(A), compute_uv=False).astype(real), empty
    u, s, vh = np.linalg.svd(double(A), full_matrices=full_matrices)
    return u.astype(A.dtype), s.astype(real), vh.astype(A.dtype)


@kernel("aten::_linalg_eigh")
def eigh(A: Array, UPLO: str = "L", compute_v: bool = True) -> tuple[Array, Array]:  # noqa: N803
    """Ascending eigenvalues and eigenvectors of symmetric or Hermitian matrices, of which one triangle is read."""
    triangle: Literal["L", "U"] = "U" if UPLO in "Uu" else "L"
    if not compute_v:
        return np.linalg.eigvalsh(double(A), triangle).astype(real_dtype(A.dtype)), np.zeros(0, A.dtype)
    values, vectors = np.linalg.eigh(double(A), triangle)
    return values.astype(real_dtype(A.dtype)), vectors.astype(A.dtype)


def _complex(dtype: np.dtype) -> np.dtype:
    return C128 if dtype in (F64, C128) else C64


@kernel("aten::linalg_eig")
def eig(self: Array) -> tuple[Array, Array]:
    """Complex eigenvalues and eigenvectors of norm 1."""
    values, vectors = np.linalg.eig(double(self))
    return values.astype(_complex(self.dtype)), vectors.astype(_complex(self.dtype))


@kernel("aten::_linalg_eigvals")
def eigvals(self: Array) -> Array:
    """Complex eigenvalues."""
    return np.linalg.eigvals(double(self)).astype(_complex(self.dtype))


@kernel("aten::linalg_matrix_exp")
def matrix_exp(self: Array) -> Array:
    """The exponential of each matrix: the series of a power-of-two fraction of it, squared as often."""
    a = double(self)
    if not a.size:
        return self.copy()
    norm = np.max(np.sum(np.abs(a), axis=-2), axis=-1)
    halvings = np.maximum(np.ceil(np.log2(np.maximum(norm, 1))), 0).astype(np.int64)
    scaled = a / np.exp2(halvings)[..., None, None]
    result = np.broadcast_to(np.eye(a.shape[-1], dtype=a.dtype), a.shape).copy()
    for term in range(_TERMS, 0, -1):
        result = np.eye(a.shape[-1], dtype=a.dtype) + scaled @ result / term
    for step in range(int(halvings.max())):
        result = np.where((step < halvings)[..., None, None], result @ result, result)
    return result.astype(self.dtype)
